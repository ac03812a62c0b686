//! The program's own time: without what it waited for pages, for reclaim, and for a processor that others had. In none of these it uses what it has.

use std::collections::BTreeMap;

use pagewise_predict::Clock;
use pagewise_trace::RunDelay;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::unseen::Moment;

/// Of all waiting for a processor between swap-ins, one thread has such a share at least, or it counts for nothing: while one waits others of the
/// program may go on.
const OF_ONE: f64 = 0.9;

/// Of a recording, by its moments in order of time.
pub(crate) fn clock(trace: &Trace, moments: &[Moment]) -> Result<Clock, TraceError> {
    let swap_ins = moments.iter().filter(|moment| moment.is_swap_in());
    let mut waits: Vec<(u64, u64)> = swap_ins.map(Moment::wait).collect();
    for stall in trace.stalls()? {
        let stall = stall?;
        if !stall.in_fault {
            waits.push((stall.time_ns, stall.duration_ns));
        }
    }
    waits.extend(of_one_thread(trace.run_delays()?)?);
    waits.sort_unstable();
    Ok(Clock::new(waits.into_iter()))
}

/// The end and the length, ns, of each time that the one thread waited for a processor; none: there are several.
fn of_one_thread(
    delays: impl Iterator<Item = Result<RunDelay, TraceError>>,
) -> Result<Vec<(u64, u64)>, TraceError> {
    let mut of_threads: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for delay in delays {
        let delay = delay?;
        let of_thread = of_threads.entry(delay.tid).or_default();
        of_thread.push((delay.time_ns, delay.duration_ns));
    }
    let sum = |delays: &Vec<(u64, u64)>| delays.iter().map(|delay| delay.1).sum::<u64>();
    let all: u64 = of_threads.values().map(sum).sum();
    let most = of_threads.into_values().max_by_key(sum);
    Ok(most
        .filter(|most| sum(most) as f64 >= OF_ONE * all as f64)
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_one_thread_does_nothing_while_others_have_the_processors() {
        let delay = |tid, time_ns, duration_ns| {
            Ok(RunDelay {
                time_ns,
                space: 1,
                tid,
                duration_ns,
            })
        };
        let found = |delays: Vec<_>| of_one_thread(delays.into_iter()).expect("nothing is read");
        let one = || vec![delay(7, 100, 40), delay(7, 300, 60)];
        assert_eq!(found(one()), [(100, 40), (300, 60)]);
        let with = |more| found(one().into_iter().chain([more]).collect());
        assert_eq!(with(delay(8, 200, 10)), [(100, 40), (300, 60)]);
        assert!(with(delay(8, 200, 20)).is_empty(), "others may go on");
        assert!(found(Vec::new()).is_empty());
    }
}
