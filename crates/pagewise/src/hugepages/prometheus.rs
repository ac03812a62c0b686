//! The status in Prometheus' text form (exposition format 0.0.4), for node_exporter's textfile collector.

use std::fmt::Write as _;

use super::status::ProcessStatus;
use super::status::Status;

pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    let mut single = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = writeln!(text, "# HELP pagewise_hugepages_{name} {help}");
        let _ = writeln!(text, "# TYPE pagewise_hugepages_{name} {kind}");
        let _ = writeln!(text, "pagewise_hugepages_{name} {value}");
    };
    single(
        "promotions_total",
        "counter",
        "Regions made huge pages.",
        status.promoted as f64,
    );
    single(
        "demotions_total",
        "counter",
        "Huge pages split.",
        status.demoted as f64,
    );
    single(
        "freed_bytes_total",
        "counter",
        "Pages of zeros freed by splits.",
        status.freed_bytes as f64,
    );
    single(
        "cpu_ratio",
        "gauge",
        "Share of one processor used by the manager.",
        status.cpu_percent / 100.0,
    );
    single(
        "memory_used_ratio",
        "gauge",
        "Share of memory used.",
        status.memory_used_percent / 100.0,
    );
    single(
        "recovering",
        "gauge",
        "1 while memory is short.",
        f64::from(u8::from(status.recovering)),
    );
    for (name, kind, help, value) in PER_PROCESS {
        let _ = writeln!(text, "# HELP pagewise_hugepages_process_{name} {help}");
        let _ = writeln!(text, "# TYPE pagewise_hugepages_process_{name} {kind}");
        for process in &status.processes {
            let Some(value) = value(process) else {
                continue;
            };
            let comm = escaped(&process.comm);
            let pid = process.pid;
            let _ = writeln!(
                text,
                "pagewise_hugepages_process_{name}{{pid=\"{pid}\",comm=\"{comm}\"}} {value}"
            );
        }
    }
    text
}

/// `None`: not known, so there is no line of it.
type Value = fn(&ProcessStatus) -> Option<f64>;

const PER_PROCESS: [(&str, &str, &str, Value); 9] = [
    (
        "resident_bytes",
        "gauge",
        "Resident memory that can be huge pages.",
        |process| Some(process.sizes.as_ref()?.resident_bytes as f64),
    ),
    (
        "huge_bytes",
        "gauge",
        "Of these, in huge pages.",
        |process| Some(process.sizes.as_ref()?.huge_bytes as f64),
    ),
    (
        "zero_bytes_in_huge",
        "gauge",
        "Pages of zeros in huge pages, as far as they were counted.",
        |process| Some(process.sizes.as_ref()?.zero_bytes_in_huge? as f64),
    ),
    (
        "walk_cycles_ratio",
        "gauge",
        "Share of cycles in page walks, where the processor counts them.",
        |process| process.overhead,
    ),
    (
        "base_pages_accessed",
        "gauge",
        "Base pages accessed in a second, on average: translations wanted.",
        |process| process.translations,
    ),
    (
        "promotions_total",
        "counter",
        "Regions made huge pages.",
        |process| Some(process.promoted as f64),
    ),
    (
        "demotions_total",
        "counter",
        "Huge pages split.",
        |process| Some(process.demoted as f64),
    ),
    (
        "refusals_total",
        "counter",
        "Actions that the kernel refused.",
        |process| Some(process.refused.values().sum::<u64>() as f64),
    ),
    (
        "undone",
        "gauge",
        "Huge pages that others made again after a split.",
        |process| Some(process.undone as f64),
    ),
];

/// A label's value: a program may be called anything.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_stay_inside_their_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
