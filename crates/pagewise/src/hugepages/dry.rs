//! What would be done, and why: `--dry-run`.

use pagewise_simulate::hugepages::AccessMap;
use pagewise_simulate::hugepages::Action;
use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::Processes;

/// A line for an action. `comm`: name of its process.
pub(super) fn line(
    action: Action,
    policy: HugePolicy,
    processes: &Processes,
    comm: &str,
) -> Option<String> {
    let (verb, process, address) = match action {
        Action::Promote { process, address } => ("promote", process, address),
        Action::Demote { process, address } => ("split", process, address),
        Action::CountZeros { .. } => return None,
    };
    let known = processes.get(process)?;
    let region = known.regions().get(&address)?;
    let why = match action {
        Action::Demote { .. } => format!(
            "{} of 512 base pages are zeros, and memory is short",
            region.zero?
        ),
        _ if policy.goes_by_coverage() => {
            let coverage = region.coverage.unwrap_or_default();
            let overhead = known.overhead().map_or(String::new(), |share| {
                format!("{:.1} % of its cycles in page walks, ", share * 100.0)
            });
            format!(
                "{overhead}{coverage:.0} of 512 base pages accessed (bucket {}), {} in memory",
                AccessMap::bucket_of(coverage),
                region.seen.resident
            )
        }
        _ => format!("{} of 512 base pages in memory", region.seen.resident),
    };
    Some(format!("would {verb} {process} {comm} {address:#x}: {why}"))
}
