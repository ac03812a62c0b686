//! The call paths of faults, as a report tells them.

use serde_json::Value;

/// Swap-ins of those paths, each given as the names of its functions, innermost first (`?`: unknown).
pub(crate) fn swap_ins_of(report: &Value, wanted: impl Fn(&[&str]) -> bool) -> u64 {
    let paths = report["fault_paths"].as_array().expect("a list");
    let is_wanted = |path: &&Value| {
        let frames = path["path"].as_array().expect("frames");
        let names: Vec<&str> = frames
            .iter()
            .map(|frame| frame["function"].as_str().unwrap_or("?"))
            .collect();
        wanted(&names)
    };
    let chosen = paths.iter().filter(is_wanted);
    chosen.filter_map(|path| path["swap_ins"].as_u64()).sum()
}

/// Asserts that at least this share of all swap-ins whose path was not lost is of paths that are wanted.
pub(crate) fn assert_share_of_paths(report: &Value, share: f64, wanted: impl Fn(&[&str]) -> bool) {
    let all = report["summary"]["swap_ins"].as_u64().expect("a count");
    let lost = report["losses"]["call_paths"].as_u64().expect("a count");
    let found = swap_ins_of(report, wanted);
    assert!(all - lost > 1_000, "{all} swap-ins, {lost} lost: no test");
    assert!(
        found as f64 > share * (all - lost) as f64,
        "{found} of {all}, {lost} without a path: {:#}",
        report["fault_paths"]
    );
}
