//! What a program leaves running when it ends.

use crate::family;
use crate::process;
use rustix::process::Pid;
use rustix::process::WaitOptions;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const POLL: Duration = Duration::from_millis(20);

/// Tells the program's processes from our other children, by who was there first. This process must
/// be the child subreaper, so that orphans become its children.
#[derive(Debug)]
pub(super) struct Family {
    /// Our children before the launch: process id and start.
    others: BTreeSet<(u32, u64)>,
}

impl Family {
    pub(super) fn before_launch() -> Self {
        let children = family::children(std::process::id()).into_iter();
        Family {
            others: children
                .filter_map(|pid| Some((pid, process::stat(pid)?.start_ns)))
                .collect(),
        }
    }

    /// Running descendants of the program, itself excluded.
    pub(super) fn remaining(&self, main: Pid) -> Vec<u32> {
        let main = main.as_raw_nonzero().get().unsigned_abs();
        let mut found = Vec::new();
        for child in self.children() {
            found.push(child);
            found.extend(family::descendants(child));
        }
        found.retain(|pid| *pid != main && process::is_alive(*pid));
        found
    }

    pub(super) fn wait_remaining(&self, main: Pid, timeout: Option<Duration>) -> Vec<u32> {
        let begun = Instant::now();
        loop {
            self.reap_orphans(main);
            let remaining = self.remaining(main);
            if remaining.is_empty() || timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
                return remaining;
            }
            thread::sleep(POLL);
        }
    }

    /// Takes the zombies away that we inherited, one by one: other children are not ours to wait for.
    fn reap_orphans(&self, main: Pid) {
        let pids = self
            .children()
            .into_iter()
            .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        for pid in pids.filter(|pid| *pid != main) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Our children that were not there before.
    fn children(&self) -> Vec<u32> {
        let is_new = |pid: &u32| {
            process::stat(*pid).is_some_and(|stat| !self.others.contains(&(*pid, stat.start_ns)))
        };
        family::children(std::process::id())
            .into_iter()
            .filter(is_new)
            .collect()
    }
}
