//! How the run spent its time, and in what memory.

use pagewise_analyze::Findings;

/// Who waits all the time does something now and then all the same.
const MOST_STALLED: f64 = 0.99;

/// Of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFacts {
    pub(crate) wall_ns: u64,
    /// Waiting for swap-ins, over all threads: what shares of objects are shares of.
    pub(crate) stall_ns: u64,
    /// How much of the run's time that was, ns.
    pub(crate) waited_ns: u64,
    /// So many times as much is waited in the memory that the plan is for: 1 in as much as was recorded.
    pub(crate) stall_scale: f64,
    /// How much of the run's time was direct reclaim outside of swap-in faults, ns; `None`: not recorded.
    pub(crate) reclaim_ns: Option<u64>,
    /// As `stall_scale`, of that.
    pub(crate) reclaim_scale: f64,
    /// Swap-in faults, of all threads.
    pub(crate) swap_ins: u64,
    /// What limit was recorded, bytes; `None`: none, or it is not known.
    pub(crate) recorded_bytes: Option<u64>,
    /// The most that the program had in memory and in swap at once, bytes; `None`: not known.
    pub(crate) peak_bytes: Option<u64>,
    /// What comes back in a burst, after which the program goes on without waiting, bytes; `None`: it makes no such pauses.
    pub(crate) burst_bytes: Option<u64>,
    /// It goes on without swap-ins for times of very different lengths, and may use all that is there.
    pub(crate) has_uneven_pauses: bool,
    /// What the user may lock; `None`: as much as there is.
    pub(crate) lockable_bytes: Option<u64>,
    pub(crate) page_bytes: u64,
    /// Processors: reading ahead needs another one.
    pub(crate) cpus: u64,
    /// Whether swap is memory: reading a page back is then work, not waiting.
    pub(crate) swap_is_memory: bool,
}

impl RunFacts {
    pub(crate) fn of(findings: &Findings) -> Self {
        let meta = &findings.meta;
        Self {
            wall_ns: meta.wall_ns.unwrap_or(0),
            stall_ns: findings.totals.stall_ns,
            waited_ns: findings.waited_ns,
            stall_scale: 1.0,
            reclaim_ns: findings.waits.reclaim_stall_ns.map(|sum| {
                // Of several threads it is shared as their waiting for swap-ins is.
                let of_run = sum as f64 * ratio(findings.waited_ns, findings.totals.stall_ns);
                of_run as u64
            }),
            reclaim_scale: 1.0,
            swap_ins: findings.totals.swap_ins,
            recorded_bytes: meta.limit.bytes,
            peak_bytes: None,
            burst_bytes: None,
            has_uneven_pauses: false,
            lockable_bytes: None,
            page_bytes: findings.page_bytes(),
            cpus: meta.host.cpus.unwrap_or(1),
            swap_is_memory: findings.swap_is_memory(),
        }
    }

    /// The part of the run that is waiting for swap-ins, 0 to 1.
    pub(crate) fn stalled_share(&self) -> f64 {
        if self.wall_ns == 0 {
            return 0.0;
        }
        let recorded = (self.waited_ns as f64 / self.wall_ns as f64).min(MOST_STALLED);
        // What is not waiting takes as long in any memory.
        let scaled = recorded * self.stall_scale;
        (scaled / (1.0 - recorded + scaled)).min(MOST_STALLED)
    }

    /// The time in which anybody waits for a swap-in, as a share of all waits together: 1 if nobody waits while others do.
    pub(crate) fn waits_at_a_time(&self) -> f64 {
        ratio(self.waited_ns, self.stall_ns)
    }

    /// How the time is spent in the memory that the plan is for, if each fault takes so much more of it than was measured.
    pub(crate) fn time(&self, uncounted_ns: f64) -> Time {
        let wall = self.wall_ns as f64;
        let waited = (self.waited_ns as f64).min(wall * MOST_STALLED);
        let reclaim = (self.reclaim_ns.unwrap_or(0) as f64).min(wall * MOST_STALLED - waited);
        let own = wall - waited - reclaim;
        let uncounted =
            (self.swap_ins as f64 * self.waits_at_a_time() * uncounted_ns).min(own / 2.0);
        Time {
            own_ns: own - uncounted,
            waited_ns: (waited + uncounted) * self.stall_scale,
            reclaim_ns: reclaim * self.reclaim_scale,
        }
    }
}

/// Of two sums of which the first is the less; 1 where there are none.
fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 1.0,
        _ => (part as f64 / whole as f64).min(1.0),
    }
}

/// The run's time in parts, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) own_ns: f64,
    pub(crate) waited_ns: f64,
    pub(crate) reclaim_ns: f64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run() -> RunFacts {
        RunFacts {
            wall_ns: 1000,
            stall_ns: 500,
            waited_ns: 500,
            stall_scale: 1.0,
            reclaim_ns: None,
            reclaim_scale: 1.0,
            swap_ins: 100,
            recorded_bytes: None,
            peak_bytes: None,
            burst_bytes: None,
            has_uneven_pauses: false,
            lockable_bytes: None,
            page_bytes: 4096,
            cpus: 2,
            swap_is_memory: false,
        }
    }

    #[test]
    fn in_other_memory_only_the_waiting_is_another() {
        let mut run = run();
        let mut share = |stall_scale| {
            run.stall_scale = stall_scale;
            run.stalled_share()
        };
        assert_eq!(share(1.0), 0.5);
        assert_eq!(share(0.0), 0.0);
        assert_eq!(share(3.0), 0.75);
        assert_eq!(share(1e9), MOST_STALLED);
    }

    #[test]
    fn time_is_shared_out_among_the_program_waiting_and_reclaim() {
        let parts = |run: &RunFacts, uncounted_ns| {
            let time = run.time(uncounted_ns);
            [time.own_ns, time.waited_ns, time.reclaim_ns]
        };
        let mut run = RunFacts {
            reclaim_ns: Some(100),
            ..run()
        };
        assert_eq!(parts(&run, 0.0), [400.0, 500.0, 100.0]);
        // 100 faults, of which each took 1 ns more; at most half of the program's own time.
        assert_eq!(parts(&run, 1.0), [300.0, 600.0, 100.0]);
        assert_eq!(parts(&run, 9.0), [200.0, 700.0, 100.0]);
        (run.stall_scale, run.reclaim_scale) = (2.0, 3.0);
        assert_eq!(parts(&run, 0.0), [400.0, 1000.0, 300.0]);
        run.reclaim_ns = None;
        assert_eq!(parts(&run, 0.0), [500.0, 1000.0, 0.0]);
    }

    #[test]
    fn what_many_threads_wait_is_no_larger_part_of_the_run() {
        let run = RunFacts {
            stall_ns: 960,
            waited_ns: 30,
            ..run()
        };
        assert_eq!(run.stalled_share(), 0.03);
    }
}
