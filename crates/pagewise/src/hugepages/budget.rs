//! What the manager itself may cost.

use std::time::Duration;
use std::time::Instant;

/// A share of one processor, counted from the start. The share of the first interval may be spent at once, so that the first
/// look need not be waited for; over any longer time the share holds.
pub(super) struct Budget {
    share: f64,
    at_once: Duration,
    began: Instant,
    spent_before: Duration,
}

impl Budget {
    pub(super) fn new(share: f64, interval: Duration) -> Self {
        Self {
            share,
            at_once: interval,
            began: Instant::now(),
            spent_before: processor_time(),
        }
    }

    /// Processor time of this process since the start.
    pub(super) fn spent(&self) -> Duration {
        processor_time().saturating_sub(self.spent_before)
    }

    /// Whether something that costs this may be done now.
    pub(super) fn allows(&self, cost: Duration) -> bool {
        let earned = self.began.elapsed().max(self.at_once).mul_f64(self.share);
        self.spent() + cost <= earned
    }

    /// Share of one processor used so far, over at least the first interval.
    pub(super) fn used(&self) -> f64 {
        let time = self.began.elapsed().max(self.at_once);
        self.spent().as_secs_f64() / time.as_secs_f64()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Of this process, all threads.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_first_interval_and_no_more() {
        let budget = Budget::new(0.034, Duration::from_secs(1000));
        assert!(budget.allows(Duration::from_secs(30)));
        assert!(!budget.allows(Duration::from_secs(35)));
        assert!(budget.used() < 0.034);
    }
}
