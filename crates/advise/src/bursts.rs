//! Bursts of swap-ins with pauses between them: a program that waits for some pages, and then goes on for long without waiting, uses
//! these again and again meanwhile (down a column of a matrix, of which 512 lie in a page). Nothing shows how often. Who
//! takes so much memory that they no longer stay, or drops them behind a sweep, has it wait for them each time.

use pagewise_predict::Clock;
use pagewise_trace::EventKind;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::unseen::Moment;

/// A pause is as long as the work since the last one, so many times as long as the time between two swap-ins in the middle,
const PAUSE: u64 = 64;
/// and at least so long, in own time, ns. (A program that is interrupted makes none.)
const LEAST_PAUSE_NS: u64 = 1_000_000;
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
/// Of the swap-ins, those before so large a part are not looked at, nor those after as large a one at the end: some pages come back while
/// memory is filled, and some when the program has given it back.
const FILLING: f64 = 0.01;
/// Evictions between two swap-ins, at the time between two in the middle each, that make up so large a part of the time in between make room
/// for new pages: the program goes through these, and not again through what it has.
const FILLS: f64 = 0.25;
/// Of the swap-ins, so many are in bursts of at most the size that is told.
const MOST: f64 = 0.9;

/// How many pages a program in a memory of so many uses in a pause: those that came back in the burst before it, or all; `None`: the program makes no pauses to speak of.
/// `is_simulated`: what the program does in pauses of one length is found out by simulation.
pub(crate) fn read(
    trace: &Trace,
    memory: u64,
    is_simulated: bool,
) -> Result<Option<u64>, TraceError> {
    let (mut moments, mut evicted) = (Vec::new(), Vec::new());
    for event in trace.events()? {
        let event = event?;
        let moment = Moment::of(&event, None);
        moments.extend(moment.is_swap_in().then_some(moment));
        evicted.extend((event.kind == EventKind::Eviction).then_some(event.time_ns));
    }
    moments.sort_by_key(Moment::time_ns);
    evicted.sort_unstable();
    let mut evicted = evicted.into_iter().peekable();
    let clock = clock(trace, &moments)?;
    let longest = moments.iter().map(|moment| moment.wait().1).max();
    let gaps = moments.windows(2).map(|pair| {
        let own = |at: usize| clock.own(pair[at].time_ns());
        let all_ns = own(1).saturating_sub(own(0));
        let is_timed = pair.iter().all(Moment::is_timed);
        while evicted.next_if(|&at| at <= pair[0].time_ns()).is_some() {}
        let in_gap = std::iter::from_fn(|| evicted.next_if(|&at| at <= pair[1].time_ns()));
        Gap {
            evictions: in_gap.count() as u64,
            all_ns,
            worked_ns: match is_timed {
                true => all_ns,
                // It may have waited for a page that another had asked for.
                false => all_ns.saturating_sub(longest.unwrap_or(0)),
            },
        }
    });
    Ok(pages_of_burst(
        &gaps.collect::<Vec<_>>(),
        memory,
        is_simulated,
    ))
}

/// From one swap-in to the next.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// In between.
    evictions: u64,
    /// Own time, ns, and waiting that was not timed.
    all_ns: u64,
    /// Of that, what is own time for sure.
    worked_ns: u64,
}

/// The program's own time, without what it waited for pages and for reclaim.
fn clock(trace: &Trace, swap_ins: &[Moment]) -> Result<Clock, TraceError> {
    let mut waits: Vec<(u64, u64)> = swap_ins.iter().map(Moment::wait).collect();
    for stall in trace.stalls()? {
        let stall = stall?;
        if !stall.in_fault {
            waits.push((stall.time_ns, stall.duration_ns));
        }
    }
    waits.sort_unstable();
    Ok(Clock::new(waits.into_iter()))
}

/// By the own time from each swap-in to the next, ns; `memory`: how many pages memory holds.
fn pages_of_burst(gaps: &[Gap], memory: u64, is_simulated: bool) -> Option<u64> {
    let mut sorted: Vec<u64> = gaps.iter().map(|gap| gap.worked_ns).collect();
    sorted.sort_unstable();
    let pause = (PAUSE * sorted.get(sorted.len() / 2)?).max(LEAST_PAUSE_NS);
    // As long as to go through the pages that memory holds takes where each raises a fault.
    let page_ns = sorted[sorted.len() / 2] as f64;
    let round_ns = memory as f64 * page_ns;
    let filled = (FILLING * gaps.len() as f64) as usize;
    let (mut paused, mut in_memory, mut all) = (0, 0, 0);
    let (mut bursts, mut pages, mut worked) = (Vec::new(), 1, 0);
    let mut pauses = Vec::new();
    // The largest burst before one in which it could have gone through memory.
    let mut before_long = 0;
    for gap in &gaps[filled..gaps.len() - filled] {
        all += gap.all_ns;
        let fills = gap.evictions as f64 * page_ns >= FILLS * gap.worked_ns as f64;
        if gap.worked_ns < pause || fills {
            pages += 1;
            worked += gap.worked_ns;
            continue;
        }
        if gap.worked_ns >= worked {
            paused += gap.worked_ns;
        }
        if gap.worked_ns as f64 >= MOST_OF_MEMORY * round_ns {
            in_memory += gap.worked_ns;
            if pages <= memory {
                before_long = pages.max(before_long);
            }
        }
        worked = 0;
        pauses.push(gap.worked_ns);
        bursts.push(std::mem::replace(&mut pages, 1));
    }
    bursts.push(pages);
    let is_part = |ns: u64, least: f64| ns > 0 && ns as f64 >= least * all as f64;
    let rounds_in_memory = in_memory as f64 / page_ns;
    let is_long_in_memory =
        is_part(in_memory, LEAST_IN_MEMORY) && rounds_in_memory >= LEAST_ROUNDS * gaps.len() as f64;
    let is_uneven = are_uneven(&mut pauses);
    let is_paused = is_part(paused, LEAST_PAUSED);
    // Else it is left to the simulation, if there is one.
    if !(is_paused || is_long_in_memory && (is_uneven || !is_simulated)) {
        return None;
    }
    if is_uneven || is_long_in_memory && before_long * SMALL >= memory {
        return Some(memory);
    }
    // What is more than memory holds is not there to be used in a pause.
    bursts.retain(|&pages| pages <= memory);
    bursts.sort_unstable();
    let most = MOST * bursts.iter().sum::<u64>() as f64;
    let mut seen = 0;
    bursts.into_iter().find(|pages| {
        seen += pages;
        seen as f64 >= most
    })
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
        pages_of_burst(&gaps_of(gaps, evictions), MEMORY, true)
    }

    fn gaps_of(gaps: &[u64], evictions: u64) -> Vec<Gap> {
        let gaps = gaps.iter().map(|&ns| Gap {
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
            pages_of_burst(&gaps_of(&gaps, 0), MEMORY, false),
            Some(MEMORY),
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
