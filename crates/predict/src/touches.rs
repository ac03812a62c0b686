//! When pages were first touched: scans of page tables tell it to their interval, evictions more closely.
//!
//! Where memory is full each page that comes in drives another one out. Swap-ins are recorded, so evictions beyond theirs are
//! of new pages: those of an interval are laid where these evictions were, and spread evenly if there were none.

use crate::history::What;

/// Evictions that swap-ins do not account for.
pub(crate) struct Touches {
    /// Evictions and swap-ins, in order of time.
    events: Vec<(u64, What)>,
}

impl Touches {
    pub(crate) fn new(mut events: Vec<(u64, What)>) -> Touches {
        events.sort_unstable();
        Touches { events }
    }

    /// When each of so many new pages came, of those between two scans; ascending.
    pub(crate) fn of(&self, count: u64, since: u64, now: u64) -> Vec<u64> {
        let driven = self.driven_out(since, now);
        let matched = (driven.len() as u64).min(count);
        let even = count - matched;
        let by_evictions =
            (0..matched).map(|number| driven[number as usize * driven.len() / matched as usize]);
        let evenly = (0..even).map(|number| since + (now - since) * number / even);
        let mut times: Vec<u64> = by_evictions.chain(evenly).collect();
        times.sort_unstable();
        times
    }

    /// When so many pages had been evicted from then on.
    pub(crate) fn evicted(&self, count: usize, since: u64) -> u64 {
        let begin = self.events.partition_point(|&(at, _)| at <= since);
        let mut evictions = self.events[begin..]
            .iter()
            .filter(|&&(_, what)| what == What::Evicted);
        evictions.nth(count).map_or(u64::MAX, |&(at, _)| at)
    }

    /// When evictions were more than ever before in this interval, less swap-ins.
    fn driven_out(&self, since: u64, now: u64) -> Vec<u64> {
        let begin = self.events.partition_point(|&(at, _)| at <= since);
        let (mut excess, mut most, mut times) = (0i64, 0, Vec::new());
        for &(at, what) in &self.events[begin..] {
            if at > now {
                break;
            }
            excess += if what == What::Evicted { 1 } else { -1 };
            if excess > most {
                most = excess;
                times.push(at);
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_pages_came_when_others_were_driven_out_that_no_swap_in_accounts_for() {
        // The first five of those at 100, 102, ... 118 were for new pages.
        let evictions = (0..10).map(|number| (100 + 2 * number, What::Evicted));
        let swap_ins = (5..10).map(|number| (99 + 2 * number, What::Faulted));
        let touches = Touches::new(evictions.chain(swap_ins).collect());
        assert_eq!(touches.of(5, 0, 200), [100, 102, 104, 106, 108]);
        // Fewer pages than that, and more: what drove out nobody came at any time.
        assert_eq!(touches.of(2, 0, 200), [100, 104]);
        assert_eq!(touches.of(7, 0, 200), [0, 100, 100, 102, 104, 106, 108]);
        assert_eq!(touches.of(4, 200, 300), [200, 225, 250, 275]);
        assert_eq!(
            [2, 20].map(|count| touches.evicted(count, 100)),
            [106, u64::MAX]
        );
    }
}
