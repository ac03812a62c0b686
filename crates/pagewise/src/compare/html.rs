//! The result as one HTML file without scripts: speed-ups over memory sizes, run times, and the figures.

use std::ffi::OsString;
use std::fmt::Write as _;

use pagewise_report::bytes;
use pagewise_report::duration;
use pagewise_report::html::escaped;

use super::comparison::ArmKind;
use super::comparison::Comparison;
use super::comparison::mean_speedup;
use super::statistics::Ratio;
use super::table::HEADER;
use super::table::fields;
use super::table::swapping_otherwise;

const STYLE: &str = ":root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #667079; --line: #d8dde2;
  --plan: #2f6db3; --mlock: #d9822b; --madvise: #8a63b8; --unlimited: #5b9a5b; --baseline: #8b949e; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181c; --text: #e4e8ec; --faint: #98a2ac; --line: #363d45;
  --plan: #4f94dd; --mlock: #f0a253; --madvise: #b394dd; --unlimited: #7fc07f; } }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--text); font-size: 12px; } line { stroke: var(--line); }
.faint { fill: var(--faint); color: var(--faint); } .range { stroke: var(--text); }
.baseline { fill: var(--baseline); } .plan { fill: var(--plan); } .mlock { fill: var(--mlock); }
.madvise { fill: var(--madvise); } .unlimited { fill: var(--unlimited); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; white-space: nowrap; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .7rem; border-bottom: 1px solid var(--line); font-weight: normal; }
th { color: var(--faint); } th:first-child, td:first-child { text-align: left; padding-left: 0; }";

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 45.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 24.0;

/// A bar of a group; without a value it is not drawn.
struct Bar {
    kind: ArmKind,
    value: Option<f64>,
    /// The ends of its interval or range.
    ends: Option<(f64, f64)>,
    words: String,
}

struct Group {
    name: String,
    bars: Vec<Bar>,
}

/// There is at least one comparison.
pub(super) fn render(comparisons: &[Comparison], program: &[OsString]) -> String {
    let words = program.iter().map(|word| word.to_string_lossy());
    let program = escaped(&words.collect::<Vec<_>>().join(" "));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{program} - pagewise compare</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{program}</h1>\n"
    );
    let _ = write!(
        page,
        "<h2>Speed-up</h2>\n<p class=\"faint\">Median run time of the baseline over that of each arm, with its 95 % \
         interval, or of less than six rounds, their range.</p>\n{}",
        chart(&speedups(comparisons), |value| format!("{value:.1}"))
    );
    let _ = write!(
        page,
        "<h2>Run time</h2>\n<p class=\"faint\">Medians, with the range of the runs.</p>\n{}",
        chart(&times(comparisons), |value| duration(value as u64))
    );
    for comparison in comparisons {
        page.push_str(&table(comparison));
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn speedups(comparisons: &[Comparison]) -> Vec<Group> {
    let bar = |kind: ArmKind, ratio: Option<Ratio>| Bar {
        kind,
        value: ratio.map(|ratio| ratio.value),
        ends: ratio.map(|ratio| (ratio.low, ratio.high)),
        words: ratio.map_or("unknown".to_owned(), |ratio| {
            format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high)
        }),
    };
    let kinds = || kinds(comparisons).filter(|&kind| kind != ArmKind::Baseline);
    let mut groups: Vec<Group> = comparisons
        .iter()
        .map(|one| Group {
            name: size(one),
            bars: kinds()
                .map(|kind| bar(kind, one.speedup_of(kind)))
                .collect(),
        })
        .collect();
    if comparisons.len() > 1 {
        let of_all = kinds().map(|kind| {
            let value = mean_speedup(comparisons, kind);
            Bar {
                kind,
                value,
                ends: None,
                words: value.map_or("unknown".to_owned(), |value| format!("{value:.2}")),
            }
        });
        groups.push(Group {
            name: "geometric mean".to_owned(),
            bars: of_all.collect(),
        });
    }
    groups
}

/// A size of memory, also in % of the program's peak, if that is known.
fn size(one: &Comparison) -> String {
    let size = bytes(one.memory_bytes);
    match one.peak_bytes.filter(|&peak| peak > 0) {
        Some(peak) => {
            let share = 100.0 * one.memory_bytes as f64 / peak as f64;
            format!("{size} ({share:.0} %)")
        }
        None => size,
    }
}

fn times(comparisons: &[Comparison]) -> Vec<Group> {
    let bars = |one: &Comparison| {
        let bars = one.arms.iter().map(|arm| {
            let walls = || arm.runs.iter().map(|run| run.wall_ns);
            let value = arm.median_of(|run| Some(run.wall_ns));
            Bar {
                kind: arm.kind,
                value,
                ends: walls()
                    .min()
                    .zip(walls().max())
                    .map(|(least, most)| (least as f64, most as f64)),
                words: value.map_or("unknown".to_owned(), |ns| duration(ns as u64)),
            }
        });
        bars.collect()
    };
    let groups = comparisons.iter().map(|one| Group {
        name: size(one),
        bars: bars(one),
    });
    groups.collect()
}

