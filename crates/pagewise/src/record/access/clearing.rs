//! Clears accessed bits of processes for one look, unless another one looks at them.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::CollectError;
use pagewise_collect::access::PageSet;
use pagewise_collect::access::Pages;
use pagewise_collect::access::Region;
use pagewise_collect::access::clear_accessed;
use pagewise_host::process;

use super::super::facts::Clocks;
use crate::output::tell;

/// From clearing accessed bits to looking at them, with room for a busy machine.
const LONGEST_LOOK_OF_A_MANAGER: Duration = Duration::from_secs(4);

/// Memory whose accessed bits were cleared.
pub(super) struct Cleared {
    pub(super) pid: u32,
    pub(super) pages: Pages,
    /// When it had been seen which pages are in memory; `None`: nobody looked before.
    pub(super) listed_at_ns: Option<u64>,
    /// When all were cleared,
    pub(super) at_ns: u64,
    /// and how long that took: one after the other, by address.
    pub(super) took: Duration,
    /// Its processor time then.
    pub(super) ran_ns: Option<u64>,
    /// What glances found accessed since, by the regions' addresses.
    pub(super) accessed: HashMap<u64, PageSet>,
    /// The pages that were in memory, by the regions' addresses; `None`: all.
    pub(super) only: Option<HashMap<u64, PageSet>>,
}

/// What the clearing thread returns.
#[derive(Default)]
pub(super) struct Clearing {
    pub(super) cleared: Vec<Cleared>,
    /// Processor time.
    pub(super) cost: Duration,
    /// Time that passed.
    pub(super) took: Duration,
    /// Processes that may not be looked into, and why the last of them may not.
    pub(super) refusals: u64,
    pub(super) refused: Option<CollectError>,
    /// A process whose accessed bits another one looks at.
    pub(super) watched: Option<u32>,
}

impl Cleared {
    /// From the clearing of a page's bit to a walk that begins at `time_ns` and takes so long: both go by address, and this share of the pages
    /// in memory lies before it.
    pub(super) fn interval_ns(&self, share: f64, time_ns: u64, walk: Duration) -> u64 {
        let after = (1.0 - share) * self.took.as_nanos() as f64 + share * walk.as_nanos() as f64;
        time_ns.saturating_sub(self.at_ns) + after as u64
    }

    /// What of a region has been cleared; `None`: nothing.
    pub(super) fn cleared_of(&self, region: Region) -> Option<Region> {
        let Some(only) = &self.only else {
            return Some(region);
        };
        let only = only.get(&region.address).filter(|_| !region.huge)?;
        let of = |set: &PageSet| both(set, only, |page, only| page & only);
        Some(Region {
            resident: of(&region.resident),
            accessed: of(&region.accessed),
            ..region
        })
    }

    /// What a glance saw accessed was, though the kernel may have cleared its bit since.
    pub(super) fn with_glances(&self, mut region: Region) -> Region {
        if let Some(glanced) = self.accessed.get(&region.address) {
            let still = both(glanced, &region.resident, |glanced, here| glanced & here);
            region.accessed = both(&region.accessed, &still, |now, still| now | still);
        }
        region
    }

    /// The region with those pages only that no glance before has seen accessed.
    pub(super) fn what_is_new(&mut self, mut region: Region) -> Region {
        let before = self.accessed.entry(region.address).or_default();
        region.accessed = both(&region.accessed, before, |now, before| now & !before);
        *before = both(before, &region.accessed, |before, new| before | new);
        region
    }
}

pub(super) fn both(one: &PageSet, other: &PageSet, join: impl Fn(u64, u64) -> u64) -> PageSet {
    std::array::from_fn(|word| join(one[word], other[word]))
}

pub(super) fn clear(processes: &[u32]) -> Clearing {
    let mut clearing = Clearing::default();
    for &pid in processes {
        // Opened before: what the process execs in between is not what was cleared, and is left out.
        let opened = Pages::open(pid);
        let (begun, processor) = (Instant::now(), processor_time());
        let cleared = opened.and_then(|pages| match &pages {
            Some(open) if !open.claim() => {
                clearing.watched.get_or_insert(pid);
                Ok((pages, false))
            }
            _ => Ok((pages, clear_accessed(pid)?)),
        });
        let cost = processor_time().saturating_sub(processor);
        clearing.took += begun.elapsed();
        clearing.cost += cost;
        match cleared {
            Ok((Some(pages), true)) => clearing.cleared.push(Cleared {
                pid,
                pages,
                listed_at_ns: None,
                at_ns: Clocks::now().monotonic_ns,
                took: cost,
                ran_ns: process::processor_ns(pid),
                accessed: HashMap::new(),
                only: None,
            }),
            Ok(_) => {} // it has ended, or another one's look is under way
            Err(error) => {
                clearing.refusals += 1;
                clearing.refused = Some(error);
            }
        }
    }
    clearing
}

/// Of this thread.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether another one looks at the accesses of all processes, and since when.
#[derive(Default)]
pub(super) struct Watched {
    since: Option<Instant>,
    is_told: bool,
}

impl Watched {
    pub(super) fn is_over(&mut self) {
        self.since = None;
    }

    /// A manager's look is soon over. What lasts longer is told once.
    pub(super) fn is_so(&mut self, pid: Option<u32>) {
        let Some(pid) = pid else { return };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_told && since.elapsed() > LONGEST_LOOK_OF_A_MANAGER {
            tell!(
                "pagewise: accesses of process {pid} are not recorded while another one looks at them (a recording, or a huge page manager): end that first"
            );
            self.is_told = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_glanced_counts_while_it_is_in_memory_since_its_own_clearing() {
        let glanced = [0b1110, 0, 0, 0, 0, 0, 0, 1];
        let cleared = Cleared {
            pid: std::process::id(),
            pages: Pages::open(std::process::id()).unwrap().unwrap(),
            listed_at_ns: None,
            at_ns: 1000,
            took: Duration::from_nanos(400),
            ran_ns: None,
            accessed: HashMap::from([(2 << 20, glanced)]),
            only: None,
        };
        let region = |address| Region {
            address,
            resident: [0b0111, 0, 0, 0, 0, 0, 0, 0],
            accessed: [0b0001, 0, 0, 0, 0, 0, 0, 0],
            ..Region::default()
        };
        assert_eq!(cleared.with_glances(region(2 << 20)).accessed[0], 0b0111);
        assert_eq!(cleared.with_glances(region(2 << 20)).accessed[7], 0);
        assert_eq!(cleared.with_glances(region(4 << 20)), region(4 << 20));
        let mut cleared = cleared;
        assert_eq!(cleared.what_is_new(region(2 << 20)).accessed[0], 0b0001);
        assert_eq!(cleared.what_is_new(region(2 << 20)).accessed[0], 0);
        assert_eq!(cleared.cleared_of(region(2 << 20)), Some(region(2 << 20)));
        let one = [0b0100, 0, 0, 0, 0, 0, 0, 0];
        cleared.only = Some(HashMap::from([(2 << 20, one)]));
        let left = cleared.cleared_of(region(2 << 20)).expect("some of it");
        assert_eq!((left.resident, left.accessed), (one, [0; 8]));
        assert_eq!(cleared.cleared_of(region(4 << 20)), None);
        let walk = Duration::from_nanos(100);
        let times = [0.0, 0.25, 1.0].map(|share| cleared.interval_ns(share, 5000, walk));
        assert_eq!(times, [4400, 4325, 4100]);
    }
}
