//! Which processes are managed.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use pagewise_host::RunningProcess;
use pagewise_host::cgroup;
use pagewise_host::process;

use super::arguments::ManageArguments;
use crate::failure::Failure;

/// Each takes two descriptors. Of more processes, those with the most memory are managed.
const MOST: usize = 256;
/// A process with less memory has no region worth looking at.
const LEAST_BYTES: u64 = 4 << 20;

/// What the user named.
pub(super) enum Named {
    Processes(Vec<u32>),
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
        for pid in &arguments.pid {
            require(*pid)?;
        }
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
            Named::Processes(arguments.pid.clone())
        })
    }

    /// Who is there now. `known`: those that are managed, with when they started.
    pub(super) fn now(&self) -> Found {
        let own = std::process::id();
        let candidates: Vec<u32> = match self {
            Named::Processes(roots) => {
                let families = roots.iter().flat_map(|root| {
                    let descendants = process::descendants(*root);
                    std::iter::once(*root).chain(descendants)
                });
                families.collect()
            }
            Named::Cgroup(path) => cgroup::all_processes(path),
            Named::All => all(),
        };
        let mut by_size: BTreeMap<(std::cmp::Reverse<u64>, u32), ()> = BTreeMap::new();
        for pid in candidates {
            let bytes = process::memory(pid).and_then(|memory| memory.resident_bytes);
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

    /// Whether the manager's work is over once none of them is left.
    pub(super) fn ends_with_them(&self) -> bool {
        matches!(self, Named::Processes(_))
    }
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
