//! Which processes are managed.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use pagewise_host::RunningProcess;
use pagewise_host::cgroup;
use pagewise_host::cgroup::CgroupHost;
use pagewise_host::cgroup::CgroupRoom;
use pagewise_host::family;
use pagewise_host::process;

use super::arguments::ManageArguments;
use crate::failure::Failure;

/// Each takes two descriptors. Of more processes, those with the most memory are managed.
const MOST: usize = 256;
/// A process with less memory has no region worth looking at.
pub(super) const LEAST_BYTES: u64 = 4 << 20;

/// What the user named.
pub(super) enum Named {
    /// Held, so that no later process of the same number is meant.
    Processes(Vec<RunningProcess>),
    Cgroup(PathBuf),
    All,
}

/// The processes to manage now, and how many had to be left out.
pub(super) struct Found {
    pub(super) processes: BTreeSet<u32>,
    pub(super) left_out: usize,
}

impl Named {
    /// Finds what was named, so that a mistake is told at once.
    pub(super) fn find(arguments: &ManageArguments) -> Result<Self, Failure> {
        if !arguments.names_processes() {
            return Err(Failure::new(
                "which processes? Add --pid PID, --cgroup NAME or --all, with --dry-run to change nothing; or type: pagewise hugepages status",
            ));
        }
        let roots: Result<Vec<RunningProcess>, Failure> =
            arguments.pid.iter().map(|pid| require(*pid)).collect();
        let roots = roots?;
        if let Some(text) = &arguments.cgroup {
            let path = cgroup::find(text)?;
            if cgroup::all_processes(&path).is_empty() {
                return Err(Failure::new(format!(
                    "no process runs in {}; start the service first",
                    path.display()
                )));
            }
            return Ok(Named::Cgroup(path));
        }
        Ok(if arguments.all {
            Named::All
        } else {
            Named::Processes(roots)
        })
    }

    /// Who is there now. Who is `held` already is let go only once it has half as much memory as another must have: else processes at
    /// the limit would come and go.
    pub(super) fn now(&self, held: &BTreeSet<u32>) -> Found {
        let own = std::process::id();
        let candidates: Vec<u32> = match self {
            Named::Processes(roots) => {
                let alive = roots.iter().filter(|root| !root.has_ended());
                let families = alive.flat_map(|root| {
                    let descendants = family::descendants(root.pid());
                    std::iter::once(root.pid()).chain(descendants)
                });
                families.collect()
            }
            Named::Cgroup(path) => cgroup::all_processes(path),
            Named::All => all(),
        };
        let mut by_size: BTreeMap<(std::cmp::Reverse<u64>, u32), ()> = BTreeMap::new();
        for pid in candidates {
            let bytes = process::memory(pid).and_then(|memory| memory.resident_bytes);
            let bytes = bytes.map(|bytes| bytes << u32::from(held.contains(&pid)));
            if let Some(bytes) = bytes.filter(|bytes| pid != own && *bytes >= LEAST_BYTES) {
                by_size.insert((std::cmp::Reverse(bytes), pid), ());
            }
        }
        let left_out = by_size.len().saturating_sub(MOST);
        Found {
            processes: by_size.into_keys().take(MOST).map(|(_, pid)| pid).collect(),
            left_out,
        }
    }

    /// What the limits around all of those that were named leave. Of `--all` there is none.
    pub(super) fn room(&self) -> Vec<CgroupRoom> {
        match self {
            Named::Processes(roots) => {
                let alive = roots.iter().filter(|root| !root.has_ended());
                let hosts = alive.filter_map(|root| CgroupHost::of_process(root.pid()).ok());
                let around_all = hosts.map(|host| host.own).reduce(common_folder);
                around_all.map_or(Vec::new(), |path| CgroupRoom::around(&path))
            }
            Named::Cgroup(path) => CgroupRoom::around(path),
            Named::All => Vec::new(),
        }
    }

    /// Whether all processes that were named have ended: there will be no others.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Named::Processes(roots) => roots.iter().all(RunningProcess::has_ended),
            Named::Cgroup(_) | Named::All => false,
        }
    }
}

/// The deepest folder around both.
fn common_folder(a: PathBuf, b: PathBuf) -> PathBuf {
    let common = a.ancestors().find(|folder| b.starts_with(folder));
    common.map_or(PathBuf::new(), Path::to_owned)
}

/// A process that can be looked into, in the words of this command.
pub(super) fn require(pid: u32) -> Result<RunningProcess, Failure> {
    RunningProcess::find(pid).map_err(|error| match error {
        pagewise_host::Error::NotObservable { pid, why } => {
            Failure::new(format!("process {pid} cannot be managed: {why}"))
        }
        error => error.into(),
    })
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_around_all_are_those_of_the_deepest_folder_around_both() {
        let common = |a: &str, b: &str| common_folder(a.into(), b.into());
        assert_eq!(common("/g/a/x", "/g/a/y"), Path::new("/g/a"));
        assert_eq!(common("/g/a", "/g/a/y"), Path::new("/g/a"));
        assert_eq!(common("/g/a", "/g/ab"), Path::new("/g"));
    }
}
