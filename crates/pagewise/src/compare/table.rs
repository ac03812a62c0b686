//! The result in a terminal.

use pagewise_report::bytes;
use pagewise_report::count;
use pagewise_report::duration;
use pagewise_report::text::Style;

use super::comparison::Arm;
use super::comparison::ArmKind;
use super::comparison::Comparison;
use super::comparison::mean_speedup;
use super::statistics::Ratio;
use super::victim::Suffered;
use crate::columns::aligned;

pub(super) const HEADER: [&str; 9] = [
    "arm",
    "time",
    "range",
    "swap-ins",
    "swap-outs",
    "written",
    "read",
    "memory",
    "killed",
];

/// A larger share of swap-ins that are not the program's is told.
const MOST_OF_OTHERS: f64 = 0.05;

/// One table for each memory size, and what they say together.
pub(super) fn render(comparisons: &[Comparison], style: Style) -> String {
    let mut text = String::new();
    for comparison in comparisons {
        let title = format!("memory {}", bytes(comparison.memory_bytes));
        let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
        lines.extend(comparison.arms.iter().map(fields));
        if comparison.arms.iter().all(|arm| arm.killed == 0) {
            lines
                .iter_mut()
                .for_each(|line| line.truncate(HEADER.len() - 1));
        }
        text.push_str(&format!(
            "{}\n{}{}\n",
            style.bold(&title),
            aligned(&lines),
            comparison.judgement_in_words()
        ));
        text.push_str(&of_plan(comparison));
        text.push_str(&others(comparison));
        text.push_str(&latencies(comparison));
        text.push_str(&victims(comparison));
        text.push_str(&swapping_of_others(comparison));
        if let Some(otherwise) = swapping_otherwise(comparison) {
            text.push_str(&format!("{otherwise}\n"));
        }
        text.push_str(output_remark(comparison));
        text.push('\n');
    }
    if comparisons.len() > 1 {
        text.push_str(&together(comparisons));
    }
    text
}

/// What became of the plan in its last run: what matched nothing was not compared.
fn of_plan(comparison: &Comparison) -> String {
    let lines = comparison.of_plan().map(|of_plan| &of_plan.lines);
    let lines = lines.into_iter().flatten();
    lines.map(|line| format!("  {line}\n")).collect()
}

/// How the plan does against what one would type without it.
fn others(comparison: &Comparison) -> String {
    let mut text = String::new();
    for kind in [ArmKind::Mlock, ArmKind::Madvise] {
        let name = kind.name();
        if let Some(same) = comparison.arm(kind).and_then(|arm| arm.same_as) {
            text.push_str(&format!(
                "{name} is the same as {} here: what differs between them is chance\n",
                same.name()
            ));
        } else if let Some(ratio) = comparison.ratio(kind, ArmKind::Plan) {
            let value = ratio.value;
            text.push_str(&format!(
                "{value:.2} times as fast as with {name} alone ({ratio})\n"
            ));
        }
    }
    text
}

/// How long swap-ins took, where runs were recorded.
fn latencies(comparison: &Comparison) -> String {
    let line = |arm: &Arm| {
        let latency = arm.latency?;
        let [half, p99, p999] = [latency.half_ns, latency.p99_ns, latency.p999_ns].map(duration);
        Some(format!(
            "swap-ins of {}: half within {half}, 99 % within {p99}, 99.9 % within {p999} ({} waited for, recorded)\n",
            arm.kind.name(),
            count(latency.swap_ins)
        ))
    };
    comparison.arms.iter().filter_map(line).collect()
}

/// What the program beside it suffered, by arm: medians over the rounds.
fn victims(comparison: &Comparison) -> String {
    type Of = fn(&Suffered) -> Option<u64>;
    let median = |arm: &Arm, of: Of| arm.median_of(|run| of(run.victim.as_ref()?));
    let all: [(&str, Of); 3] = [
        ("half", |suffered| suffered.half_ns),
        ("99 %", |suffered| suffered.p99_ns),
        ("99.9 %", |suffered| suffered.p999_ns),
    ];
    let mut text = String::new();
    for arm in &comparison.arms {
        let known = all.iter().filter_map(|(share, of)| {
            let ns = median(arm, *of)?;
            Some(format!("{share} within {}", duration(ns as u64)))
        });
        let known: Vec<String> = known.collect();
        if !known.is_empty() {
            let name = arm.kind.name();
            text.push_str(&format!("the victim beside {name}: {}\n", known.join(", ")));
        }
    }
    text
}

