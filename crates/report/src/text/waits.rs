//! Lines of the report about waiting: ours beside the kernel's, and the working set.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::PsiScope;
use pagewise_analyze::WorkingSet;

use crate::units::bytes;
use crate::units::duration;

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
