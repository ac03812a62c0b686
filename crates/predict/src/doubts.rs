//! Whether looks contradict that regions are gone through in rounds.
//!
//! What is used all the time, and pushed out by something that comes once in a while, comes back once in a while, too: its returns are as far apart as
//! those of what is accessed once a round ([`crate::periods`]). But a look that takes a part of a round sees that part of such pages accessed, on
//! average over all looks, and nearly all of what is used all the time.

use std::ops::Range;

use crate::periods::Rounds;

/// So many pages of a region that stayed in memory tell something in a look.
const FEWEST_PAGES: f64 = 8.0;
/// By how many standard deviations more of a region has to be seen accessed than in rounds,
const REGION_IS_SURE: f64 = 2.0;
/// and of all regions together whose rounds are as long: of rounds in order, each look sees some regions accessed and others not.
const ALL_ARE_SURE: f64 = 3.0;
/// Lengths of rounds count as equal that differ by less than such a part.
const PRECISION: u64 = 8;
/// Added to the variance: few looks that happen to be long tell little.
const LEAST_VARIANCE: f64 = 0.25;

/// Shares of pages, summed over looks.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    seen: f64,
    expected: f64,
    variance: f64,
}

impl Shares {
    fn add(&mut self, other: Self) {
        self.seen += other.seen;
        self.expected += other.expected;
        self.variance += other.variance;
    }

    /// So many standard deviations more was seen.
    fn excess(&self) -> f64 {
        (self.seen - self.expected) / (self.variance + LEAST_VARIANCE).sqrt()
    }
}

/// What looks saw of each region that is gone through in rounds by its faults.
pub(crate) struct Doubts<'a> {
    rounds: &'a [Option<Rounds>],
    shares: Vec<Shares>,
}

impl<'a> Doubts<'a> {
    pub(crate) fn about(rounds: &'a [Option<Rounds>]) -> Self {
        Self {
            rounds,
            shares: vec![Shares::default(); rounds.len()],
        }
    }

    /// In this own time, so many pages were seen accessed of those that stayed in memory and are not known to be.
    pub(crate) fn look(
        &mut self,
        region: usize,
        during: Range<u64>,
        (accessed, pages): (f64, f64),
    ) {
        let Some(rounds) = self.rounds[region] else {
            return;
        };
        let is_within = rounds.begin <= during.start && during.end <= rounds.end;
        if pages < FEWEST_PAGES || !is_within {
            return;
        }
        let part = (during.end - during.start) as f64 / rounds.length.max(1) as f64;
        let expected = part.min(1.0);
        self.shares[region].add(Shares {
            seen: accessed / pages,
            expected,
            variance: expected * (1.0 - expected),
        });
    }

    /// The regions that are no more taken to be gone through in rounds.
    pub(crate) fn confirmed(self) -> Vec<usize> {
        let mut by_length: Vec<(u64, Shares)> = Vec::new();
        for (rounds, shares) in self.rounds.iter().zip(&self.shares) {
            by_length.extend(rounds.map(|rounds| (rounds.length, *shares)));
        }
        by_length.sort_unstable_by_key(|&(length, _)| length);
        let alike = |length: u64| {
            let near = length / PRECISION;
            let first = by_length.partition_point(|&(other, _)| other < length - near);
            let after = by_length.partition_point(|&(other, _)| other <= length + near);
            let mut all = Shares::default();
            for &(_, shares) in &by_length[first..after] {
                all.add(shares);
            }
            all
        };
        let is_wrong = |&region: &usize| {
            let Some(rounds) = self.rounds[region] else {
                return false;
            };
            self.shares[region].excess() > REGION_IS_SURE
                && alike(rounds.length).excess() > ALL_ARE_SURE
        };
        (0..self.rounds.len()).filter(is_wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 300;

    fn rounds(regions: usize) -> Vec<Option<Rounds>> {
        let rounds = Rounds {
            length: LENGTH,
            begin: 0,
            end: 10 * LENGTH,
        };
        vec![Some(rounds); regions]
    }

    /// Looks of a quarter of a round each, by turns at all regions; of each what part was accessed.
    fn confirmed(regions: usize, looks: u64, accessed: impl Fn(usize, u64) -> f64) -> Vec<usize> {
        let rounds = rounds(regions);
        let mut doubts = Doubts::about(&rounds);
        for look in 0..looks {
            let from = look * LENGTH;
            for region in 0..regions {
                let pages = (100.0 * accessed(region, look), 100.0);
                doubts.look(region, from..from + LENGTH / 4, pages);
            }
        }
        doubts.confirmed()
    }

    #[test]
    fn what_every_look_sees_accessed_is_not_gone_through_in_rounds() {
        assert_eq!(confirmed(16, 6, |_, _| 1.0).len(), 16);
        // In order: another quarter each time; at random places.
        let in_order = |region, look| f64::from(region as u64 % 4 == look % 4);
        assert!(confirmed(16, 8, in_order).is_empty());
        assert!(confirmed(16, 8, |_, _| 0.25).is_empty());
        // A sweep that was at the same place by chance each time.
        assert!(confirmed(64, 6, |region, _| f64::from(region < 16)).is_empty());
        // A hot part beside what is gone through once a round.
        let some = confirmed(64, 6, |region, look| match region {
            0..16 => 1.0,
            _ => f64::from(region as u64 % 4 == look % 4),
        });
        assert_eq!(some, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn one_look_tells_nothing_and_neither_do_few_pages_or_what_was_before() {
        assert!(confirmed(16, 1, |_, _| 1.0).is_empty());
        let rounds = rounds(16);
        let mut doubts = Doubts::about(&rounds);
        for region in 0..16 {
            for look in 0..6 {
                doubts.look(region, look * LENGTH..look * LENGTH + 10, (7.0, 7.0));
                doubts.look(region, 20 * LENGTH..20 * LENGTH + 10, (99.0, 99.0));
            }
        }
        assert!(doubts.confirmed().is_empty());
    }
}
