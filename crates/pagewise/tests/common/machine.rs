//! The machine as the tests share it: one test at a time, and afterwards as before.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use libbpf_rs::query::LinkInfoIter;
use rustix::fs::FlockOperation;

use super::within;

/// Settings that a recording touches, or might.
const SETTINGS: &[&str] = &[
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/page-cluster",
    "/proc/sys/vm/overcommit_memory",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.subtree_control",
    "/sys/fs/cgroup/memory/memory.use_hierarchy",
];

const RESTORED_WITHIN: Duration = Duration::from_secs(10);

/// This test has the machine's swap to itself, as long as it holds this.
pub(crate) struct Machine {
    before: State,
    /// Numbers of what was attached to the kernel; they are not given twice.
    attached: BTreeSet<u32>,
    _lock: File,
}

#[derive(Debug, PartialEq, Eq)]
struct State {
    swap_areas: Vec<String>,
    cgroups: Vec<PathBuf>,
    settings: BTreeMap<PathBuf, String>,
}

impl Machine {
    /// `None`, with a word about it: this test needs root.
    pub(crate) fn reserve() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return None;
        }
        let path = std::env::temp_dir().join("pagewise-tests.lock");
        let lock = File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("a lock file");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).expect("locked");
        // Of runs that were killed with all their processes: the next one would put it back.
        pagewise_host::undo_log::take_up();
        Some(Self {
            before: State::now(),
            attached: attached(),
            _lock: lock,
        })
    }

    /// Asserts that swap, cgroups and settings are as they were, or will be shortly: the keeper may have to do it, and
    /// others may be using swap for a moment. That a recorder which ended by itself left nothing to the keeper is seen
    /// by what it said.
    pub(crate) fn assert_restored(&self) {
        if !within(RESTORED_WITHIN, || State::now() == self.before) {
            assert_eq!(State::now(), self.before, "the machine is not as it was");
        }
        let none_is_left = within(RESTORED_WITHIN, || !self.has_more_attached());
        assert!(none_is_left, "sensors are still attached to the kernel");
    }

    /// Programs (BPF) are attached to the kernel that were not before.
    pub(crate) fn has_more_attached(&self) -> bool {
        !attached().is_subset(&self.attached)
    }
}

impl State {
    fn now() -> Self {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let mut settings: BTreeMap<PathBuf, String> = SETTINGS
            .iter()
            .filter_map(|path| read(path.into()))
            .collect();
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("zram") {
                let names = ["disksize", "comp_algorithm"];
                settings.extend(
                    names
                        .iter()
                        .filter_map(|name| read(entry.path().join(name))),
                );
            }
        }
        let mut cgroups = Vec::new();
        find_cgroups(Path::new("/sys/fs/cgroup"), 0, &mut cgroups);
        cgroups.sort();
        Self {
            swap_areas: swaps
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().next())
                .map(str::to_owned)
                .collect(),
            cgroups,
            settings,
        }
    }
}

fn attached() -> BTreeSet<u32> {
    LinkInfoIter::default().map(|link| link.id).collect()
}

fn read(path: PathBuf) -> Option<(PathBuf, String)> {
    let text = fs::read_to_string(&path).ok()?;
    Some((path, text))
}

fn find_cgroups(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // A run's cgroup bears the number of the recorder; those of other tests have words in their names.
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("pagewise-").unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(entry.path());
        } else if depth < 4 {
            find_cgroups(&entry.path(), depth + 1, found);
        }
    }
}
