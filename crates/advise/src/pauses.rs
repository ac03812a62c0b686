//! What a program may have used in pauses without swap-ins, of which nothing is known: the string of references has nothing of that, so that
//! by simulation whoever takes the memory for it does no harm.
//!
//! It is bounded by time: a page takes the program as long as where each raises a fault, without the waiting. Where all that is to be kept
//! is in memory anyway it is bounded by the room that is left besides, too. What it was looked at in is known, and what came back last before
//! a pause is what the pause is for.

use std::collections::BTreeSet;
use std::collections::HashSet;

use pagewise_predict::Clock;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::gaps::Gap;
use crate::gaps::filling;
use crate::gaps::gaps;
use crate::gaps::page_ns;
use crate::unseen::Moment;

/// So many looks in a pause tell what is used in it. Where it took a look different times to reach its regions, it counts once for each.
const ENOUGH_LOOKS: usize = 4;
/// A pause that is shorter than looks is known by so many looks that had such pauses in them,
const ENOUGH_LIKE_IT: usize = 4;
/// no further away than such a part of the run: it is as in these.
const NEAR: u64 = 4;
/// A pause is for what so large a part of the last swap-ins before it was of,
const OF_IT: f64 = 0.95;
/// since the pause before that, but for more than one in so many pages of memory,
const LAST_OF_MEMORY: usize = 8;
/// and one in so many at least: after less it goes on with what was there before.
const LEAST_OF_MEMORY: usize = 32;
/// Where no larger part of what is kept is out, all of it is in memory.
const MOST_OUT: f64 = 0.05;

/// All pauses of a recording.
pub(crate) struct Pauses {
    /// With the time from the last swap-in to the program's end.
    gaps: Vec<Gap>,
    /// When the program's memory was looked at, and since when it had not been, ns.
    looks: BTreeSet<(u64, u64)>,
    /// What left memory, by object and page, and when, ns.
    evictions: Vec<(u64, (usize, u64))>,
    /// How many pages memory holds.
    memory: u64,
}

impl Pauses {
    /// By the program's own time and moments in order of time, for a memory of so many pages.
    pub(crate) fn read(
        trace: &Trace,
        (clock, moments): (&Clock, &[Moment]),
        memory: u64,
    ) -> Result<Self, TraceError> {
        let mut gaps = gaps(clock, moments);
        gaps.extend(after_last(&gaps, trace.meta().end_monotonic_ns));
        let mut looks = BTreeSet::new();
        let since = |at_ns: u64, interval_ns| (at_ns, at_ns.saturating_sub(interval_ns));
        for look in trace.accesses()? {
            let look = look?;
            looks.insert(since(look.time_ns, look.interval_ns));
        }
        for look in trace.spot_looks()? {
            let look = look?;
            looks.insert(since(look.time_ns, look.interval_ns));
        }
        let evictions = moments.iter().filter(|moment| moment.is_eviction());
        let evictions = evictions.filter_map(|moment| Some((moment.time_ns(), moment.page()?)));
        Ok(Self {
            gaps,
            looks,
            evictions: evictions.collect(),
            memory,
        })
    }

    /// How many times, at most, a page is missed in pauses of which nothing is known, but for those that are for what is kept, by object and
    /// page. So many pages are kept.
    pub(crate) fn most_missed(&self, kept: u64, is_kept: impl Fn(usize, u64) -> bool) -> f64 {
        let Some(page_ns) = page_ns(&self.gaps) else {
            return 0.0;
        };
        let filled = filling(&self.gaps);
        let of_short = self.looks_at_short_pauses(filled, page_ns);
        let (mut unknown, mut burst_from) = (Vec::new(), 0);
        for (at, gap) in self.gaps.iter().enumerate() {
            if !gap.is_pause(page_ns) {
                continue;
            }
            let burst = &self.gaps[std::mem::replace(&mut burst_from, at + 1)..=at];
            let is_known = at < filled
                || self.was_looked_at(gap)
                || self.is_like_those_looked_at(gap, &of_short)
                || self.is_for_what_is_kept(burst, &is_kept);
            if !is_known {
                unknown.push(at);
            }
        }
        let others = self.memory.saturating_sub(kept) as f64;
        let finds_kept = self.finds_kept_in_memory(&unknown, kept, is_kept);
        let missed = unknown.into_iter().zip(finds_kept).map(|(at, finds_kept)| {
            let uses = self.gaps[at].worked_ns as f64 / page_ns.max(1) as f64;
            // All that it uses is in memory. Where what is kept is, too, the lock leaves as much room to the others as they had, and each is missed
            // once at most.
            match finds_kept {
                true => uses.min(others),
                false => uses,
            }
        });
        missed.sum()
    }

