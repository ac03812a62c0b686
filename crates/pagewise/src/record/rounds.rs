//! When to look at the processes again: early at first, so that a program that runs for a moment is seen too, then up to
//! five times a second, and never so often that looking takes more than a hundredth of the time.

use std::time::Duration;
use std::time::Instant;

use rustix::time::ClockId;

const FIRST: Duration = Duration::from_millis(10);
const SHORTEST: Duration = Duration::from_millis(200);
/// One part in so many of the time may be spent.
const SHARE: u32 = 100;

/// Processor time of this thread: that others keep the processor busy is no cost of looking.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The pace of looking.
#[derive(Debug)]
pub(super) struct Rounds {
    start: Instant,
    began: Instant,
    cost: Duration,
    first_cost: Option<Duration>,
    /// A round has begun and not ended.
    open: bool,
    next: Instant,
    pause: Duration,
    /// Pauses are so many times as long.
    pace: u32,
    total: Duration,
}

impl Rounds {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            began: now,
            cost: Duration::ZERO,
            first_cost: None,
            open: false,
            next: now,
            pause: FIRST,
            pace: 1,
            total: Duration::ZERO,
        }
    }

    /// Whether a round may begin.
    pub(super) fn is_due(&self) -> bool {
        !self.open && Instant::now() >= self.next
    }

    /// It has begun then.
    pub(super) fn begin(&mut self, began: Instant) {
        self.began = began;
        self.cost = Duration::ZERO;
        self.open = true;
    }

    /// From now on pauses are so many times as long.
    pub(super) fn slow_down(&mut self, pace: u32) {
        self.pace = pace;
    }

    /// What all looking has taken.
    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// So much time was spent on it; is there more to do?
    pub(super) fn spent(&mut self, time: Duration, more: bool) {
        if !self.open {
            return;
        }
        self.cost += time;
        self.total += time;
        if !more {
            self.open = false;
            // The first round opens everything and says nothing of the others.
            let first = *self.first_cost.get_or_insert(self.cost);
            let afforded = self.start + (self.total - first).saturating_mul(SHARE);
            self.next = afforded.max(self.began + self.pause.saturating_mul(self.pace));
            self.pause = (self.pause * 2).min(SHORTEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rounds: &mut Rounds, cost: Duration) -> Duration {
        let began = Instant::now();
        rounds.begin(began);
        assert!(!rounds.is_due(), "one at a time");
        rounds.spent(cost, true);
        rounds.spent(Duration::ZERO, false);
        rounds.next - began
    }

    #[test]
    fn rounds_come_fast_at_first_and_five_times_a_second_later() {
        let mut rounds = Rounds::new();
        assert!(rounds.is_due());
        let cheap = Duration::from_micros(1);
        let pauses: Vec<u128> = (0..7)
            .map(|_| after(&mut rounds, cheap).as_millis())
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 200, 200]);
    }

    #[test]
    fn looking_takes_a_hundredth_of_the_time() {
        let mut rounds = Rounds::new();
        let slow = Duration::from_millis(30);
        assert!(
            after(&mut rounds, slow) < Duration::from_secs(1),
            "the first"
        );
        after(&mut rounds, slow);
        assert_eq!(rounds.next - rounds.start, slow * SHARE);
        assert!(!rounds.is_due());
        after(&mut rounds, slow);
        assert_eq!(rounds.next - rounds.start, 2 * slow * SHARE);
        assert_eq!(rounds.total(), 3 * slow);
    }
}
