//! The status in a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::status::ProcessStatus;
use super::status::Sizes;
use super::status::Status;
use crate::columns::aligned;

const HEADER: [&str; 10] = [
    "process", "resident", "huge", "zeros", "busy", "warm", "idle", "overhead", "promoted", "split",
];

pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    let mode = if status.dry_run { ", dry run" } else { "" };
    let _ = writeln!(
        text,
        "huge page manager {}: {}{mode}, for {:.0} s, {:.2} % of a processor (at most {} %)",
        status.pid, status.policy, status.running_s, status.cpu_percent, status.cpu_percent_limit
    );
    let memory = if status.recovering {
        format!(
            "short: bloat is taken back until {:.0} %",
            status.low_percent
        )
    } else {
        format!("bloat is taken back above {:.0} %", status.high_percent)
    };
    let _ = writeln!(
        text,
        "memory {:.0} % used, {memory}",
        status.memory_used_percent
    );
    let _ = writeln!(
        text,
        "{} promoted, {} split, {} freed{}",
        status.promoted,
        status.demoted,
        bytes(status.freed_bytes),
        reasons(&status.refused)
    );
    let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
    for process in &status.processes {
        lines.push(line(
            &format!("{} {}", process.pid, process.comm),
            process.sizes.as_ref(),
            Some(process),
        ));
        if process.classes.len() > 1 {
            let classes = process.classes.iter();
            lines
                .extend(classes.map(|(name, sizes)| line(&format!("  {name}"), Some(sizes), None)));
        }
    }
    text.push('\n');
    text.push_str(&aligned(&lines));
    text.push_str(&notes(status));
    text
}

/// `sizes`: `None` if it was not looked at yet.
fn line(name: &str, sizes: Option<&Sizes>, process: Option<&ProcessStatus>) -> Vec<String> {
    let of = |value: &dyn Fn(&Sizes) -> String| sizes.map_or("?".to_owned(), value);
    let buckets = |range: std::ops::Range<usize>| {
        of(&|sizes| {
            let buckets = sizes.coverage_buckets.as_ref();
            buckets.map_or("?".to_owned(), |buckets| {
                buckets[range.clone()].iter().sum::<u64>().to_string()
            })
        })
    };
    let share = |sizes: &Sizes| match sizes.resident_bytes {
        0 => "-".to_owned(),
        resident => format!("{:.0} %", sizes.huge_bytes as f64 / resident as f64 * 100.0),
    };
    vec![
        name.to_owned(),
        of(&|sizes| bytes(sizes.resident_bytes)),
        of(&share),
        of(&zeros),
        buckets(5..10),
        buckets(1..5),
        buckets(0..1),
        process.map_or(String::new(), overhead),
        process.map_or(String::new(), |process| process.promoted.to_string()),
        process.map_or(String::new(), |process| process.demoted.to_string()),
    ]
}

/// Their share of the huge pages in which they were counted.
fn zeros(sizes: &Sizes) -> String {
    match sizes.zero_bytes_in_huge {
        Some(zeros) => {
            let counted = sizes.zeros_counted_in_bytes.max(1);
            format!("{:.0} %", zeros as f64 / counted as f64 * 100.0)
        }
        None if sizes.huge_bytes == 0 => "-".to_owned(),
        None => "?".to_owned(),
    }
}

/// As measured, or as estimated, which is marked.
fn overhead(process: &ProcessStatus) -> String {
    match process.overhead {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => process
            .overhead_estimate
            .map_or("?".to_owned(), |share| format!("~{:.1} %", share * 100.0)),
    }
}

fn notes(status: &Status) -> String {
    let mut text = String::from(
        "\nhuge: share of it in huge pages; zeros: pages of zeros in these, as far as they were counted, ? not yet; busy, warm, idle: regions of 2 MiB of base pages of which\n250 and more, 50 and more, or fewer of 512 were accessed in a second; overhead: share of cycles in page walks where the processor counts them,\nelse, with ~, as a model of the TLB has it by what was accessed in a second\n",
    );
    for process in &status.processes {
        if let Some(why) = &process.left_alone {
            let _ = writeln!(
                text,
                "{} {} is left alone: {why}",
                process.pid, process.comm
            );
        }
        if process.short {
            let _ = writeln!(
                text,
                "{} {}: memory is short by the limit of {}: bloat is taken back, nothing is promoted",
                process.pid,
                process.comm,
                process.cgroup.as_deref().unwrap_or("its cgroup")
            );
        }
        if !process.refused.is_empty() {
            let _ = writeln!(
                text,
                "{} {}{}",
                process.pid,
                process.comm,
                reasons(&process.refused).replacen("; ", ": ", 1)
            );
        }
        if process.undone > 0 {
            let _ = writeln!(
                text,
                "{} {}: {} huge pages were made again by others (khugepaged) after they had been split",
                process.pid, process.comm, process.undone
            );
        }
    }
    for (pid, why) in &status.not_managed {
        let _ = writeln!(text, "{pid} is not managed: {why}");
    }
    if status.processes_left_out > 0 {
        let _ = writeln!(
            text,
            "{} smaller processes are left out",
            status.processes_left_out
        );
    }
    text
}

fn reasons(refused: &BTreeMap<String, u64>) -> String {
    let reasons: Vec<String> = refused
        .iter()
        .map(|(why, count)| format!("{why} {count}"))
        .collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!("; refused: {}", reasons.join(", "))
    }
}

pub(super) fn bytes(bytes: u64) -> String {
    pagewise_report::bytes(bytes)
}
