//! `record --access`: beside what was accessed, how much of their time the processes spend on translating addresses, where the
//! processor counts that.

use std::collections::BTreeMap;
use std::collections::HashMap;

use pagewise_collect::page_walks::PageWalks;
use pagewise_collect::page_walks::WalkEvents;

/// Counters take three descriptors a thread. Of more processes, the first ones are counted.
const MOST_PROCESSES: usize = 16;

/// Cycles in page walks and all cycles, by address space.
#[derive(Default)]
pub(super) struct WalkShares {
    events: Option<WalkEvents>,
    /// By process.
    counters: HashMap<u32, PageWalks>,
    cycles: BTreeMap<u32, (f64, f64)>,
}

impl WalkShares {
    /// Beside why there are no counters.
    pub(super) fn find() -> (Self, Option<String>) {
        let (events, why) = match WalkEvents::find() {
            Ok(events) => (Some(events), None),
            Err(why) => (None, Some(why)),
        };
        let found = Self {
            events,
            ..Self::default()
        };
        (found, why)
    }

    /// Counts what these do from now on, as far as that is not done already; of others no longer.
    pub(super) fn follow(&mut self, processes: &[u32]) {
        let Some(events) = &self.events else { return };
        self.counters.retain(|pid, _| processes.contains(pid));
        for &pid in processes.iter().take(MOST_PROCESSES) {
            // One that has ended, or may not be counted, has no share.
            if !self.counters.contains_key(&pid)
                && let Ok(counters) = PageWalks::open(events, pid)
            {
                self.counters.insert(pid, counters);
            }
        }
    }

    /// What was counted of this process since the last time is of this address space.
    pub(super) fn count(&mut self, pid: u32, space: u32) {
        let counted = self.counters.get_mut(&pid).map(PageWalks::advance);
        if let Some(counted) = counted {
            self.add(space, counted);
        }
    }

    fn add(&mut self, space: u32, (walks, cycles): (f64, f64)) {
        let sum = self.cycles.entry(space).or_default();
        *sum = (sum.0 + walks, sum.1 + cycles);
    }

    /// Of each address space that has run, 0 to 1.
    pub(super) fn shares(&self) -> BTreeMap<u32, f64> {
        let ran = self.cycles.iter().filter(|(_, (_, all))| *all > 0.0);
        ran.map(|(space, (walks, all))| (*space, (walks / all).min(1.0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_cycles_and_of_those_that_ran() {
        let mut shares = WalkShares::default();
        for (space, counted) in [
            (1, (10.0, 100.0)),
            (1, (40.0, 100.0)),
            (2, (0.0, 0.0)),
            (3, (5.0, 4.0)),
        ] {
            shares.add(space, counted);
        }
        assert_eq!(shares.shares(), [(1, 0.25), (3, 1.0)].into());
    }

    #[test]
    fn without_counters_nothing_is_told() {
        let mut shares = WalkShares::default();
        shares.follow(&[std::process::id()]);
        shares.count(std::process::id(), 1);
        assert!(shares.shares().is_empty());
    }
}
