//! Bursts of swap-ins with pauses between them: a program that waits for some pages, and then goes on for long without waiting, uses
//! these again and again meanwhile (down a column of a matrix, of which 512 lie in a page). Nothing shows how often. Who
//! takes so much memory that they no longer stay, or drops them behind a sweep, has it wait for them each time.

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::gaps::Gap;
use crate::gaps::filling;
use crate::gaps::gaps;
use crate::gaps::page_ns;
use crate::own_time;
use crate::unseen::Moment;

/// Pauses matter if they are so large a part of the program's own time,
const LEAST_PAUSED: f64 = 0.4;
/// or those in which it could have gone through so large a part of what memory holds, and may have done so more than once, are so large a
/// part of it: the inner levels of a sort by halves.
const MOST_OF_MEMORY: f64 = 0.75;
const LEAST_IN_MEMORY: f64 = 0.1;
/// and of times that it goes through as much while it waits so large a part: who frees a list from its end, where it is in memory, does that
/// once, and what it would miss is little of what it misses anyhow.
const LEAST_ROUNDS: f64 = 0.25;
/// There is no telling what it uses in those: all that is in memory, it may be (whatever was locked of that sort's, it was slower). Not so where they
/// are of one length and less than [`LEAST_PAUSED`]: then it goes through one thing again and again that fits, or to and fro, and by simulation it is
/// found out what takes that memory ([`crate::unseen`]); nor where they are of one length, and fewer pages than one in so many came back before each:
/// then it works on a few pages.
const SMALL: u64 = 16;
/// They are uneven where pauses so many times as long as the one in the middle are so large a part of them all: who uses the same pages in each, as many
/// times, makes pauses of one length; a sort by halves makes one twice as long, of twice as many pages, for each two.
const UNEVEN: u64 = 4;
const MUCH_UNEVEN: f64 = 0.33;
/// Of the swap-ins, so many are in bursts of at most the size that is told.
const MOST: f64 = 0.9;

/// What a program uses in pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) pages: u64,
    /// They are of very different lengths: it may be anything that is there.
    pub(crate) is_uneven: bool,
}

/// The program's swap-ins, as far as bursts and pauses go.
pub(crate) struct Bursts {
    gaps: Vec<Gap>,
    /// How many pages memory holds.
    memory: u64,
    /// What the program does in pauses of one length is found out by simulation.
    is_simulated: bool,
}

impl Bursts {
    /// Of a recording, for a memory of so many pages.
    pub(crate) fn read(trace: &Trace, memory: u64, is_simulated: bool) -> Result<Self, TraceError> {
        let mut moments = Vec::new();
        for event in trace.events()? {
            let moment = Moment::of(&event?, None);
            if moment.is_swap_in() || moment.is_eviction() {
                moments.push(moment);
            }
        }
        moments.sort_by_key(Moment::time_ns);
        Ok(Self {
            gaps: gaps(&own_time::clock(trace, &moments)?, &moments),
            memory,
            is_simulated,
        })
    }

    /// What the program uses in a pause: what came back in the burst before it, or all of memory; `None`: it makes no pauses to speak of.
    pub(crate) fn used(&self) -> Option<Used> {
        let page_ns = page_ns(&self.gaps)?;
        let mut found = self.summary(page_ns);
        let is_part = |ns: u64, least: f64| ns > 0 && ns as f64 >= least * found.all_ns as f64;
        let rounds_in_memory = found.in_memory_ns as f64 / page_ns as f64;
        let is_long_in_memory = is_part(found.in_memory_ns, LEAST_IN_MEMORY)
            && rounds_in_memory >= LEAST_ROUNDS * self.gaps.len() as f64;
        let is_uneven = are_uneven(&mut found.pauses);
        // Else it is left to the simulation, if there is one.
        if !(is_part(found.paused_ns, LEAST_PAUSED)
            || is_long_in_memory && (is_uneven || !self.is_simulated))
        {
            return None;
        }
        if is_uneven || is_long_in_memory && found.before_long * SMALL >= self.memory {
            return Some(Used {
                pages: self.memory,
                is_uneven,
            });
        }
        // What is more than memory holds is not there to be used in a pause.
        found.bursts.retain(|&pages| pages <= self.memory);
        found.bursts.sort_unstable();
        let most = MOST * found.bursts.iter().sum::<u64>() as f64;
        let mut seen = 0;
        let pages = found.bursts.into_iter().find(|pages| {
            seen += pages;
            seen as f64 >= most
        })?;
        Some(Used { pages, is_uneven })
    }

