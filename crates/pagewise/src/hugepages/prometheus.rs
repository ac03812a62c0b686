//! The status in Prometheus' text form (exposition format 0.0.4), for node_exporter's textfile collector.

use std::fmt::Write as _;

use super::status::ProcessStatus;
use super::status::Sizes;
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
    for (name, kind, help, values) in PER_PROCESS {
        let _ = writeln!(text, "# HELP pagewise_hugepages_process_{name} {help}");
        let _ = writeln!(text, "# TYPE pagewise_hugepages_process_{name} {kind}");
        for process in &status.processes {
            let of = format!(
                "pid=\"{}\",comm=\"{}\"",
                process.pid,
                escaped(&process.comm)
            );
            for (label, value) in values(process) {
                let _ = writeln!(
                    text,
                    "pagewise_hugepages_process_{name}{{{of}{label}}} {value}"
                );
            }
        }
    }
    text
}

/// What is known, with the labels that it has beside those of the process; what is not known has no line.
type Values = fn(&ProcessStatus) -> Vec<(String, f64)>;

fn one(value: Option<f64>) -> Vec<(String, f64)> {
    value
        .into_iter()
        .map(|value| (String::new(), value))
        .collect()
}

fn labelled(name: &str, of: &str, value: f64) -> (String, f64) {
    (format!(",{name}=\"{}\"", escaped(of)), value)
}

/// Of each kind of memory: heap, anonymous, named.
fn of_classes(process: &ProcessStatus, value: fn(&Sizes) -> f64) -> Vec<(String, f64)> {
    let classes = process.classes.iter();
    classes
        .map(|(name, sizes)| labelled("class", name, value(sizes)))
        .collect()
}

/// Regions by how many of their base pages were accessed: a label tells the least number of the bucket.
fn by_coverage(process: &ProcessStatus) -> Vec<(String, f64)> {
    let sizes = process.sizes.as_ref();
    let buckets = sizes
        .and_then(|sizes| sizes.coverage_buckets)
        .into_iter()
        .flatten();
    let counted = buckets.enumerate();
    counted
        .map(|(bucket, regions)| {
            labelled("least_pages", &(bucket * 50).to_string(), regions as f64)
        })
        .collect()
}

fn by_reason(process: &ProcessStatus) -> Vec<(String, f64)> {
    let refused = process.refused.iter();
    refused
        .map(|(why, count)| labelled("reason", why, *count as f64))
        .collect()
}

const PER_PROCESS: [(&str, &str, &str, Values); 14] = [
    (
        "resident_bytes",
        "gauge",
        "Resident memory that can be huge pages.",
        |process| {
            one(process
                .sizes
                .as_ref()
                .map(|sizes| sizes.resident_bytes as f64))
        },
    ),
    (
        "huge_bytes",
        "gauge",
        "Of these, in huge pages.",
        |process| one(process.sizes.as_ref().map(|sizes| sizes.huge_bytes as f64)),
    ),
    (
        "zeros_counted_in_bytes",
        "gauge",
        "Huge pages in which pages of zeros were counted.",
        |process| {
            let sizes = process.sizes.as_ref();
            one(sizes.map(|sizes| sizes.zeros_counted_in_bytes as f64))
        },
    ),
    (
        "zero_bytes_in_huge",
        "gauge",
        "Pages of zeros in the huge pages in which they were counted.",
        |process| {
            let sizes = process.sizes.as_ref();
            one(sizes
                .and_then(|sizes| sizes.zero_bytes_in_huge)
                .map(|zeros| zeros as f64))
        },
    ),
    (
        "walk_cycles_ratio",
        "gauge",
        "Share of cycles in page walks, where the processor counts them.",
        |process| one(process.overhead),
    ),
    (
        "walk_cycles_estimate_ratio",
        "gauge",
        "Share of cycles in page walks, as a model of the TLB has it by what was accessed in a second.",
        |process| one(process.overhead_estimate),
    ),
    (
        "base_pages_accessed",
        "gauge",
        "Base pages accessed in a second, on average: translations wanted.",
        |process| one(process.translations),
    ),
    (
        "regions",
        "gauge",
        "Regions of 2 MiB of base pages, by the base pages accessed in a second: least_pages and up to 49 more.",
        by_coverage,
    ),
    (
        "class_resident_bytes",
        "gauge",
        "Resident memory that can be huge pages, by kind of memory.",
        |process| of_classes(process, |sizes| sizes.resident_bytes as f64),
    ),
    (
        "class_huge_bytes",
        "gauge",
        "Of these, in huge pages.",
        |process| of_classes(process, |sizes| sizes.huge_bytes as f64),
    ),
    (
        "promotions_total",
        "counter",
        "Regions made huge pages.",
        |process| one(Some(process.promoted as f64)),
    ),
    (
        "demotions_total",
        "counter",
        "Huge pages split.",
        |process| one(Some(process.demoted as f64)),
    ),
    (
        "refusals_total",
        "counter",
        "Actions that did not work, by reason.",
        by_reason,
    ),
    (
        "undone",
        "gauge",
        "Huge pages that others made again after a split.",
        |process| one(Some(process.undone as f64)),
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