/// Without a limit nothing of the program is swapped: what is counted there is of others, and in the other arms, too.
fn swapping_of_others(comparison: &Comparison) -> String {
    let swap_ins = |kind| comparison.arm(kind)?.median_of(|run| run.swap_ins);
    match swap_ins(ArmKind::Unlimited).zip(swap_ins(ArmKind::Baseline)) {
        Some((others, all)) if others > MOST_OF_OTHERS * all => format!(
            "Other programs swapped meanwhile: swap-ins, swap-outs and bytes are the machine's, {} swap-ins of them in runs without a limit.\n",
            count(others.round() as u64)
        ),
        _ => String::new(),
    }
}

/// Where the program swaps far more without the plan, or less, than that says.
pub(super) fn swapping_otherwise(comparison: &Comparison) -> Option<String> {
    let swap_ins = comparison.swaps_otherwise()?;
    let foreseen = comparison.foreseen.as_ref()?;
    Some(format!(
        "Without the plan {} pages were swapped in, where it foresees {} to {}: the program does not run as it did when it was recorded. Record it again, with \
         nothing else running, and make a new plan.",
        count(swap_ins),
        count(*foreseen.start()),
        count(*foreseen.end())
    ))
}

fn output_remark(comparison: &Comparison) -> &'static str {
    match comparison.output_identical() {
        Some(false) => {
            "The program's output or exit code was not the same in all runs: what was compared may not be the same work.\n"
        }
        _ => "",
    }
}

/// The speed-up by memory size, and its mean.
fn together(comparisons: &[Comparison]) -> String {
    let kinds = comparisons[0].compared();
    let mut header = ["memory", "baseline", "plan", "speed-up", "from, to"]
        .map(str::to_owned)
        .to_vec();
    header.extend(kinds.iter().map(|kind| format!("of {}", kind.name())));
    let mut lines = vec![header];
    for comparison in comparisons {
        let time = |kind| {
            let arm = comparison.arm(kind);
            let median = arm.and_then(|arm| arm.median_of(|run| Some(run.wall_ns)));
            median.map_or("?".to_owned(), |ns| duration(ns as u64))
        };
        let ratio = comparison.speedup();
        let shown = |ratio: Option<Ratio>| {
            ratio.map_or("?".to_owned(), |ratio| format!("{:.2}", ratio.value))
        };
        let mut line = vec![
            bytes(comparison.memory_bytes),
            time(ArmKind::Baseline),
            time(ArmKind::Plan),
            shown(ratio),
            ratio.map_or("?".to_owned(), |ratio| {
                format!("{:.2} to {:.2}", ratio.low, ratio.high)
            }),
        ];
        line.extend(kinds.iter().map(|&kind| shown(comparison.speedup_of(kind))));
        lines.push(line);
    }
    let mut mean = mean_speedup(comparisons, ArmKind::Plan).map_or(String::new(), |mean| {
        format!("geometric mean of the speed-ups: {mean:.2}\n")
    });
    for &kind in &kinds {
        if let Some(of_arm) = mean_speedup(comparisons, kind) {
            mean.push_str(&format!("of {}: {of_arm:.2}\n", kind.name()));
        }
    }
    format!("{}{mean}", aligned(&lines))
}

