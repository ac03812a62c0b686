//! The program's own time: that of the recording without what it waited in swap-in faults, and without what being looked at took. With
//! less memory the same accesses happen at the same own time, and only the waiting grows.

use crate::losses::Loss;

/// Translates times of a recording into own time.
#[derive(Debug)]
pub struct Clock {
    /// Ends of faults, and how long had been waited until then; both in ns, ascending.
    ends: Vec<(u64, u64)>,
    /// When it was slowed, ascending.
    slow: Vec<Slow>,
}

/// A time in which the program did less than its own time says, all the while alike; times are those without waiting, ns.
#[derive(Clone, Copy, Debug)]
struct Slow {
    from: u64,
    length: u64,
    lost: u64,
    /// What was lost earlier.
    before: u64,
}

/// Of a time in which more seems to have been lost than that, in hundredths, so much was: some of its bits were set on the way.
const MOST_LOST: u64 = 90;

impl Clock {
    /// `faults`: the end and the length of each, ns, in order of their ends. Where threads wait at the same time it counts
    /// once.
    pub fn new(faults: impl Iterator<Item = (u64, u64)>) -> Clock {
        let mut ends: Vec<(u64, u64)> = Vec::new();
        let mut waited = 0;
        let mut until = 0;
        for (end, length) in faults {
            let begin = end.saturating_sub(length).max(until);
            waited += end.saturating_sub(begin);
            until = until.max(end);
            ends.push((end, waited));
        }
        Clock {
            ends,
            slow: Vec::new(),
        }
    }

    /// The same where the program also lost these, in order of time.
    pub(crate) fn with_losses(mut self, losses: &[Loss]) -> Clock {
        let mut before = 0;
        for loss in losses {
            let earlier = self.slow.last().map_or(0, |slow| slow.from + slow.length);
            let from = self.running(loss.from).max(earlier);
            let length = self.running(loss.to).saturating_sub(from);
            let lost = loss.ns.min(length * MOST_LOST / 100);
            if lost > 0 {
                self.slow.push(Slow {
                    from,
                    length,
                    lost,
                    before,
                });
                before += lost;
            }
        }
        self
    }

    /// Own time at `time`, in ns since the same origin.
    pub fn own(&self, time: u64) -> u64 {
        let running = self.running(time);
        running - self.lost_at(running)
    }

    /// What was lost until a time without waiting, ns.
    fn lost_at(&self, running: u64) -> u64 {
        let after = self.slow.partition_point(|slow| slow.from < running);
        after.checked_sub(1).map_or(0, |last| {
            let slow = self.slow[last];
            let passed = (running - slow.from).min(slow.length) as f64 / slow.length as f64;
            slow.before + (slow.lost as f64 * passed) as u64
        })
    }

    /// Time without waiting. In a wait it stands still.
    fn running(&self, time: u64) -> u64 {
        let after = self.ends.partition_point(|&(end, _)| end <= time);
        let before = after.checked_sub(1).map_or(0, |last| self.ends[last].1);
        let under_way = self.ends.get(after).map_or(0, |&(end, waited)| {
            let begin = end - (waited - before);
            time.saturating_sub(begin)
        });
        time - (before + under_way).min(time)
    }

    /// All that was lost, ns.
    pub(crate) fn lost(&self) -> u64 {
        self.slow.last().map_or(0, |slow| slow.before + slow.lost)
    }

    /// All that was waited, ns.
    pub(crate) fn waited(&self) -> u64 {
        self.ends.last().map_or(0, |&(_, waited)| waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_own_time() {
        let clock = Clock::new([(100, 20), (110, 15), (200, 50)].into_iter());
        assert_eq!(
            [50, 100, 110, 150, 200, 300].map(|time| clock.own(time)),
            [50, 80, 80, 120, 120, 220]
        );
        assert_eq!(clock.waited(), 80);
        // Nor does it in the midst of a wait.
        assert_eq!(
            [79, 85, 99, 160].map(|time| clock.own(time)),
            [79, 80, 80, 120]
        );
    }

    #[test]
    fn what_is_lost_is_no_own_time_but_some_of_it_always_is() {
        let loss = |from, to, ns| Loss { from, to, ns };
        // 20 of the first 100 were waited; more than all of the second cannot be lost; the third begins within it.
        let losses = [loss(0, 100, 40), loss(200, 300, 500), loss(250, 400, 50)];
        let clock = Clock::new([(100, 20)].into_iter()).with_losses(&losses);
        assert_eq!(
            [0, 40, 80, 100, 200, 250, 300, 350, 400, 500].map(|time| clock.own(time)),
            [0, 20, 40, 40, 140, 145, 150, 175, 200, 300]
        );
        assert_eq!(clock.lost(), 40 + 90 + 50);
        assert_eq!(clock.waited(), 20);
    }
}
