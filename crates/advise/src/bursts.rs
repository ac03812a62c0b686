//! Bursts of swap-ins with pauses between them: a program that waits for some pages, and then goes on for long without waiting, uses
//! these again and again meanwhile (down a column of a matrix, of which 512 lie in a page). Nothing shows how often. Who
//! takes so much memory that they no longer stay, or drops them behind a sweep, has it wait for them each time.

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::unseen;
use crate::unseen::Moment;

/// A pause is as long as the work on what came since the last, so many times as long as the time between two swap-ins in the middle,
const PAUSE: u64 = 64;
/// and at least so long, in own time, ns. (A program that is interrupted makes none.)
const LEAST_PAUSE_NS: u64 = 1_000_000;
/// Pauses matter if they are so large a part of the program's own time.
const LEAST_PAUSED: f64 = 0.4;
/// A pause counts after so large a part of all swap-ins: some pages come back long before a program does what it is for.
const LEAST_BURST: f64 = 0.01;
/// Of the swap-ins, so many are in bursts of at most the size that is told.
const MOST: f64 = 0.9;

/// How many pages come back in a burst before a pause; `None`: the program makes no pauses to speak of.
pub(crate) fn read(trace: &Trace) -> Result<Option<u64>, TraceError> {
    let mut moments = Vec::new();
    for event in trace.events()? {
        let moment = Moment::of(&event?, None);
        moments.extend(moment.is_swap_in().then_some(moment));
    }
    moments.sort_by_key(Moment::time_ns);
    let clock = unseen::clock(&moments);
    let times = moments.iter().map(|moment| clock.own(moment.time_ns()));
    let times: Vec<u64> = times.collect();
    Ok(pages_of_burst(&times))
}

/// By the times of swap-ins, in own time and in order.
fn pages_of_burst(times: &[u64]) -> Option<u64> {
    let gaps: Vec<u64> = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let pause = (PAUSE * sorted.get(sorted.len() / 2)?).max(LEAST_PAUSE_NS);
    let least = LEAST_BURST * times.len() as f64;
    let (mut paused, mut all) = (0, 0);
    let (mut bursts, mut pages, mut worked) = (Vec::new(), 1, 0);
    for (number, &gap) in gaps.iter().enumerate() {
        // What few pages come back before is the filling.
        if number as f64 >= least {
            all += gap;
        }
        if gap < pause {
            pages += 1;
            worked += gap;
            continue;
        }
        if gap >= worked && pages as f64 >= least {
            paused += gap;
        }
        worked = 0;
        bursts.push(std::mem::replace(&mut pages, 1));
    }
    bursts.push(pages);
    if (paused as f64) < LEAST_PAUSED * all as f64 {
        return None;
    }
    bursts.sort_unstable();
    let mut seen = 0;
    let most = MOST * times.len() as f64;
    bursts.into_iter().find(|pages| {
        seen += pages;
        seen as f64 >= most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Swap-ins a microsecond apart, and a pause after each so many.
    fn times(burst: u64, pause_ns: u64) -> Vec<u64> {
        let mut now = 0;
        let mut times = Vec::new();
        for number in 0..20 * burst {
            now += if number.is_multiple_of(burst) {
                pause_ns
            } else {
                1000
            };
            times.push(now);
        }
        times
    }

    /// A window of so many pages, gone through twice, moves on by a sixth: what it comes to is a burst each time.
    #[test]
    fn a_window_that_moves_on_makes_pauses() {
        let (mut now, mut times) = (0, vec![0]);
        // The first window comes while the last pages of the array are filled.
        now += 250_000_000;
        for burst in [16_000; 1].into_iter().chain([2700; 12]) {
            for _ in 0..burst {
                now += 1000;
                times.push(now);
            }
            now += 9_000_000;
        }
        assert_eq!(pages_of_burst(&times), Some(16_000));
    }

    #[test]
    fn a_burst_is_what_comes_back_before_a_pause() {
        assert_eq!(pages_of_burst(&times(3000, 30_000_000)), Some(3000));
        // Interruptions, and none.
        assert_eq!(pages_of_burst(&times(3000, 2_000_000)), None);
        assert_eq!(pages_of_burst(&times(3000, 1000)), None);
        // A page that comes back while all is filled.
        let mut filled = times(100_000, 1000);
        filled
            .iter_mut()
            .skip(1)
            .for_each(|time| *time += 1_000_000_000_000);
        assert_eq!(pages_of_burst(&filled), None);
        assert_eq!(pages_of_burst(&[]), None);
        assert_eq!(pages_of_burst(&[5]), None);
    }
}
