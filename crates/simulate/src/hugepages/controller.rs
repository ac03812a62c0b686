//! Policy, bound, rate and recovery together.

use std::time::Duration;

use super::Choice;
use super::HugePolicy;
use super::MemoryState;
use super::Processes;
use super::Watermarks;
use super::fairness::Bounded;
use super::rate::Rate;
use super::recovery::Recovery;
use super::recovery::Step;

/// What is to be done to a region of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make it a huge page. Tell how it went: [`Process::promoted`](super::Process::promoted) or
    /// [`refused`](super::Process::refused).
    Promote {
        /// Number of the process.
        process: u32,
        /// First byte of the region.
        address: u64,
    },
    /// Count the zero-filled base pages of this huge page: [`Process::counted`](super::Process::counted).
    CountZeros {
        /// Number of the process.
        process: u32,
        /// First byte of the region.
        address: u64,
    },
    /// Split this huge page, so that its pages of zeros are freed: [`Process::demoted`](super::Process::demoted) or
    /// [`not_demoted`](super::Process::not_demoted).
    Demote {
        /// Number of the process.
        process: u32,
        /// First byte of the region.
        address: u64,
    },
}

/// How a manager is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The order of promotions.
    pub policy: HugePolicy,
    /// Promotions a second at most.
    pub promotions_per_second: f64,
    /// When bloat is recovered.
    pub watermarks: Watermarks,
    /// A huge page with more base pages of zeros is bloat.
    pub most_zero: u16,
    /// Promotions of others that a process with something to promote lets pass at most.
    pub most_passed_over: u32,
    /// Promotions of other cgroups that one with something to promote lets pass at most, however many processes they have.
    pub most_group_passed_over: u32,
    /// Share of a region that must be in memory for Ingens, 0 to 1.
    pub utilisation: f64,
    /// Whether a split frees zeros (Linux 6.12): where it does not, nothing is split, as that would only cost the program its huge pages.
    pub splits_free_zeros: bool,
}

impl Settings {
    /// The policy with the usual numbers.
    pub fn new(policy: HugePolicy) -> Self {
        Self {
            policy,
            promotions_per_second: 10.0,
            watermarks: Watermarks::default(),
            most_zero: 64,
            most_passed_over: 63,
            most_group_passed_over: 63,
            utilisation: 0.9,
            splits_free_zeros: true,
        }
    }
}

/// Says what to do next, one action at a time.
pub struct Controller {
    promotions: Bounded,
    rate: Rate,
    recovery: Recovery,
    recovers: bool,
    just_begun: bool,
    /// Recovery had nothing to do, and memory has not been looked at since: to find that out costs a look at all regions.
    nothing_to_recover: bool,
    /// Of the last two kinds of actions it was the turn of recovery: where memory is short around some processes only, the others go on.
    recovered_last: bool,
}

impl Controller {
    /// With these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            promotions: Bounded::new(
                settings.policy.build(settings),
                settings.most_passed_over,
                settings.most_group_passed_over,
            ),
            rate: Rate::new(settings.promotions_per_second),
            recovery: Recovery::new(settings.watermarks, settings.most_zero),
            recovers: settings.splits_free_zeros,
            just_begun: false,
            nothing_to_recover: false,
            recovered_last: false,
        }
    }

    /// Memory as it is now. While it is short nothing is promoted.
    pub fn memory(&mut self, memory: &MemoryState) {
        self.promotions.memory(memory);
        self.nothing_to_recover = false;
        self.just_begun |= self.recovery.memory(memory);
    }

    /// Whether memory is short, so that bloat is recovered.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_active()
    }

    /// Used shares of memory at which recovery begins and ends now.
    pub fn watermarks(&self) -> (f64, f64) {
        self.recovery.effective()
    }

    /// Whether promotions wait for nothing but the rate, so that later there is more to do.
    pub fn waits_for_rate(&mut self, now: Duration) -> bool {
        !self.recovery.is_active() && !self.rate.allows(now)
    }

    /// Whether what is touched for the first time now gets a huge page at once.
    pub fn is_at_first_touch(&self) -> bool {
        !self.recovery.is_active() && self.promotions.is_at_first_touch()
    }

    /// The next action. `None`: nothing to do until the next look, or until the rate allows more. A promotion is counted by
    /// the rate once it is handed out. What there is to recover is known anew each time that memory is told.
    pub fn next(&mut self, processes: &mut Processes, now: Duration) -> Option<Action> {
        if std::mem::take(&mut self.just_begun) {
            processes.iter_mut().for_each(super::Process::forget_zeros);
        }
        if self.recovered_last && !self.recovery.is_active() {
            self.recovered_last = false;
            return self
                .promote(processes, now)
                .or_else(|| self.recover(processes, now));
        }
        self.recover(processes, now)
            .or_else(|| self.promote(processes, now))
    }

    fn recover(&mut self, processes: &Processes, now: Duration) -> Option<Action> {
        if !self.recovers || self.nothing_to_recover {
            return None;
        }
        let step = self.recovery.next(processes, now);
        self.nothing_to_recover = step.is_none();
        self.recovered_last = step.is_some();
        Some(match step? {
            Step::Count(Choice { process, address }) => Action::CountZeros { process, address },
            Step::Demote(Choice { process, address }) => Action::Demote { process, address },
        })
    }

    fn promote(&mut self, processes: &mut Processes, now: Duration) -> Option<Action> {
        if self.recovery.is_active() || !self.rate.allows(now) {
            return None;
        }
        let Choice { process, address } = self.promotions.take_next(processes)?;
        self.rate.spend();
        Some(Action::Promote { process, address })
    }
}
