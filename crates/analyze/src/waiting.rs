//! How much of the run's time was waiting for swap-ins, where several threads wait.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::Event;

/// Sums by thread while events go by, in order of their ends.
#[derive(Default)]
pub(crate) struct Waiting {
    threads: HashMap<Option<u32>, Thread, RandomState>,
    /// All waiting, ns.
    stall_ns: u64,
    /// Time in which at least one thread waited, ns.
    some_ns: u64,
    /// Until when that is known.
    until_ns: u64,
}

/// What is known of a thread: from its first swap-in to its last it lived.
struct Thread {
    first_ns: u64,
    last_ns: u64,
    stall_ns: u64,
}

impl Waiting {
    /// A swap-in.
    pub(crate) fn add(&mut self, event: &Event) {
        let (end_ns, stall_ns) = (event.time_ns, event.latency_ns.unwrap_or(0));
        let begin_ns = end_ns.saturating_sub(stall_ns);
        self.stall_ns = self.stall_ns.saturating_add(stall_ns);
        self.some_ns += end_ns.saturating_sub(begin_ns.max(self.until_ns));
        self.until_ns = self.until_ns.max(end_ns);
        let thread = self.threads.entry(event.tid).or_insert(Thread {
            first_ns: begin_ns,
            last_ns: end_ns,
            stall_ns: 0,
        });
        thread.first_ns = thread.first_ns.min(begin_ns);
        thread.last_ns = thread.last_ns.max(end_ns);
        thread.stall_ns = thread.stall_ns.saturating_add(stall_ns);
    }

    /// How much shorter the run could have been without waiting, ns. Of threads that live at the same time each waits its part, as if
    /// the work was shared out evenly among them; but no less than the one that waits most, and no more than there was somebody who
    /// waited. `all_ns`: the waiting of all threads, what is known of no thread included: that is taken to be like the rest.
    pub(crate) fn waited_ns(&self, all_ns: u64) -> u64 {
        if self.stall_ns == 0 {
            return all_ns;
        }
        let most = self.threads.values().map(|thread| thread.stall_ns).max();
        let shared = self.stall_ns as f64 / self.alive_at_once();
        let waited = shared
            .max(most.unwrap_or(0) as f64)
            .min(self.some_ns as f64);
        (waited * (all_ns as f64 / self.stall_ns as f64)) as u64
    }

    /// How many of the threads lived at a time, on average over the time in which one did: at least 1.
    fn alive_at_once(&self) -> f64 {
        let mut lives: Vec<(u64, u64)> = self
            .threads
            .values()
            .map(|thread| (thread.first_ns, thread.last_ns))
            .collect();
        lives.sort_unstable();
        let (mut lived, mut passed, mut until_ns) = (0.0, 0.0, 0);
        for (first_ns, last_ns) in lives {
            lived += (last_ns - first_ns) as f64;
            passed += last_ns.saturating_sub(first_ns.max(until_ns)) as f64;
            until_ns = until_ns.max(last_ns);
        }
        (lived / f64::max(passed, 1.0)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use pagewise_trace::EventKind;

    use super::*;

    /// Swap-ins as thread, end and length; and what they amount to.
    fn waited(swap_ins: impl Iterator<Item = (u32, u64, u64)>) -> u64 {
        let mut waiting = Waiting::default();
        let mut swap_ins: Vec<_> = swap_ins.collect();
        swap_ins.sort_by_key(|&(_, end_ns, _)| end_ns);
        for (tid, time_ns, latency_ns) in swap_ins {
            waiting.add(&Event {
                kind: EventKind::SwapIn,
                time_ns,
                space: 1,
                tid: Some(tid),
                address: 0,
                latency_ns: Some(latency_ns),
                stack: None,
            });
        }
        waiting.waited_ns(waiting.stall_ns)
    }

    #[test]
    fn one_thread_waits_as_long_as_it_waits() {
        assert_eq!(waited((1..=10).map(|at| (7, at * 100, 40))), 400);
    }

    #[test]
    fn many_threads_that_wait_a_little_each_at_other_times_wait_a_little() {
        // 32 threads of 3 ns in each 100, in turn: somebody waits for 96 % of the time.
        let each = |thread: u32| {
            (1..=1000).map(move |round| (thread, round * 100 + 3 * u64::from(thread), 3))
        };
        let waited = waited((0..32).flat_map(each));
        assert!((3000..3200).contains(&waited), "{waited}");
    }

    #[test]
    fn the_thread_that_waits_most_holds_the_others_up() {
        let busy = (1..=1000).map(|round| (1, round * 100, 90));
        let idle = (1..=1000).map(|round| (2, round * 100, 1));
        assert_eq!(waited(busy.chain(idle)), 90_000);
    }

    #[test]
    fn threads_that_wait_together_wait_once() {
        let each = |thread| (1..=1000).map(move |round| (thread, round * 100, 50));
        assert_eq!(waited((0..4).flat_map(each)), 50_000);
    }

    #[test]
    fn what_threads_wait_one_after_the_other_adds_up() {
        let each = |thread: u32| {
            (1..=10).map(move |round| (thread, (u64::from(thread) * 10 + round) * 100, 50))
        };
        let waited = waited((0..20).flat_map(each));
        assert!((9_900..=10_000).contains(&waited), "{waited}");
    }

    #[test]
    fn what_was_counted_without_its_thread_is_like_the_rest() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.waited_ns(5), 5);
        waiting.stall_ns = 100;
        waiting.some_ns = 50;
        assert_eq!(waiting.waited_ns(200), 100);
    }
}
