//! How much of huge pages is zeros, while memory is ample: a sample, for people to see. Once memory is short, recovery counts for itself, what it
//! goes by.

use std::collections::BTreeSet;
use std::time::Instant;

use pagewise_simulate::hugepages::Process;

use super::act;
use super::manager::HOUSEKEEPING;
use super::manager::Manager;

/// Huge pages of one process that are read in one turn.
const AT_ONCE: usize = 16;
/// Of the manager's share, what that may take.
const SHARE_OF_SAMPLES: f64 = 0.05;

/// Whose turn is next, and when.
pub(super) struct Turn {
    last: u32,
    next: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            last: 0,
            next: Instant::now(),
        }
    }
}

impl Manager<'_> {
    /// Looks at a few huge pages of the process whose turn it is, if it is time.
    pub(super) fn sample_zeros(&mut self) {
        let is_time = Instant::now() >= self.sampling.next;
        if !is_time || self.arguments.once || self.controller.is_recovering() {
            return;
        }
        let before = self.budget.spent();
        let is_meant = |pid: &&u32| {
            let known = self.processes.get(**pid);
            known.is_some_and(|known| known.huge() > 0 && !known.is_left_alone())
        };
        let behind = self.targets.keys().filter(is_meant);
        let last = self.sampling.last;
        let turn = behind.clone().find(|pid| **pid > last);
        if let Some(pid) = turn.or_else(|| behind.clone().next()).copied() {
            self.sampling.last = pid;
            self.sample_zeros_of(pid);
        }
        let cost = self.budget.spent().saturating_sub(before);
        let rest = self.time_to_earn(cost, SHARE_OF_SAMPLES);
        self.sampling.next = Instant::now() + rest.max(HOUSEKEEPING);
    }

    fn sample_zeros_of(&mut self, pid: u32) {
        let Some(target) = self.targets.get_mut(&pid) else {
            return;
        };
        let known = self.processes.entry(pid);
        // A debugger may have come since the look.
        if target.is_left_alone(known) {
            return;
        }
        for address in next_places(known, target.sampled_to, AT_ONCE) {
            target.sampled_to = place_in_order(address);
            if let Ok(Some(zeros)) = act::zeros_in(target, &mut self.sensor, address) {
                known.sampled(address, zeros);
            }
        }
    }
}

/// Huge pages that come next in an order that has nothing to do with their addresses: all come in turn, and few stand for all.
fn next_places(known: &Process, sampled_to: u64, most: usize) -> Vec<u64> {
    let huge = known.regions().iter();
    let huge = huge.filter(|(_, region)| region.seen.huge);
    let mut next = BTreeSet::new();
    for (&address, _) in huge {
        let place = place_in_order(address);
        next.insert((place <= sampled_to, place, address));
        if next.len() > most {
            next.pop_last();
        }
    }
    next.into_iter().map(|(.., address)| address).collect()
}

/// Different for different addresses (multiplication by an odd number, Fibonacci hashing; D. Knuth, The Art of Computer Programming, 6.4).
fn place_in_order(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use pagewise_simulate::hugepages::Processes;
    use pagewise_simulate::hugepages::Seen;

    #[test]
    fn all_huge_pages_come_in_turn_and_no_others() {
        let mut processes = Processes::default();
        let known = processes.entry(1);
        let seen = |number: u64| Seen {
            address: number << 21,
            resident: 512,
            huge: number != 3,
            ..Seen::default()
        };
        let all: Vec<Seen> = (1..=10).map(seen).collect();
        known.observe(&all, Duration::ZERO);
        let mut sampled_to = 0;
        let mut found = BTreeSet::new();
        for _ in 0..3 {
            let next = next_places(known, sampled_to, 3);
            assert_eq!(next.len(), 3);
            assert!(
                next.iter().all(|address| found.insert(*address)),
                "{next:?}"
            );
            sampled_to = place_in_order(next[2]);
        }
        assert_eq!(found.len(), 9);
        assert!(!found.contains(&(3 << 21)));
        // Then the first ones again.
        assert_eq!(next_places(known, sampled_to, 3), next_places(known, 0, 3));
    }
}
