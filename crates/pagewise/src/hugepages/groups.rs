//! The cgroups of the managed processes: each has its turn, and may be short of memory by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use pagewise_host::cgroup::CgroupHost;
use pagewise_host::cgroup::CgroupRoom;

/// By number, in the order in which they were met.
#[derive(Default)]
pub(super) struct Groups {
    known: BTreeMap<u32, Group>,
    next: u32,
}

struct Group {
    path: PathBuf,
    is_short: bool,
}

impl Groups {
    /// The cgroup that the process is in now. `None`: it has ended, or there are no cgroups.
    pub(super) fn of_process(&mut self, pid: u32) -> Option<u32> {
        let path = CgroupHost::of_process(pid).ok()?.own;
        let mut known = self.known.iter();
        if let Some((number, _)) = known.find(|(_, group)| group.path == path) {
            return Some(*number);
        }
        let number = self.next;
        self.next += 1;
        let is_short = false;
        self.known.insert(number, Group { path, is_short });
        Some(number)
    }

    pub(super) fn path(&self, number: u32) -> Option<&Path> {
        self.known.get(&number).map(|group| group.path.as_path())
    }

    /// Whether what its limits leave is little: from the high watermark down to the low one, as of the machine.
    pub(super) fn is_short(&self, number: u32) -> bool {
        self.known.get(&number).is_some_and(|group| group.is_short)
    }

    /// Looks how much of their limits is used, 0 to 1, and forgets those in which nothing is managed any more.
    pub(super) fn look(&mut self, (high, low): (f64, f64), in_use: impl Fn(u32) -> bool) {
        self.known.retain(|number, _| in_use(*number));
        for group in self.known.values_mut() {
            let used = CgroupRoom::around(&group.path).into_iter().map(share);
            let watermark = if group.is_short { low } else { high };
            group.is_short = used.fold(0.0, f64::max) > watermark;
        }
    }
}

fn share(room: CgroupRoom) -> f64 {
    room.used_bytes as f64 / room.limit_bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_cgroup_is_short_from_the_high_watermark_to_the_low_one() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("memory.max"), "1000\n").expect("a file");
        let mut groups = Groups::default();
        let path = dir.path().to_owned();
        let is_short = false;
        groups.known.insert(3, Group { path, is_short });
        let short = [800, 860, 800, 710, 690, 800].map(|used| {
            fs::write(dir.path().join("memory.current"), format!("{used}\n")).expect("a file");
            groups.look((0.85, 0.7), |_| true);
            groups.is_short(3)
        });
        assert_eq!(short, [false, true, true, true, false, false]);
        groups.look((0.85, 0.7), |_| false);
        assert_eq!(groups.path(3), None);
    }

    #[test]
    fn the_same_cgroup_has_the_same_number() {
        let mut groups = Groups::default();
        let own = groups.of_process(std::process::id());
        assert_eq!(groups.of_process(std::process::id()), own);
        assert_eq!(groups.of_process(u32::MAX), None);
    }
}
