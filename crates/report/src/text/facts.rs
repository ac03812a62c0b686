//! The line of facts below the headline, and the latencies.

use std::fmt::Write as _;

use pagewise_analyze::Findings;

use super::Style;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// Limit, memory and counts.
pub(crate) fn facts(text: &mut String, findings: &Findings, style: Style) {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let mut parts = Vec::new();
    if let Some(limit) = meta.limit.bytes {
        parts.push(format!("limit {}", bytes(limit)));
    }
    if let Some(peak) = meta.peak_rss_bytes {
        parts.push(format!("peak resident {}", bytes(peak)));
    }
    if let Some(kind) = &meta.swap.kind {
        parts.push(format!("swap {}", style.clean(kind)));
    }
    if !findings.faults_observed() {
        if let Some(majors) = meta.totals.get("major_faults") {
            parts.push(format!("{} major faults", count(*majors)));
        }
        let _ = writeln!(text, "{}", parts.join(", "));
        return;
    }
    parts.push(format!("{} evictions", count(totals.evictions)));
    parts.push(format!("{} pages written", count(totals.pages_written)));
    if totals.zero_filled > 0 {
        parts.push(format!("{} zero-filled", count(totals.zero_filled)));
    }
    if let Some(dropped) = findings
        .dropped_without_write
        .filter(|&dropped| dropped > 0)
    {
        parts.push(format!("{} dropped without a write", count(dropped)));
    }
    if let Some(gone) = findings.shared_pages_gone.filter(|&gone| gone > 0) {
        parts.push(format!(
            "{} of shared memory gone, perhaps to swap",
            count(gone)
        ));
    }
    let _ = writeln!(text, "{}", parts.join(", "));
}

/// How long single swap-ins and writes took.
pub(crate) fn latency(text: &mut String, findings: &Findings) {
    for (before, what, latency) in [
        ("\n", "Swap-in", &findings.latency),
        ("", "Write", &findings.write_latency),
    ] {
        let at = |share| latency.quantile(share).map(duration);
        if let (Some(half), Some(most), Some(max)) = (at(0.5), at(0.99), latency.max()) {
            let _ = writeln!(
                text,
                "{before}{what} latency: median {half}, p99 {most}, longest {}",
                duration(max)
            );
        }
    }
}