fn kinds(comparisons: &[Comparison]) -> impl Iterator<Item = ArmKind> {
    comparisons[0].arms.iter().map(|arm| arm.kind)
}

/// Bars side by side, group by group, from 0 up.
fn chart(groups: &[Group], shown: impl Fn(f64) -> String) -> String {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let ends = bars().filter_map(|bar| Some(bar.ends.map_or(bar.value?, |(_, high)| high)));
    let most = ends.fold(0.0, f64::max);
    if most <= 0.0 {
        return "<p>Nothing was measured.</p>\n".to_owned();
    }
    let y = |value: f64| HEIGHT - BOTTOM - value / most * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text class=\"faint\" x=\"{1}\" y=\"{2:.1}\" \
             text-anchor=\"end\">{3}</text>",
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            shown(value)
        );
    }
    let width = (WIDTH - LEFT) / groups.len() as f64;
    for (index, group) in groups.iter().enumerate() {
        let left = LEFT + index as f64 * width;
        svg.push_str(&of_group(group, left, width, y));
    }
    svg.push_str(&legend(groups));
    svg.push_str("</svg>\n");
    svg
}

fn of_group(group: &Group, left: f64, width: f64, y: impl Fn(f64) -> f64) -> String {
    let mut svg = format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
        left + width / 2.0,
        HEIGHT - BOTTOM + 18.0,
        escaped(&group.name)
    );
    let step = (0.8 * width / group.bars.len().max(1) as f64).min(70.0);
    let first = left + (width - step * group.bars.len() as f64) / 2.0;
    for (index, bar) in group.bars.iter().enumerate() {
        let Some(value) = bar.value else {
            continue;
        };
        let x = first + index as f64 * step;
        let (name, words) = (bar.kind.name(), &bar.words);
        let _ = writeln!(
            svg,
            "<rect class=\"{name}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{name}: \
             {words}</title></rect>",
            y(value),
            0.86 * step,
            y(0.0) - y(value)
        );
        if let Some((low, high)) = bar.ends {
            let _ = writeln!(
                svg,
                "<line class=\"range\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>",
                x + 0.43 * step,
                y(low),
                y(high)
            );
        }
    }
    svg
}

fn legend(groups: &[Group]) -> String {
    let bars = groups.first().map_or(&[][..], |group| &group.bars);
    let entry = |(index, bar): (usize, &Bar)| {
        let x = LEFT + index as f64 * 110.0;
        let name = bar.kind.name();
        format!(
            "<rect class=\"{name}\" x=\"{x}\" y=\"2\" width=\"10\" height=\"10\"/><text x=\"{}\" y=\"12\">{name}</text>\n",
            x + 15.0
        )
    };
    bars.iter().enumerate().map(entry).collect()
}

fn table(comparison: &Comparison) -> String {
    let row = |cell: &str, fields: &[String]| {
        let cells = fields
            .iter()
            .map(|field| format!("<{cell}>{}</{cell}>", escaped(field)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows = comparison.arms.iter().map(|arm| row("td", &fields(arm)));
    let remark = match comparison.output_identical() {
        Some(false) => "<p>The program's output or exit code was not the same in all runs.</p>\n",
        _ => "",
    };
    let otherwise = swapping_otherwise(comparison);
    let otherwise = otherwise.map_or(String::new(), |text| format!("<p>{}</p>\n", escaped(&text)));
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n{remark}{otherwise}<div class=\"scroll\"><table>\n{}{}</table></div>\n",
        escaped(&format!("Memory {}", bytes(comparison.memory_bytes))),
        escaped(&comparison.judgement_in_words()),
        row("th", &HEADER.map(str::to_owned)),
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::comparison;
    use super::*;

    #[test]
    fn every_arm_has_a_bar_at_every_size_and_strangers_text_is_escaped() {
        let one = comparison(&[
            (ArmKind::Baseline, &[400, 410]),
            (ArmKind::Plan, &[200, 210]),
            (ArmKind::Mlock, &[300, 310]),
        ]);
        let page = render(&[one.clone(), one], &["<b>".into(), "x".into()]);
        assert!(page.contains("64 MiB (25 %)"), "{page}");
        assert!(page.contains("<h1>&lt;b&gt; x</h1>"), "{page}");
        // Of each size and their mean in the first picture, of each size in the second, and in the legends.
        let bars = |name: &str| page.matches(&format!("<rect class=\"{name}\"")).count();
        assert_eq!((bars("plan"), bars("mlock")), (3 + 2 + 2, 3 + 2 + 2));
        assert_eq!(bars("baseline"), 2 + 1);
        assert!(page.contains("<title>plan: 1.98 ("), "{page}");
        assert!(!page.contains("<script") && !page.contains("http:"));
    }

    #[test]
    fn without_a_run_there_is_no_picture() {
        let page = render(&[comparison(&[(ArmKind::Baseline, &[])])], &["x".into()]);
        assert!(page.contains("Nothing was measured") && !page.contains("NaN"));
    }
}
