//! What the recorded processes have in memory and in swap together, shared pages counted once.
//!
//! Of one process, the kernel's sizes say that. After a fork, pages are shared: the sizes of fifty workers hold those of their
//! parent fifty times. Where there is a cgroup of ours, its own counts say it; else each process counts shared pages by its
//! share. That takes the kernel a look at each page, so a thread of its own does it, and seldom if it takes long.

use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::MemoryCgroup;
use pagewise_host::family;
use pagewise_host::process;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// Of the time, one part in so many may be a processor's for looking at pages: how long it waits for one is no matter, or on a busy machine
/// hardly anything would be seen.
const LOOKING_SHARE: u32 = 100;

/// Bytes of all processes; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) resident: Option<u64>,
    pub(super) swapped: Option<u64>,
}

/// Looks at processes, as often as it may.
pub(super) struct Footprint {
    looking: Option<JoinHandle<(Held, Duration)>>,
    next: Instant,
}

impl Footprint {
    pub(super) fn new() -> Self {
        Self {
            looking: None,
            next: Instant::now(),
        }
    }

    /// What these have; `None`: it is looked at ([`Footprint::finished`] tells), or was a short time ago. `cgroup`: that of
    /// all these and nobody else.
    pub(super) fn look(&mut self, pids: &[u32], cgroup: Option<&MemoryCgroup>) -> Option<Held> {
        let alone = apart(pids);
        match alone[..] {
            [] => return Some(Held::default()),
            [only] => return Some(of_one(only)),
            _ => {}
        }
        if let Some(held) = cgroup.and_then(of_cgroup) {
            return Some(held);
        }
        if self.looking.is_none() && Instant::now() >= self.next {
            let looking = std::thread::Builder::new().spawn(move || {
                let held = of_several(&alone);
                let time = clock_gettime(ClockId::ThreadCPUTime);
                (held, Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
            });
            // Without room for a thread, the next sample tries again.
            self.looking = looking.ok();
        }
        None
    }

    /// What was looked at since; once.
    pub(super) fn finished(&mut self) -> Option<Held> {
        let thread = self.looking.take_if(|thread| thread.is_finished())?;
        let (held, took) = thread.join().ok()?;
        self.next = Instant::now() + took * LOOKING_SHARE;
        Some(held)
    }
}

/// Without those that run in their parent's memory until their exec.
fn apart(pids: &[u32]) -> Vec<u32> {
    let borrows = |pid: u32| {
        let parent = process::stat(pid).map(|stat| stat.parent);
        let parent = parent.filter(|parent| pids.contains(parent));
        parent.is_some_and(|parent| family::share_memory(pid, parent) == Some(true))
    };
    let is_only = pids.len() < 2;
    let kept = pids.iter().copied().filter(|&pid| is_only || !borrows(pid));
    kept.collect()
}

fn of_one(pid: u32) -> Held {
    let memory = process::memory(pid).unwrap_or_default();
    Held {
        resident: memory.resident_bytes,
        swapped: memory.swapped_bytes,
    }
}

fn of_cgroup(cgroup: &MemoryCgroup) -> Option<Held> {
    Some(Held {
        resident: Some(cgroup.resident()?),
        swapped: Some(cgroup.swap_usage()?),
    })
}

fn of_several(pids: &[u32]) -> Held {
    let shares: Vec<process::Shares> = pids.iter().copied().filter_map(process::shares).collect();
    if shares.is_empty() {
        return Held::default();
    }
    Held {
        resident: Some(shares.iter().map(|shares| shares.resident_bytes).sum()),
        swapped: Some(shares.iter().map(|shares| shares.swapped_bytes).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_its_own_is_looked_at_at_once() {
        let held = Footprint::new().look(&[std::process::id()], None);
        let held = held.expect("it is known");
        assert!(held.resident > Some(0) && held.swapped.is_some());
    }

    #[test]
    fn several_are_looked_at_beside_and_counted_by_shares() {
        let mut footprint = Footprint::new();
        let parent = process::stat(std::process::id()).expect("we live").parent;
        let pids = [std::process::id(), parent];
        assert_eq!(footprint.look(&pids, None), None);
        let held = loop {
            if let Some(held) = footprint.finished() {
                break held;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(held.resident > Some(0));
        assert_eq!(footprint.finished(), None, "once");
        assert_eq!(footprint.look(&pids, None), None, "not at once again");
        assert!(footprint.looking.is_none());
    }
}
