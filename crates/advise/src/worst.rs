//! What would be swapped beside locks if nothing else that is swept stayed in memory until its next turn.
//!
//! Where one object takes the misses of a program that sweeps several, the others stay: the kernel has them active and drops what came last.
//! Once that one is locked the others have what is left between them, and if that does not hold them all, each has left when its turn comes, as happens to
//! whatever is used in turn. Simulation has of what is in memory the accesses that looks saw, and who goes through several columns in each query
//! goes through most of them while nobody looks: a lock of the longest column, which was to leave 0.7 of the swap-ins, left 1.2 times as many.

use crate::choose::Choice;
use crate::facts::ObjectFacts;
use crate::run_facts::RunFacts;
use crate::unseen::Moment;

/// How often and when an object is gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Turns {
    /// How often its pages are known to be used after the first time, on average.
    pub(crate) uses: f64,
    /// When the first and the last of its pages came back, ns.
    pub(crate) span: Option<(u64, u64)>,
}

/// Of each of so many objects, from when to when its pages came back, by moments in order of time.
pub(crate) fn spans(moments: &[Moment], objects: usize) -> Vec<Option<(u64, u64)>> {
    let mut spans: Vec<Option<(u64, u64)>> = vec![None; objects];
    for moment in moments.iter().filter(|moment| moment.is_swap_in()) {
        if let Some((object, _)) = moment.page() {
            let at = moment.time_ns();
            let span = spans[object].get_or_insert((at, at));
            span.1 = at;
        }
    }
    spans
}

/// The part of the first span in which the other one is, too.
fn shared((begin, end): (u64, u64), other: (u64, u64)) -> f64 {
    let both = end.min(other.1).saturating_sub(begin.max(other.0));
    both as f64 / end.saturating_sub(begin).max(1) as f64
}

/// Swap-ins with these locks if all else that is swept was missing at each turn of the sweep that swaps most of those that are locked, as a share of those that were
/// recorded; `None`: they lock no sweep, so that nothing tells how often the others have their turn.
pub(crate) fn share_left(
    locks: &[Choice],
    (objects, run): (&[ObjectFacts], &RunFacts),
    turns: &[Turns],
) -> Option<f64> {
    let lock_of = |at: usize| locks.iter().find(|lock| lock.object == at && lock.acts());
    let swept = (0..objects.len()).filter(|&at| lock_of(at).is_some() && objects[at].is_swept());
    let most = swept.max_by_key(|&at| objects[at].swap_ins)?;
    let (rounds, span) = (turns[most].uses, turns[most].span?);
    let left_of = |at: usize| {
        let object = &objects[at];
        let times = match lock_of(at) {
            Some(lock) => 1.0 - lock.kept_bytes as f64 / object.bytes.max(1) as f64,
            None if object.is_swept() => {
                let meanwhile = turns[at].span.map_or(0.0, |other| shared(span, other));
                (rounds * meanwhile / returns(object, run)).max(1.0)
            }
            None => 1.0,
        };
        times.max(0.0) * object.swap_ins as f64
    };
    let left: f64 = (0..objects.len()).map(left_of).sum();
    let all: u64 = objects.iter().map(|object| object.swap_ins).sum();
    Some(left / all.max(1) as f64)
}

/// How often a page of it came back: of what is made again and again, in all its lives.
fn returns(object: &ObjectFacts, run: &RunFacts) -> f64 {
    let pages = object.bytes as f64 / run.page_bytes as f64;
    (object.swap_ins as f64 / pages.max(1.0))
        .max(object.returns)
        .max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts_of;
    use crate::run_facts::tests::run;
    use crate::subjects::tests::object;
    use pagewise_analyze::Pattern;
    use pagewise_plan::Action;

    const MIB: u64 = 1 << 20;

    /// A lock on so many MiB of the first object.
    fn lock(kept_mib: u64) -> Choice {
        Choice {
            object: 0,
            action: Action::Lock {
                keep_bytes: None,
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            },
            why: String::new(),
            kept_bytes: kept_mib * MIB,
            saves: None,
        }
    }

    /// With a lock on so much of a first object of 40 MiB, which came back five of the ten times that it was swept.
    fn left(kept_mib: u64, others: &[(ObjectFacts, Turns)]) -> Option<f64> {
        let long = (swept(40, 5.0), turns(10.0, 0..1000));
        let (objects, turns): (Vec<_>, Vec<_>) = [long].iter().chain(others).cloned().unzip();
        share_left(&[lock(kept_mib)], (&objects, &run()), &turns)
    }

    fn swept(mib: u64, returns: f64) -> ObjectFacts {
        let mut object = object("column", mib * MIB, 0);
        object.pattern = Some(Pattern::Loop);
        object.counts.swap_ins = (returns * (mib * MIB / 4096) as f64) as u64;
        ObjectFacts {
            returns,
            ..facts_of(&[object])
        }
    }

    fn turns(uses: f64, span: std::ops::Range<u64>) -> Turns {
        Turns {
            uses,
            span: Some((span.start, span.end)),
        }
    }

    #[test]
    fn columns_that_stayed_may_be_missing_at_each_turn() {
        // 200 MiB came back of the long one, and 40 of the others, which are 40 together.
        let column = (swept(10, 1.0), turns(1.0, 0..1000));
        let columns = [column.clone(), column.clone(), column.clone(), column];
        let all = 5.0 * 40.0 + 40.0;
        assert_eq!(left(40, &columns), Some(10.0 * 40.0 / all));
        // Half of it is missing as it was.
        assert_eq!(left(20, &columns), Some((10.0 * 40.0 + 100.0) / all));
    }

    #[test]
    fn what_is_swept_at_another_time_or_in_no_order_stays_as_it_was() {
        let all = 5.0 * 40.0 + 10.0;
        let column = swept(10, 1.0);
        let later = (column.clone(), turns(1.0, 2000..3000));
        assert_eq!(left(40, &[later]), Some(10.0 / all));
        let half = (column.clone(), turns(1.0, 500..3000));
        assert_eq!(left(40, &[half]), Some(5.0 * 10.0 / all));
        let table = ObjectFacts {
            pattern: Some(Pattern::Random),
            ..column
        };
        assert_eq!(left(40, &[(table, turns(1.0, 0..1000))]), Some(10.0 / all));
    }

    #[test]
    fn a_lock_of_what_is_not_swept_tells_of_no_turns() {
        let mut table = swept(40, 5.0);
        table.pattern = Some(Pattern::Random);
        let turns = [turns(10.0, 0..1000)];
        assert_eq!(share_left(&[lock(40)], (&[table], &run()), &turns), None);
    }
}
