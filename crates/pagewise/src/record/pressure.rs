//! Whether memory may get short soon. Until then, watching faults would cost every first touch of a page and show
//! nothing: a page that was never evicted cannot be swapped in.

use std::path::Path;

use pagewise_host::CgroupHost;
use pagewise_host::counters::machine_memory;
use pagewise_host::swap::active_areas;

/// No limit anywhere above the program, no swap in use, and half of the machine's memory available.
pub(super) fn is_far(limited_by_us: bool) -> bool {
    !limited_by_us && !is_limited_from_outside() && memory_is_plenty()
}

/// Half of the machine's memory is available, and nothing is swapped.
pub(super) fn memory_is_plenty() -> bool {
    let memory = machine_memory();
    let plenty = memory
        .total_bytes
        .zip(memory.available_bytes)
        .is_some_and(|(total, available)| available > total / 2);
    plenty && active_areas().is_ok_and(|areas| areas.iter().all(|area| area.used_bytes == 0))
}

/// A container or unit may have a limit of its own; unknown counts as limited.
fn is_limited_from_outside() -> bool {
    let Ok(host) = CgroupHost::detect() else {
        return true;
    };
    let total = machine_memory().total_bytes.unwrap_or(0);
    host.own
        .ancestors()
        .take_while(|folder| folder.starts_with(&host.mount))
        .any(|folder| has_limit(folder, total))
}

fn has_limit(cgroup: &Path, total: u64) -> bool {
    ["memory.max", "memory.high", "memory.limit_in_bytes"]
        .iter()
        .any(|file| {
            let text = std::fs::read_to_string(cgroup.join(file)).unwrap_or_default();
            text.trim().parse::<u64>().is_ok_and(|limit| limit < total)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_machines_memory_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!has_limit(folder.path(), 1000), "no files, no limit");
        std::fs::write(folder.path().join("memory.max"), "max\n").expect("written");
        assert!(!has_limit(folder.path(), 1000));
        std::fs::write(
            folder.path().join("memory.limit_in_bytes"),
            "9223372036854771712\n",
        )
        .expect("written");
        assert!(!has_limit(folder.path(), 1000));
        std::fs::write(folder.path().join("memory.high"), "999\n").expect("written");
        assert!(has_limit(folder.path(), 1000));
    }

    #[test]
    fn our_own_limit_is_enough() {
        assert!(!is_far(true));
    }
}
