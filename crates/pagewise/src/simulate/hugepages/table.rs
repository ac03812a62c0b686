//! The tables in a terminal.

use std::time::Duration;

use pagewise_replay::ArmFindings;
use pagewise_replay::Basis;
use pagewise_replay::HugeFindings;
use pagewise_report::bytes;
use pagewise_report::count;
use pagewise_report::text::Style;

use crate::columns::aligned;

/// Moments of the table of overhead over time.
const MOMENTS: u32 = 10;

/// What was replayed, what came of each policy, and overhead over time.
pub(super) fn render(findings: &HugeFindings, style: Style) -> String {
    let mut text = headline(findings, style);
    let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
    lines.extend(findings.arms.iter().map(fields));
    text.push_str(&format!("\n{}", aligned(&lines)));
    text.push_str(&over_time(findings, style));
    text.push_str(&remark(findings));
    text
}

fn headline(findings: &HugeFindings, style: Style) -> String {
    let memory = match findings.memory_bytes {
        Some(memory) => format!("memory {}", bytes(memory)),
        None => "enough memory".to_owned(),
    };
    let mut text = format!(
        "{}\n{} replayed, {} promotions a second, a look every {}, {memory}\nTLB {}\n",
        style.bold("Huge pages by policy"),
        seconds(findings.duration),
        findings.promotions_per_second,
        seconds(findings.interval),
        findings.tlb
    );
    let of = findings.programs.iter().zip(&findings.base_overheads);
    for (program, overhead) in of {
        let overhead = overhead.map_or("does not run in that time".to_owned(), |overhead| {
            format!("page walks on base pages {}", percent(overhead))
        });
        text.push_str(&format!(
            "  {}: {overhead} ({})\n",
            style.clean(&program.name),
            program.basis.name()
        ));
    }
    text
}

const HEADER: [&str; 9] = [
    "policy",
    "page walks",
    "speed",
    "saved",
    "promotions",
    "saved by each",
    "near all-huge",
    "most bloat",
    "bloat at end",
];

fn fields(arm: &ArmFindings) -> Vec<String> {
    let course = &arm.course;
    let unknown = || "-".to_owned();
    vec![
        arm.arm.to_string(),
        course.overhead().map_or_else(unknown, percent),
        course
            .speed_up()
            .map_or_else(unknown, |ratio| format!("{ratio:.3}x")),
        format!("{:.1} s", course.saved_s()),
        match course.demotions() {
            0 => count(course.promotions()),
            split => format!("{}, {} split", count(course.promotions()), count(split)),
        },
        course
            .saved_by_promotion_s()
            .map_or_else(unknown, |saved| format!("{:.1} ms", saved * 1e3)),
        course.near_huge_from().map_or("never".to_owned(), seconds),
        bytes(course.most_bloat_bytes()),
        bytes(course.last_bloat_bytes()),
    ]
}

fn over_time(findings: &HugeFindings, style: Style) -> String {
    let mut lines = vec![vec!["time".to_owned()]];
    lines[0].extend(findings.arms.iter().map(|arm| arm.arm.to_string()));
    for moment in 0..MOMENTS {
        let time = findings.duration * moment / (MOMENTS - 1);
        let mut line = vec![seconds(time)];
        line.extend(findings.arms.iter().map(|arm| {
            let samples = &arm.course.samples;
            let after = samples.partition_point(|sample| sample.time <= time);
            let sample = after.checked_sub(1).map(|at| &samples[at]);
            let overhead = sample.and_then(|sample| sample.overhead());
            overhead.map_or_else(|| "-".to_owned(), percent)
        }));
        lines.push(line);
    }
    format!(
        "\n{}\n{}",
        style.bold("page walks over time, mean of the programs"),
        aligned(&lines)
    )
}

/// What the figures rest on.
fn remark(findings: &HugeFindings) -> String {
    let is_assumed = |basis: Basis| basis == Basis::Assumed;
    if !findings
        .programs
        .iter()
        .any(|program| is_assumed(program.basis))
    {
        return String::new();
    }
    format!(
        "\nassumed: accessed bits do not tell how often a page is accessed. Here each is accessed at random with {} cycles of \
         work beside; --overhead takes what counters of the processor say.\n",
        findings.tlb.work
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let digits = usize::from(seconds < 100.0);
    format!("{seconds:.digits$} s")
}
