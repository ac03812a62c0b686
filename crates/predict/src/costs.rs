//! What waiting for memory cost in a recording: the storage model of the very machine, device and program.
//!
//! ```text
//!   swap-ins  --> mean time of a read, of a hit in the swap cache, and how often each
//!   stalls    --> time of direct reclaim outside of swap-in faults, by page that was evicted so
//! ```
//!
//! Means, as sums are predicted with them. Where threads wait at the same time it counts once.

use pagewise_trace::EventKind;
use pagewise_trace::Stall;
use pagewise_trace::StallCount;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::clock::Clock;

/// What a page costs, as measured. Times in ns; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Mean time of a swap-in fault that read the page, with the reclaim that makes room for it.
    pub read_ns: Option<u64>,
    /// Mean time of one whose page was in the swap cache; `None`: nothing was waited for.
    pub hit_ns: Option<u64>,
    /// The share of the latter in all swap-ins, 0 to 1; `None`: there were none at all.
    pub hit_share: Option<f64>,
    /// Mean time of direct reclaim for a page that was evicted outside of swap-in faults: to make room for a first touch. `None`
    /// also if none was.
    pub reclaim_ns: Option<u64>,
}

/// Sums of a recording, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Waited {
    reads: Faults,
    hits: Faults,
    /// Time in which somebody waited in a swap-in fault.
    faults_ns: u64,
    /// Time in which somebody reclaimed memory and nobody waited in a fault; `None`: not recorded.
    pub(crate) reclaim_ns: Option<u64>,
    /// Evictions that made room for something else than a page that came back.
    reclaimed: u64,
}

/// Swap-in faults of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Faults {
    number: u64,
    /// Those whose time is known, and the sum of these.
    timed: u64,
    ns: u64,
}

impl Faults {
    fn add(&mut self, latency_ns: Option<u64>) {
        self.number += 1;
        if let Some(latency_ns) = latency_ns {
            self.timed += 1;
            self.ns = self.ns.saturating_add(latency_ns);
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.ns as f64 / self.timed as f64)
    }
}

impl Waited {
    pub(crate) fn read(trace: &Trace) -> Result<Waited, TraceError> {
        let mut waited = Waited::default();
        let mut times = Vec::new();
        let mut evictions = 0u64;
        for event in trace.events()? {
            let event = event?;
            match event.kind {
                EventKind::SwapIn => waited.reads.add(event.latency_ns),
                EventKind::SwapCacheHit => waited.hits.add(event.latency_ns),
                EventKind::Eviction => {
                    evictions += 1;
                    continue;
                }
                EventKind::PageWritten | EventKind::ZeroFilled => continue,
            }
            times.push((event.time_ns, event.latency_ns.unwrap_or(0)));
        }
        waited.reclaimed = evictions.saturating_sub(waited.reads.number + waited.hits.number);
        waited.faults_ns = passed(&mut times);
        let stalls = trace.meta().sensors.get("stalls");
        if stalls.is_some_and(|state| state == "on") {
            let (stalls, counts) = (trace.stalls()?, trace.rows::<StallCount>()?);
            waited.reclaim_ns = Some(reclaimed(stalls, counts, &mut times)?);
        }
        Ok(waited)
    }

    /// All waiting of the run, ns: without it, the rest is the program's own. At the recorded size both add up to what was recorded.
    pub(crate) fn all_ns(&self) -> u64 {
        let stall_ns = self.stall_ns().unwrap_or(0.0) as u64;
        stall_ns.saturating_add(self.reclaim_ns.unwrap_or(0))
    }

    /// By how much the run gets longer by all swap-ins, ns, if reads that were not timed are like the others; `None`: no time is
    /// known. Hits in the swap cache of which none is timed waited for nothing.
    fn stall_ns(&self) -> Option<f64> {
        let read = self.reads.mean();
        let hit = self.hits.mean();
        read.or(hit)?;
        let of_reads = self.reads.number as f64 * read.unwrap_or(0.0);
        let of_hits = self.hits.number as f64 * hit.unwrap_or(0.0);
        let at_a_time = (self.reads.ns + self.hits.ns) as f64 / self.faults_ns.max(1) as f64;
        Some((of_reads + of_hits) / at_a_time.max(1.0))
    }

    /// By how much the run gets longer with each swap-in, ns: what faults take, by how many of them happen at a time.
    pub(crate) fn swap_in_ns(&self) -> Option<f64> {
        let all = self.reads.number + self.hits.number;
        Some(self.stall_ns()? / all.max(1) as f64)
    }

