//! Processes that run already: found, joined by the sensors, and followed until none is left.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use pagewise_collect::SwapSensor;
use pagewise_host::RunningProcess;
use pagewise_host::cgroup;
use pagewise_host::family;
use pagewise_host::process;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

use crate::failure::Failure;
use crate::observe;

/// A process that was just changing its program is asked for again.
const MOST_TRIES: u8 = 3;
/// Processes are found while others come: a round for what the last one missed.
const MOST_ROUNDS: usize = 16;

pub(crate) struct Running {
    /// Those that were named and live.
    roots: Vec<RunningProcess>,
    cgroup: Option<PathBuf>,
    known: BTreeMap<u32, Known>,
}

struct Known {
    start_ns: u64,
    tries: u8,
}

impl Running {
    /// Finds what was named; nothing is recorded yet.
    pub(crate) fn find(named: &observe::Running) -> Result<Self, Failure> {
        let mut running = Self {
            roots: Vec::new(),
            cgroup: None,
            known: BTreeMap::new(),
        };
        for pid in &named.pid {
            running.roots.push(RunningProcess::find(*pid)?);
        }
        if let Some(text) = &named.cgroup {
            let cgroup = cgroup::find(text)?;
            let members = cgroup::all_processes(&cgroup);
            if members.is_empty() {
                let path = cgroup.display();
                return Err(Failure::new(format!(
                    "no process runs in {path}; start the service first, or record a program with: pagewise record -- CMD"
                )));
            }
            require_one_observable(&members)?;
            running.cgroup = Some(cgroup);
        }
        Ok(running)
    }

    /// Where the limit of the recorded processes is to be looked for.
    pub(super) fn first(&self) -> Option<u32> {
        let root = self.roots.first().map(RunningProcess::pid);
        let member = || {
            cgroup::all_processes(self.cgroup.as_ref()?)
                .first()
                .copied()
        };
        root.or_else(member)
    }

    /// What was named, for the trace.
    pub(crate) fn named(&self) -> (Vec<u32>, Option<String>) {
        let pids = self.roots.iter().map(RunningProcess::pid).collect();
        let cgroup = self.cgroup.as_ref().map(|path| path.display().to_string());
        (pids, cgroup)
    }

    /// Lets the sensor join all of them, and the children they have.
    pub(crate) fn join(&mut self, sensor: Option<&SwapSensor>) -> Result<(), Failure> {
        let mut joined = BTreeSet::new();
        for _ in 0..MOST_ROUNDS {
            let before = self.known.len();
            joined.extend(self.join_once(sensor, &joined)?);
            if self.known.len() == before {
                break;
            }
        }
        if sensor.is_some() && joined.is_empty() {
            return Err(Failure::new(
                "the processes ended before they could be recorded",
            ));
        }
        Ok(())
    }

    /// Looks who is there now. `recorded`: processes that the sensor tells of.
    pub(crate) fn look(
        &mut self,
        sensor: Option<&SwapSensor>,
        recorded: &BTreeSet<u32>,
    ) -> Result<(), Failure> {
        for pid in recorded {
            self.learn(*pid);
        }
        self.join_once(sensor, recorded)?;
        self.known.retain(|pid, known| {
            process::stat(*pid).is_some_and(|stat| {
                stat.start_ns == known.start_ns && !matches!(stat.state, 'Z' | 'X')
            })
        });
        Ok(())
    }

    fn join_once(
        &mut self,
        sensor: Option<&SwapSensor>,
        recorded: &BTreeSet<u32>,
    ) -> Result<Vec<u32>, Failure> {
        for pid in self.family() {
            self.learn(pid);
        }
        let Some(sensor) = sensor else {
            return Ok(Vec::new());
        };
        let wanted: Vec<u32> = self
            .known
            .iter_mut()
            .filter(|(pid, known)| known.tries < MOST_TRIES && !recorded.contains(pid))
            .map(|(pid, known)| {
                known.tries += 1;
                *pid
            })
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        Ok(sensor.watch_running(&wanted)?)
    }

    /// Those that were named with their descendants, or the members of the cgroup. Never we ourselves.
    fn family(&self) -> BTreeSet<u32> {
        let mut family = BTreeSet::new();
        for root in &self.roots {
            family.insert(root.pid());
            family.extend(family::descendants(root.pid()));
        }
        if let Some(cgroup) = &self.cgroup {
            family.extend(cgroup::all_processes(cgroup));
        }
        let us = std::process::id();
        family.remove(&us);
        for child in family::children(us) {
            family.remove(&child);
        }
        family
    }

    fn learn(&mut self, pid: u32) {
        if !self.known.contains_key(&pid)
            && let Some(stat) = process::stat(pid)
        {
            let start_ns = stat.start_ns;
            self.known.insert(pid, Known { start_ns, tries: 0 });
        }
    }

    /// Those that lived when last looked at.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.known.keys().copied().collect()
    }

    /// Sleeps until one of those that were named ends, one of the others is readable, or it is time to look again. True: none that was named is left,
    /// and others are to be looked for now.
    pub(crate) fn wait_a_little(&mut self, patience: &Timespec, others: &[BorrowedFd<'_>]) -> bool {
        let roots = self.roots.iter().map(RunningProcess::pidfd);
        let mut wanted: Vec<PollFd<'_>> = roots
            .chain(others.iter().copied())
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        // Interrupted by a signal: the caller looks at those anyway.
        let _ = rustix::event::poll(&mut wanted, Some(patience));
        let mut ended = wanted
            .iter()
            .map(|fd| fd.revents().contains(PollFlags::IN))
            .collect::<Vec<bool>>()
            .into_iter();
        let before = self.roots.len();
        self.roots.retain(|_| !ended.next().unwrap_or(false));
        before > 0 && self.roots.is_empty() && self.cgroup.is_none()
    }

    /// Whether none is left, as of the last look.
    pub(crate) fn is_over(&self) -> bool {
        self.known.is_empty()
    }
}

/// Of a cgroup of others we may see nothing at all.
fn require_one_observable(members: &[u32]) -> Result<(), Failure> {
    let mut refused = None;
    for pid in members {
        match RunningProcess::find(*pid) {
            Ok(_) => return Ok(()),
            Err(error) => refused = Some(error),
        }
    }
    refused.map_or(Ok(()), |error| Err(error.into()))
}
