//! What the terminal report says about how well events are attributed to objects.

use std::fmt::Write as _;

use pagewise_analyze::Findings;

use super::Style;
use crate::units::bytes;
use crate::units::count;
use crate::units::percent;

/// Which allocations were recorded, how much is estimated, and how much belongs to no recorded object.
pub(crate) fn remarks(text: &mut String, findings: &Findings, style: Style) {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let state = meta.sensors.get("allocations");
    if let Some(state) = state.filter(|state| !["on", "off"].contains(&state.as_str())) {
        let _ = writeln!(text, "allocations: {}", style.clean_sentence(state));
    }
    if totals.swap_ins == 0 {
        return;
    }
    let part = |swap_ins| {
        let share = percent(swap_ins, totals.swap_ins);
        format!("{} of the swap-ins ({share})", count(swap_ins))
    };
    if findings.estimated_swap_ins > 0 {
        let sparsest = meta.sampling.sparsest_sample_bytes;
        let rate = meta.sampling.sample_bytes.map_or(String::new(), |rate| {
            let to = sparsest.filter(|&sparsest| sparsest > rate);
            let to = to.map_or(String::new(), |sparsest| format!(" to {}", bytes(sparsest)));
            format!(" (one in {}{to} of small ones)", bytes(rate))
        });
        let _ = writeln!(
            text,
            "{} are given to objects by a sample of the allocations{rate}: their counts are estimates.",
            part(findings.estimated_swap_ins)
        );
    }
    if findings.unattributed_swap_ins > 0 {
        let _ = writeln!(
            text,
            "{} lie in memory of no recorded object.",
            part(findings.unattributed_swap_ins)
        );
    }
}
