//! Gives whole events to objects that have shares in them, so that counts stay whole and sum to the total.
//!
//! Of each kind of event every object is owed its shares; an event goes to the one that is owed most of those that
//! share it. After any number of events an object has had what its shares add up to, give or take a few events, and the
//! same trace always gives the same counts.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::EventKind;

/// Who shares an event: objects, each once, and positive numbers in proportion.
pub(crate) type Shares = Vec<(usize, f64)>;

/// Adds to the share of an object.
pub(crate) fn add_share(shares: &mut Shares, object: usize, share: f64) {
    match shares.iter_mut().find(|(other, _)| *other == object) {
        Some((_, sum)) => *sum += share,
        None => shares.push((object, share)),
    }
}

/// What each object is owed, in events.
#[derive(Default)]
pub(crate) struct Apportion {
    owed: HashMap<(EventKind, usize), f64, RandomState>,
}

impl Apportion {
    /// The object that gets this event; `None` if nobody has a share.
    pub(crate) fn give(&mut self, kind: EventKind, shares: &Shares) -> Option<usize> {
        if let &[(object, share)] = shares.as_slice() {
            return (share > 0.0).then_some(object);
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum.is_nan() || sum <= 0.0 {
            return None;
        }
        let mut most: Option<(usize, f64)> = None;
        for &(object, share) in shares {
            let owed = self.owed.entry((kind, object)).or_default();
            *owed += share / sum;
            if most.is_none_or(|(_, most)| *owed > most) {
                most = Some((object, *owed));
            }
        }
        let (object, _) = most?;
        *self.owed.entry((kind, object)).or_default() -= 1.0;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_shares_and_sum_to_the_total() {
        let mut apportion = Apportion::default();
        let mut counts = [0u32; 4];
        for event in 0..10_000 {
            // Now three share, now two others.
            let shares = match event % 2 {
                0 => vec![(0, 5.0), (1, 3.0), (2, 2.0)],
                _ => vec![(2, 0.25), (3, 0.75)],
            };
            let object = apportion.give(EventKind::SwapIn, &shares);
            counts[object.expect("somebody")] += 1;
        }
        for (count, expected) in counts.into_iter().zip([2500, 1500, 2250, 3750]) {
            assert!(count.abs_diff(expected) <= 2, "{counts:?}");
        }
        assert_eq!(counts.iter().sum::<u32>(), 10_000);
    }

    #[test]
    fn nobody_gets_what_nobody_shares() {
        let mut apportion = Apportion::default();
        assert_eq!(apportion.give(EventKind::SwapIn, &vec![]), None);
        assert_eq!(apportion.give(EventKind::SwapIn, &vec![(1, 0.0)]), None);
    }

    #[test]
    fn one_object_of_several_ranges_has_one_share() {
        let mut shares = Shares::new();
        for (object, share) in [(1, 2.0), (2, 1.0), (1, 3.0)] {
            add_share(&mut shares, object, share);
        }
        assert_eq!(shares, [(1, 5.0), (2, 1.0)]);
    }
}