    /// By the own time between two swap-ins in the middle, ns.
    fn summary(&self, page_ns: u64) -> Summary {
        // As long as to go through the pages that memory holds takes where each raises a fault.
        let round_ns = self.memory as f64 * page_ns as f64;
        let filled = filling(&self.gaps);
        let mut found = Summary::default();
        let (mut pages, mut worked) = (1, 0);
        // As many come at the end, when the program has given memory back.
        for gap in &self.gaps[filled..self.gaps.len() - filled] {
            found.all_ns += gap.all_ns;
            if !gap.is_pause(page_ns) {
                pages += 1;
                worked += gap.worked_ns;
                continue;
            }
            let burst = std::mem::replace(&mut pages, 1);
            let before = std::mem::take(&mut worked);
            if gap.worked_ns >= before {
                found.paused_ns += gap.worked_ns;
            }
            if gap.worked_ns as f64 >= MOST_OF_MEMORY * round_ns {
                found.in_memory_ns += gap.worked_ns;
                if burst <= self.memory {
                    found.before_long = burst.max(found.before_long);
                }
            }
            found.pauses.push(gap.worked_ns);
            found.bursts.push(burst);
        }
        found.bursts.push(pages);
        found
    }
}

/// Times between swap-ins, ns.
#[derive(Debug, Default)]
struct Summary {
    all_ns: u64,
    /// In pauses as long as the work since the one before.
    paused_ns: u64,
    /// In those in which all of memory could have been gone through.
    in_memory_ns: u64,
    /// The pages of the largest burst before one of these.
    before_long: u64,
    pauses: Vec<u64>,
    /// The pages of each.
    bursts: Vec<u64>,
}

