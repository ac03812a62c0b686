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
    for (name, help, value) in PER_PROCESS {
        let _ = writeln!(text, "# HELP pagewise_hugepages_process_{name} {help}");
        let _ = writeln!(text, "# TYPE pagewise_hugepages_process_{name} gauge");
        for process in &status.processes {
            let comm = escaped(&process.comm);
            let pid = process.pid;
            let value = value(process);
            let _ = writeln!(
                text,
                "pagewise_hugepages_process_{name}{{pid=\"{pid}\",comm=\"{comm}\"}} {value}"
            );
        }
    }
    text
}

type Value = fn(&ProcessStatus) -> u64;

const PER_PROCESS: [(&str, &str, Value); 3] = [
    (
        "resident_bytes",
        "Resident memory that can be huge pages.",
        |process| process.sizes.resident_bytes,
    ),
    ("huge_bytes", "Of these, in huge pages.", |process| {
        process.sizes.huge_bytes
    }),
    ("promotions", "Regions made huge pages.", |process| {
        process.promoted
    }),
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