    /// Of each of these gaps, in order, whether nearly all that is kept is in memory when it begins.
    fn finds_kept_in_memory(
        &self,
        gaps: &[usize],
        kept: u64,
        is_kept: impl Fn(usize, u64) -> bool,
    ) -> Vec<bool> {
        let few = (MOST_OUT * kept as f64) as usize;
        let mut evictions = self.evictions.iter().peekable();
        let mut out: HashSet<(usize, u64)> = HashSet::new();
        let (mut found, mut came_unseen) = (Vec::new(), 0);
        let upto_last = gaps.last().map_or(0, |last| last + 1);
        for (at, gap) in self.gaps[..upto_last].iter().enumerate() {
            while let Some((_, page)) = evictions.next_if(|(left_ns, _)| *left_ns <= gap.from_ns) {
                if is_kept(page.0, page.1) {
                    out.insert(*page);
                }
            }
            if let Some(page) = gap.of.filter(|page| is_kept(page.0, page.1)) {
                came_unseen += usize::from(!out.remove(&page));
            }
            if gaps.get(found.len()) == Some(&at) {
                found.push(out.len() <= few);
            }
        }
        // What leaves unseen, as shared memory does, may be anywhere.
        let is_seen = came_unseen <= few;
        found.iter().map(|is_found| *is_found && is_seen).collect()
    }

    fn was_looked_at(&self, pause: &Gap) -> bool {
        let looks = self
            .looks
            .range((pause.from_ns, 0)..=(pause.until_ns, u64::MAX));
        let within = looks.filter(|&&(_, since)| since >= pause.from_ns);
        within.count() >= ENOUGH_LOOKS
    }

    /// Looks with pauses in them: when, and since when. What each region was looked at for is about as long.
    fn looks_at_short_pauses(&self, filled: usize, page_ns: u64) -> Vec<(u64, u64)> {
        let gaps = &self.gaps[filled..];
        let has_pauses = |&(at, since): &(u64, u64)| {
            let first = gaps.partition_point(|gap| gap.from_ns < since);
            let mut within = gaps[first..].iter().take_while(|gap| gap.until_ns <= at);
            within.any(|gap| gap.is_pause(page_ns))
        };
        let mut looks: Vec<(u64, u64)> = self.looks.iter().copied().collect();
        looks.dedup_by_key(|look| look.0);
        looks.retain(has_pauses);
        looks
    }

    fn is_like_those_looked_at(&self, pause: &Gap, looks: &[(u64, u64)]) -> bool {
        let ends = self.gaps.last().map_or(0, |last| last.until_ns);
        let near = (ends - self.gaps[0].from_ns) / NEAR;
        let is_near = |at: u64| at + near >= pause.from_ns && at <= pause.until_ns + near;
        let alike = looks
            .iter()
            .filter(|&&(at, since)| is_near(at) && pause.length_ns() < at - since);
        alike.count() >= ENOUGH_LIKE_IT
    }

    /// By the swap-ins before it.
    fn is_for_what_is_kept(&self, burst: &[Gap], is_kept: impl Fn(usize, u64) -> bool) -> bool {
        let memory = self.memory as usize;
        let last = &burst[burst.len().saturating_sub(memory / LAST_OF_MEMORY)..];
        let of_kept = last
            .iter()
            .filter(|gap| gap.of.is_some_and(|(object, page)| is_kept(object, page)));
        burst.len() >= memory / LEAST_OF_MEMORY
            && of_kept.count() as f64 >= OF_IT * last.len() as f64
    }
}