    fn hit_share(&self) -> Option<f64> {
        let all = self.reads.number + self.hits.number;
        (all > 0).then(|| self.hits.number as f64 / all as f64)
    }

    pub(crate) fn costs(&self) -> Costs {
        let rounded = |ns: f64| ns.round() as u64;
        Costs {
            read_ns: self.reads.mean().map(rounded),
            hit_ns: self.hits.mean().map(rounded),
            hit_share: self.hit_share(),
            reclaim_ns: self
                .reclaim_ns
                .and_then(|reclaim_ns| reclaim_ns.checked_div(self.reclaimed)),
        }
    }
}

/// Time that passed in what is given by end and length, ns, where several overlap once.
fn passed(times: &mut [(u64, u64)]) -> u64 {
    times.sort_unstable();
    Clock::new(times.iter().copied()).waited()
}

/// Time that reclaim outside of faults adds to that of the faults, ns. Of stalls that were only counted nobody knows when they
/// were: they are taken to add up.
fn reclaimed(
    stalls: impl Iterator<Item = Result<Stall, TraceError>>,
    counts: impl Iterator<Item = Result<StallCount, TraceError>>,
    times: &mut Vec<(u64, u64)>,
) -> Result<u64, TraceError> {
    let of_faults = passed(times);
    for stall in stalls {
        let stall = stall?;
        if !stall.in_fault {
            times.push((stall.time_ns, stall.duration_ns));
        }
    }
    let mut reclaim_ns = passed(times) - of_faults;
    for counted in counts {
        let counted = counted?;
        if !counted.in_fault {
            reclaim_ns = reclaim_ns.saturating_add(counted.duration_ns);
        }
    }
    Ok(reclaim_ns)
}

#[cfg(test)]
mod tests {
    use pagewise_trace::StallKind;

    use super::*;

    fn stall(time_ns: u64, duration_ns: u64, in_fault: bool) -> Result<Stall, TraceError> {
        Ok(Stall {
            time_ns,
            space: 0,
            tid: 1,
            kind: StallKind::MemcgReclaim,
            duration_ns,
            in_fault,
        })
    }

    #[test]
    fn reclaim_counts_where_nobody_waits_in_a_fault() {
        let stalls = [
            stall(150, 50, false),
            // In a fault, and beside one of another thread.
            stall(220, 10, true),
            stall(230, 30, false),
            stall(400, 20, false),
        ];
        let mut faults = vec![(230, 30)];
        let found = reclaimed(stalls.into_iter(), std::iter::empty(), &mut faults);
        assert_eq!(found.expect("nothing is read"), 70);
    }

    #[test]
    fn a_miss_costs_what_reads_and_hits_do_by_how_often_they_are() {
        let faults = |number, timed, ns| Faults { number, timed, ns };
        let mut waited = Waited {
            reads: faults(30, 30, 3000),
            hits: faults(70, 70, 700),
            faults_ns: 3700,
            reclaim_ns: Some(500),
            reclaimed: 10,
        };
        assert_eq!(waited.swap_in_ns(), Some(37.0));
        assert_eq!(
            waited.costs(),
            Costs {
                read_ns: Some(100),
                hit_ns: Some(10),
                hit_share: Some(0.7),
                reclaim_ns: Some(50),
            }
        );
        // Two threads wait at a time.
        waited.faults_ns = 1850;
        assert_eq!(waited.swap_in_ns(), Some(18.5));
        assert_eq!(waited.all_ns(), 1850 + 500);
        // Reads that were not timed are like those that were, not free.
        (waited.faults_ns, waited.reads.number) = (3700, 130);
        assert_eq!(waited.swap_in_ns(), Some((13_000.0 + 700.0) / 200.0));
        assert_eq!(waited.all_ns(), 13_700 + 500);
        // Hits of which none was timed waited for nothing: most of those on a disk, where the kernel reads ahead.
        (waited.reads, waited.hits) = (faults(30, 30, 3000), faults(70, 0, 0));
        waited.faults_ns = 3000;
        assert_eq!(waited.swap_in_ns(), Some(30.0));
        assert_eq!((waited.costs().hit_ns, waited.all_ns()), (None, 3500));
        (waited.reads, waited.hits) = (faults(5, 0, 0), faults(0, 0, 0));
        assert_eq!(waited.swap_in_ns(), None);
        (waited.reclaim_ns, waited.reclaimed) = (None, 10);
        assert_eq!(waited.costs().reclaim_ns, None);
    }
}
