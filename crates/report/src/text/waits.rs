//! Lines of the report about waiting: ours beside the kernel's, and the working set.

use std::fmt::Write as _;

use pagewise_analyze::Coverage;
use pagewise_analyze::Findings;
use pagewise_analyze::PsiScope;
use pagewise_analyze::WorkingSet;

use super::style::Style;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

pub(crate) fn lines(text: &mut String, findings: &Findings) {
    stall(text, findings);
    working_set(text, &findings.working_set);
}

/// Only where there is more to say than the headline does.
fn stall(text: &mut String, findings: &Findings) {
    let waits = &findings.waits;
    let Some(outside) = waits
        .reclaim_stall_ns
        .filter(|_| findings.faults_observed())
    else {
        return;
    };
    if outside == 0 && findings.totals.stall_ns == 0 {
        return;
    }
    let mut line = format!(
        "Stall: {} in swap-in faults + {} reclaiming memory outside them",
        duration(findings.totals.stall_ns),
        duration(outside)
    );
    if let (Some(some), Some(scope)) = (waits.psi_some_ns, waits.psi_scope) {
        let whose = match scope {
            PsiScope::Cgroup => "its cgroup",
            PsiScope::Machine => "the machine",
        };
        let _ = write!(line, "; PSI of {whose}: some {}", duration(some));
        if let Some(full) = waits.psi_full_ns {
            let _ = write!(line, ", full {}", duration(full));
        }
    }
    if let (Some(swapin), Some(freepages)) = (waits.delay_swapin_ns, waits.delay_freepages_ns) {
        let _ = write!(
            line,
            "; delay accounting: swap-in {}, reclaim {}",
            duration(swapin),
            duration(freepages)
        );
    }
    let _ = writeln!(text, "{line}");
    others_ran(text, findings);
}

/// Of so large a part of the run it is told that others had the processors.
const TOLD_RUN_DELAY: f64 = 0.05;

fn others_ran(text: &mut String, findings: &Findings) {
    let wall_ns = findings.meta.wall_ns.unwrap_or(u64::MAX);
    let is_much = |ns: &u64| *ns as f64 >= TOLD_RUN_DELAY * wall_ns as f64;
    if let Some(ns) = findings.waits.run_delay_ns.filter(is_much) {
        let _ = writeln!(
            text,
            "Others had the processors for {} while threads of the program were ready to run: with less to do beside it, it takes up to that much less time",
            duration(ns)
        );
    }
}

fn working_set(text: &mut String, looks: &[WorkingSet]) {
    let median = |value: fn(&WorkingSet) -> u64| {
        let mut values: Vec<u64> = looks.iter().map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let middle = median(|look| look.accessed_bytes);
    let most = looks.iter().map(|look| look.accessed_bytes).max();
    let interval = median(|look| look.interval_ns);
    let resident = looks.iter().map(|look| look.resident_bytes).max();
    if let (Some(middle), Some(most), Some(interval), Some(resident)) =
        (middle, most, interval, resident)
    {
        let _ = writeln!(
            text,
            "Working set: {} accessed in {} (median of {}; most {}), of up to {} resident",
            bytes(middle),
            duration(interval),
            looks.len(),
            bytes(most),
            bytes(resident)
        );
    }
}

/// Processes that are named.
const MOST_PROCESSES: usize = 5;

/// Where accesses were recorded: who has huge pages, and who would fill them.
pub(crate) fn coverage(text: &mut String, findings: &Findings, style: Style) {
    let page_bytes = findings.page_bytes();
    for process in findings.coverage.iter().take(MOST_PROCESSES) {
        let words = coverage_words(process, page_bytes, style);
        let _ = writeln!(text, "{words}");
    }
}

/// What of a process is in huge pages, and how much of the rest would fill them.
pub(crate) fn coverage_words(process: &Coverage, page_bytes: u64, style: Style) -> String {
    let (resident, huge) = (process.resident_bytes(page_bytes), process.huge_bytes());
    let name = match process.pid {
        Some(pid) => format!("{} {pid}", style.clean(&process.command)),
        None => "a process".to_owned(),
    };
    let buckets = process.buckets(page_bytes);
    let (mut regions, mut half) = (0, 0);
    for (number, bucket) in buckets.iter().enumerate() {
        regions += bucket.regions;
        if number >= buckets.len() / 2 {
            half += bucket.regions;
        }
    }
    let mut words = format!(
        "{name} has {} of its {} in huge pages ({})",
        bytes(huge),
        bytes(resident),
        percent(huge, resident)
    );
    if regions > 0 {
        let _ = write!(
            words,
            "; of its {} other regions of 2 MiB, {} are accessed by half or more",
            count(regions),
            count(half)
        );
    }
    words
}