/// From the last swap-in to the program's end.
fn after_last(gaps: &[Gap], end_ns: Option<u64>) -> Option<Gap> {
    let (last, end_ns) = (gaps.last()?, end_ns?);
    let all_ns = end_ns.saturating_sub(last.until_ns);
    Some(Gap {
        from_ns: last.until_ns,
        until_ns: end_ns,
        evictions: 0,
        all_ns,
        worked_ns: all_ns,
        ..*last
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 800;
    const PAGE_NS: u64 = 1000;
    /// Of what is kept this is never in memory.
    const OUT: usize = 9;
    const KEPT: u64 = 500;

    /// Swap-ins of an object's pages, each time as many as there are, and a pause after them.
    fn pauses(of: &[(usize, u64)], pause_ns: u64) -> Pauses {
        let mut now = 0;
        let mut gaps = Vec::new();
        for &(object, pages) in of {
            for page in 0..pages {
                let all_ns = if page + 1 == pages { pause_ns } else { PAGE_NS };
                gaps.push(Gap {
                    of: Some((object, page)),
                    from_ns: now,
                    until_ns: now + all_ns,
                    evictions: 1,
                    all_ns,
                    worked_ns: all_ns,
                });
                now += all_ns;
            }
        }
        Pauses {
            gaps,
            looks: BTreeSet::new(),
            evictions: (0..KEPT).map(|page| (0, (OUT, page))).collect(),
            memory: MEMORY,
        }
    }

    #[test]
    fn as_much_may_be_used_in_a_pause_as_there_is_time_for() {
        let pauses = pauses(&[(0, 500), (1, 500), (0, 500)], 5_000_000);
        assert_eq!(
            pauses.most_missed(KEPT, |object, _| object == OUT),
            15_000.0
        );
        assert_eq!(
            pauses.most_missed(KEPT, |object, _| object == 0 || object == OUT),
            5_000.0
        );
        assert_eq!(
            pauses.most_missed(KEPT, |object, page| object == OUT || page < 450),
            15_000.0,
            "others came last"
        );
        assert_eq!(
            pauses.most_missed(KEPT, |object, page| object == OUT || page >= 400),
            0.0,
            "these came last"
        );
    }

    #[test]
    fn where_all_that_is_kept_is_in_memory_anyway_each_other_page_is_missed_once_at_most() {
        // Half of a table is gone through again and again, between look-ups anywhere in it.
        let mut pauses = pauses(&[(0, 500), (1, 500), (0, 500)], 5_000_000);
        let is_kept = |object: usize, _| object == 0;
        let left = |number: usize, page: u64| (pauses.gaps[number].from_ns, (0, page));
        // Few of what is kept are out in the second pause, and all of it after that, which comes back until the third.
        let first = (0..500).map(|page| (0, (0, page)));
        let few = (0..20).map(|page| left(700, page));
        let more = (20..500).map(|page| left(1000, page));
        let evictions: Vec<_> = first.chain(few).chain(more).collect();
        pauses.evictions = evictions;
        let found =
            |pauses: &Pauses, gaps: &[usize]| pauses.finds_kept_in_memory(gaps, KEPT, is_kept);
        assert_eq!(
            found(&pauses, &[0, 499, 999, 1300, 1499]),
            [false, true, true, false, true]
        );
        // The others are for what is kept.
        assert_eq!(pauses.most_missed(KEPT, is_kept), (MEMORY - KEPT) as f64);
        // Nobody saw it leave.
        pauses.evictions.clear();
        assert_eq!(found(&pauses, &[0, 499, 999]), [false; 3]);
        assert_eq!(pauses.most_missed(KEPT, is_kept), 5_000.0);
        assert!(found(&pauses, &[]).is_empty());
    }

    #[test]
    fn after_a_few_pages_it_goes_on_with_what_was_there() {
        let pauses = pauses(&[(0, 500), (0, MEMORY / 32 - 1)], 5_000_000);
        assert_eq!(pauses.most_missed(KEPT, |_, _| true), 5_000.0);
    }

    #[test]
    fn short_times_are_no_pauses() {
        assert_eq!(
            pauses(&[(0, 500), (0, 500)], 900_000).most_missed(KEPT, |object, _| object == OUT),
            0.0
        );
    }

    #[test]
    fn what_was_looked_at_is_known() {
        let mut pauses = pauses(&[(0, 500)], 5_000_000);
        let from_ns = pauses.gaps[499].from_ns;
        let look = |number: u64| {
            (
                from_ns + 1_000_000 * (number + 1),
                from_ns + 1_000_000 * number,
            )
        };
        pauses.looks = (0..3).map(look).collect();
        pauses.looks.insert((from_ns + 500_000, from_ns - 400_000));
        assert_eq!(
            pauses.most_missed(KEPT, |object, _| object == OUT),
            5_000.0,
            "one began before"
        );
        pauses.looks.insert(look(3));
        assert_eq!(pauses.most_missed(KEPT, |object, _| object == OUT), 0.0);
    }

    #[test]
    fn short_pauses_are_known_by_looks_that_had_such_pauses_in_them() {
        const PAUSE_NS: u64 = 5_000_000;
        let with_looks = |looks: u64, from_ns: u64, length_ns: u64| {
            let mut pauses = pauses(&[(0, 500); 8], PAUSE_NS);
            let look = |at: u64| {
                let ends = from_ns + length_ns + at * 1000;
                (ends, ends - length_ns)
            };
            pauses.looks = (0..looks).map(look).collect();
            pauses.most_missed(KEPT, |object, _| object == OUT)
        };
        // The first pause begins after 499 us.
        assert_eq!(with_looks(3, 400_000, 5_300_000), 40_000.0, "too few");
        let near = with_looks(4, 400_000, 5_300_000);
        assert_eq!(near, 25_000.0, "the others are too far away");
        assert_eq!(with_looks(4, 600_000, 5_300_000), 40_000.0, "in none");
        assert_eq!(
            with_looks(9, 1_000_000, 40_000),
            35_000.0,
            "in the first itself"
        );
    }

    #[test]
    fn the_time_after_the_last_swap_in_counts() {
        let mut pauses = pauses(&[(0, 500)], PAGE_NS);
        assert_eq!(pauses.most_missed(KEPT, |object, _| object == OUT), 0.0);
        let end_ns = pauses.gaps[499].until_ns + 7_000_000;
        let after = after_last(&pauses.gaps, Some(end_ns));
        pauses.gaps.extend(after);
        assert_eq!(pauses.most_missed(KEPT, |object, _| object == OUT), 7_000.0);
        assert_eq!(after_last(&pauses.gaps, None), None, "it was not recorded");
    }
}