/// Those of [`HEADER`].
pub(super) fn fields(arm: &Arm) -> Vec<String> {
    let shown = |value: Option<f64>, show: fn(u64) -> String| {
        value.map_or("?".to_owned(), |value| show(value.round() as u64))
    };
    let walls = || arm.runs.iter().map(|run| run.wall_ns);
    let range = match walls().min().zip(walls().max()) {
        Some((least, most)) => format!("{} to {}", duration(least), duration(most)),
        None => "?".to_owned(),
    };
    vec![
        arm.kind.name().to_owned(),
        shown(arm.median_of(|run| Some(run.wall_ns)), duration),
        range,
        shown(arm.median_of(|run| run.swap_ins), count),
        shown(arm.median_of(|run| run.evictions), count),
        shown(arm.median_of(|run| run.written_bytes), bytes),
        shown(arm.median_of(|run| run.read_bytes), bytes),
        shown(arm.median_of(|run| run.memory_bytes), bytes),
        arm.killed.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::comparison;
    use super::super::html;
    use super::*;

    #[test]
    fn what_others_swapped_is_told() {
        let walls: &[u64] = &[5, 5];
        let mut compared = comparison(&[(ArmKind::Baseline, walls), (ArmKind::Unlimited, walls)]);
        compared.arms[1]
            .runs
            .iter_mut()
            .for_each(|run| run.swap_ins = Some(0));
        assert_eq!(swapping_of_others(&compared), "");
        compared.arms[1]
            .runs
            .iter_mut()
            .for_each(|run| run.swap_ins = Some(7));
        assert!(swapping_of_others(&compared).contains("7 swap-ins"));
    }

    #[test]
    fn a_program_that_swaps_otherwise_than_recorded_is_told() {
        let walls: &[u64] = &[5, 5];
        let mut compared = comparison(&[(ArmKind::Baseline, walls), (ArmKind::Plan, walls)]);
        let swaps = |compared: &mut Comparison, swap_ins| {
            let runs = compared.arms[0].runs.iter_mut();
            runs.for_each(|run| run.swap_ins = Some(swap_ins));
        };
        swaps(&mut compared, 184_000);
        assert_eq!(swapping_otherwise(&compared), None, "nothing is foreseen");
        compared.foreseen = Some(30_000..=60_000);
        let text = swapping_otherwise(&compared).expect("twice as many");
        assert!(
            text.contains("184,000 pages were swapped in, where it foresees 30,000 to 60,000"),
            "{text}"
        );
        assert!(render(std::slice::from_ref(&compared), plain()).contains(&text));
        let page = html::render(std::slice::from_ref(&compared), &[]);
        assert!(
            page.contains("where it foresees 30,000 to 60,000"),
            "{page}"
        );
        swaps(&mut compared, 50_000);
        assert_eq!(swapping_otherwise(&compared), None);
        // Of these most are others'.
        let more = comparison(&[(ArmKind::Unlimited, walls)]).arms.remove(0);
        compared.arms.push(more);
        swaps(&mut compared, 184_000);
        let unlimited = compared.arms[2].runs.iter_mut();
        unlimited.for_each(|run| run.swap_ins = Some(140_000));
        assert_eq!(swapping_otherwise(&compared), None);
    }

    fn plain() -> Style {
        Style {
            width: 100,
            color: false,
            unicode: false,
            objects: 20,
            library_frames: false,
            whole_paths: false,
        }
    }

    #[test]
    fn a_table_and_a_sentence_for_each_size_and_the_mean_of_several() {
        let one = comparison(&[
            (ArmKind::Baseline, &[4_000_000_000, 4_100_000_000]),
            (ArmKind::Plan, &[2_000_000_000, 2_100_000_000]),
        ]);
        let single = render(std::slice::from_ref(&one), plain());
        assert!(single.starts_with("memory 64 MiB\narm"), "{single}");
        assert!(single.contains("baseline"), "{single}");
        assert!(
            single.contains("the plan makes it 1.98 times as fast"),
            "{single}"
        );
        assert!(
            !single.contains("killed") && !single.contains("geometric"),
            "{single}"
        );
        let two = render(&[one.clone(), one], plain());
        assert!(
            two.ends_with("geometric mean of the speed-ups: 1.98\n"),
            "{two}"
        );
    }

    #[test]
    fn an_arm_that_is_the_plan_itself_is_told() {
        let walls: &[u64] = &[5, 5];
        let mut compared = comparison(&[
            (ArmKind::Baseline, walls),
            (ArmKind::Plan, walls),
            (ArmKind::Mlock, walls),
        ]);
        assert!(others(&compared).contains("as with mlock alone"));
        compared.arms[2].same_as = Some(ArmKind::Plan);
        let told = "mlock is the same as plan here: what differs between them is chance\n";
        assert_eq!(others(&compared), told);
    }

    #[test]
    fn unknown_counts_and_different_outputs_are_told() {
        let mut compared = comparison(&[(ArmKind::Baseline, &[10, 11]), (ArmKind::Plan, &[5, 6])]);
        compared.arms[1].runs[0].output = [1; 32];
        compared.arms[1].killed = 2;
        let text = render(&[compared], plain());
        assert!(text.contains("was not the same in all runs"), "{text}");
        assert!(text.contains('?') && text.contains("killed"), "{text}");
    }
}