/// Whether long ones are much of all pauses, ns.
fn are_uneven(pauses: &mut [u64]) -> bool {
    pauses.sort_unstable();
    let Some(middle) = pauses.get(pauses.len() / 2) else {
        return false;
    };
    let is_long = |ns: &&u64| **ns >= UNEVEN * middle;
    let long: u64 = pauses.iter().filter(is_long).sum();
    long as f64 >= MUCH_UNEVEN * pauses.iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 25_000;

    fn found(gaps: &[u64]) -> Option<u64> {
        found_with(gaps, 0)
    }

    /// With so many evictions in each pause.
    fn found_with(gaps: &[u64], evictions: u64) -> Option<u64> {
        let used = bursts(gaps_of(gaps, evictions), true).used();
        used.map(|used| used.pages)
    }

    fn bursts(gaps: Vec<Gap>, is_simulated: bool) -> Bursts {
        Bursts {
            gaps,
            memory: MEMORY,
            is_simulated,
        }
    }

    fn gaps_of(gaps: &[u64], evictions: u64) -> Vec<Gap> {
        let gaps = gaps.iter().map(|&ns| Gap {
            of: None,
            from_ns: 0,
            until_ns: 0,
            evictions: if ns > 1000 { evictions } else { 1 },
            all_ns: ns,
            worked_ns: ns,
        });
        gaps.collect()
    }

    /// New pages push out others, and come without a swap-in.
    #[test]
    fn who_goes_through_new_pages_makes_no_pause() {
        let gaps = gaps(3000, 15_000_000);
        assert_eq!(found_with(&gaps, 100), Some(3000));
        assert_eq!(found_with(&gaps, 20_000), None);
    }

    /// Who frees a list from its end goes once through what is in memory.
    #[test]
    fn one_round_in_memory_among_many_does_not_count() {
        let mut gaps = vec![1000; 15 * MEMORY as usize];
        let round = 2 * MEMORY * 1000;
        gaps.insert(14 * MEMORY as usize, round);
        assert_eq!(found(&gaps), None);
        (2..4).for_each(|number| gaps[number * MEMORY as usize] = round);
        assert_eq!(found(&gaps), None, "of one length");
        assert_eq!(
            bursts(gaps_of(&gaps, 0), false).used(),
            Some(Used {
                pages: MEMORY,
                is_uneven: false
            }),
            "nothing is simulated"
        );
        gaps[5 * MEMORY as usize] = 8 * round;
        assert_eq!(
            found(&gaps),
            Some(MEMORY),
            "four of 15 may be the same pages, each time others"
        );
    }

    #[test]
    fn what_comes_when_memory_was_given_back_ends_no_pause() {
        let mut gaps = vec![1000; 300_000];
        gaps[299_990] = 60_000_000;
        assert_eq!(found(&gaps), None);
        let pauses = [140_000, 145_000, 150_000].into_iter();
        for (at, ns) in pauses.zip([20_000_000, 20_000_000, 160_000_000]) {
            gaps[at] = ns;
        }
        assert_eq!(found(&gaps), Some(MEMORY));
    }

    /// Swap-ins a microsecond apart, and a pause after each so many.
    fn gaps(burst: usize, pause_ns: u64) -> Vec<u64> {
        let one = std::iter::repeat_n(1000, burst - 1).chain([pause_ns]);
        std::iter::repeat_n(one, 20).flatten().collect()
    }

    /// A window of so many pages, gone through twice, moves on by a sixth: what it comes to is a burst each time.
    #[test]
    fn a_window_that_moves_on_makes_pauses() {
        // The first window comes while the last pages of the array are filled.
        let mut gaps = vec![250_000_000];
        for burst in std::iter::once(16_000).chain([2700; 12]) {
            gaps.extend(std::iter::repeat_n(1000, burst - 1));
            gaps.push(9_000_000);
        }
        assert!(found(&gaps).is_some_and(|pages| (15_000..=16_000).contains(&pages)));
    }

    /// Much swaps all the time, but for a few levels of a sort by halves that fit in memory.
    #[test]
    fn pauses_as_long_as_a_round_through_memory_count_though_they_are_few() {
        let round_ns = MEMORY * 1000;
        let found_with = |pause_ns| {
            let mut gaps = vec![1000; 300_000];
            for (number, times) in (1..).zip([1, 1, 4]) {
                gaps[number * 80_000 - 60_000] = times * pause_ns;
            }
            found(&gaps)
        };
        assert_eq!(found_with(round_ns / 8), None);
        assert_eq!(
            found_with(round_ns),
            Some(MEMORY),
            "all of it may be in use"
        );
    }

    /// The levels of a sort by halves that fit in memory: bursts of the leaves, and each second pause is one of merging, too.
    #[test]
    fn pauses_of_very_different_lengths_may_use_all_of_memory() {
        let pauses = (1..=64_u64).map(|leaf| 1_500_000 << leaf.trailing_zeros());
        let gaps = pauses.flat_map(|pause| std::iter::repeat_n(1000, 383).chain([pause]));
        let gaps: Vec<u64> = gaps.collect();
        assert_eq!(found(&gaps), Some(MEMORY));
        let used = bursts(gaps_of(&gaps, 0), true).used();
        assert!(used.is_some_and(|used| used.is_uneven));
    }

    /// Down the columns of one matrix, whose pages come in a burst and stay for many rows of the other, which come a few pages at a time.
    #[test]
    fn what_stays_while_little_else_comes_is_a_burst() {
        let mut gaps = Vec::new();
        for _ in 0..6 {
            gaps.extend([1000; 3072]);
            for _ in 0..512 {
                gaps.extend([1000, 1000, 1000, 1000, 1000, 1_800_000]);
            }
        }
        assert!(found(&gaps).is_some_and(|pages| pages >= 3072));
    }

    #[test]
    fn what_memory_does_not_hold_is_not_used_in_a_pause() {
        // Two sweeps, then work on a few pages, and a sweep.
        let mut gaps = vec![1000; 2 * 50_000];
        gaps.extend([50_000_000; 10]);
        gaps.extend(std::iter::repeat_n(1000, 50_000));
        assert_eq!(found(&gaps), Some(1));
    }

    #[test]
    fn a_burst_is_what_comes_back_before_a_pause() {
        assert_eq!(found(&gaps(3000, 15_000_000)), Some(3000));
        assert_eq!(found(&gaps(3000, 30_000_000)), Some(MEMORY), "time for all");
        assert_eq!(found(&gaps(1000, 30_000_000)), Some(1000), "of few pages");
        // Interruptions, and none.
        assert_eq!(found(&gaps(3000, 2_000_000)), None);
        assert_eq!(found(&gaps(3000, 1000)), None);
        // A page that comes back while all is filled.
        let mut filled = gaps(5000, 1000);
        filled[0] = 1_000_000_000_000;
        assert_eq!(found(&filled), None);
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[5]), None);
    }
}
