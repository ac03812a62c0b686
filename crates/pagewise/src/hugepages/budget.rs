//! What the manager itself may cost.

use std::time::Duration;
use std::time::Instant;

/// A share of one processor. What is not spent is kept for one interval, so that a look need not be waited for; what
/// a longer rest has left over is forgotten, or hours of it would be spent at once when memory gets short. The first interval's share is
/// there at once, so that the first look need not be waited for either, and is not earned again: by the end of any time of at least
/// an interval no more than its share was used.
pub(super) struct Budget {
    share: f64,
    /// Share of an interval, seconds.
    most: f64,
    began: Instant,
    spent_before: Duration,
    /// Seconds that may be spent, as of a time and what was spent by then; below zero: a debt.
    credit: f64,
    as_of: (Duration, Duration),
}

impl Budget {
    pub(super) fn new(share: f64, interval: Duration) -> Self {
        let most = share * interval.as_secs_f64();
        Self {
            share,
            most,
            began: Instant::now(),
            spent_before: processor_time(),
            credit: most,
            as_of: (interval, Duration::ZERO),
        }
    }

    /// Processor time of this process since the start.
    pub(super) fn spent(&self) -> Duration {
        processor_time().saturating_sub(self.spent_before)
    }

    /// Whether something that costs this may be done now; what costs more than may be kept, once all of that is there: it leaves a debt.
    pub(super) fn allows(&mut self, cost: Duration) -> bool {
        self.settle(self.began.elapsed(), self.spent());
        self.covers(cost)
    }

    fn covers(&self, cost: Duration) -> bool {
        cost.as_secs_f64().min(self.most) <= self.credit
    }

    fn settle(&mut self, now: Duration, spent: Duration) {
        let (before, spent_before) = self.as_of;
        self.as_of = (now.max(before), spent);
        let earned = now.saturating_sub(before).as_secs_f64() * self.share;
        let paid = spent.saturating_sub(spent_before).as_secs_f64();
        self.credit = (self.credit + earned - paid).min(self.most);
    }

    /// Share of one processor used so far, over at least the first interval.
    pub(super) fn used(&self) -> f64 {
        let interval = Duration::from_secs_f64(self.most / self.share);
        let time = self.began.elapsed().max(interval);
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
        let mut budget = Budget::new(0.034, Duration::from_secs(1000));
        assert!(budget.allows(Duration::from_secs(30)));
        assert!(budget.used() < 0.034);
    }

    #[test]
    fn the_first_interval_is_paid_in_advance_and_not_earned_again() {
        let seconds = Duration::from_secs;
        let mut budget = Budget::new(0.5, seconds(10));
        budget.settle(seconds(1), seconds(5));
        budget.settle(seconds(10), seconds(5));
        assert!(budget.credit.abs() < 1e-9, "{}", budget.credit);
        budget.settle(seconds(12), seconds(5));
        assert!((budget.credit - 1.0).abs() < 1e-9, "{}", budget.credit);
    }

    #[test]
    fn a_long_rest_is_not_saved_up_and_a_debt_is_paid() {
        let seconds = Duration::from_secs;
        let mut budget = Budget::new(0.5, seconds(10));
        budget.settle(seconds(36_000), Duration::ZERO);
        assert!((budget.credit - 5.0).abs() < 1e-9, "{}", budget.credit);
        // Else what costs more than may be kept would never be done.
        assert!(budget.covers(seconds(20)));
        budget.settle(seconds(36_000), seconds(20));
        assert!(!budget.covers(Duration::ZERO));
        assert!((budget.credit + 15.0).abs() < 1e-9, "{}", budget.credit);
        budget.settle(seconds(36_040), seconds(20));
        assert!((budget.credit - 5.0).abs() < 1e-9, "{}", budget.credit);
    }
}
