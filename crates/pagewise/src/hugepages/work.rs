//! What the manager does with the actions that the policy hands out.

use std::time::Duration;
use std::time::Instant;

use pagewise_simulate::hugepages::Action;

use super::act;
use super::act::Outcome;
use super::dry;
use super::manager::HOUSEKEEPING;
use super::manager::Manager;
use crate::failure::Failure;
use crate::output;

/// In a dry run that looks once, so many promotions are shown at most.
const SHOWN: u64 = 1000;
/// In a dry run, what was shown is not shown again for so long.
const SHOWN_FOR: Duration = Duration::from_secs(3600);

/// Why it stopped acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acted {
    /// For the next look, the rate, the budget, or free huge pages.
    Waiting,
    /// The policy has nothing more to do until the next look.
    NothingLeft,
}

/// Processor time of one action, a moving average of each kind; what was not measured yet is estimated.
pub(super) struct ActionCost {
    promotion: Duration,
    recovery: Duration,
}

impl Default for ActionCost {
    fn default() -> Self {
        let estimated = Duration::from_micros(500);
        Self {
            promotion: estimated,
            recovery: estimated,
        }
    }
}

impl ActionCost {
    fn expected(&self, recovers: bool) -> Duration {
        if recovers {
            self.recovery
        } else {
            self.promotion
        }
    }

    fn learn(&mut self, action: Action, cost: Duration) {
        let average = match action {
            Action::Promote { .. } => &mut self.promotion,
            Action::CountZeros { .. } | Action::Demote { .. } => &mut self.recovery,
        };
        *average = (*average * 7 + cost) / 8;
    }
}

impl Manager<'_> {
    /// What looks will cost, which is not for others to spend: the walks that follow from accessed bits cleared already, and the look that
    /// is due for longest, or it would never be its turn while there is work for all that is earned.
    fn looks_to_come(&self) -> Duration {
        let begun = self.targets.values().filter(|target| !target.is_resting());
        let walks: Duration = begun.map(|target| target.cost.walk).sum();
        let now = Instant::now();
        let due = self
            .targets
            .values()
            .filter(|target| target.is_resting() && target.due() <= now);
        let next = due.min_by_key(|target| target.due());
        walks + next.map_or(Duration::ZERO, |target| target.cost.sum())
    }

    /// Acts for as long as there is something to do and to spend.
    pub(super) fn act(&mut self) -> Result<Acted, Failure> {
        let round = Instant::now();
        while round.elapsed() < HOUSEKEEPING {
            let paused = self.pause.is_on(Instant::now());
            // What is only shown costs next to nothing; zeros are counted in any case.
            let cost = match self.arguments.dry_run {
                true => Duration::ZERO,
                false => self.action_cost.expected(self.controller.is_recovering()),
            };
            let affordable = self.budget.allows(cost + self.looks_to_come());
            let early = self.arguments.once && !self.all_looked();
            if paused || early || !affordable || self.left_to_promote() == 0 {
                return Ok(Acted::Waiting);
            }
            if self.nothing_left {
                return Ok(Acted::NothingLeft);
            }
            let now = self.time_of_action();
            let before = self.budget.spent();
            let Some(action) = self.controller.next(&mut self.processes, now) else {
                if self.controller.waits_for_rate(now) {
                    return Ok(Acted::Waiting);
                }
                self.nothing_left = true;
                return Ok(Acted::NothingLeft);
            };
            self.carry_out(action, now)?;
            if !self.arguments.dry_run {
                let cost = self.budget.spent().saturating_sub(before);
                self.action_cost.learn(action, cost);
            }
        }
        Ok(Acted::Waiting)
    }

    /// A dry run that looks once shows what would come in time: it does not wait for it.
    fn time_of_action(&self) -> Duration {
        if !self.arguments.dry_run || !self.arguments.once {
            return self.budget.elapsed();
        }
        self.budget.elapsed()
            + Duration::from_secs_f64(self.promotions as f64 / self.arguments.rate.0)
    }

    /// Promotions that may still be made, or shown.
    pub(super) fn left_to_promote(&self) -> u64 {
        let asked = self.arguments.max_promotions.unwrap_or(u64::MAX);
        let shown = if self.arguments.dry_run && self.arguments.once {
            SHOWN
        } else {
            u64::MAX
        };
        asked.min(shown).saturating_sub(self.promotions)
    }

    pub(super) fn all_looked(&self) -> bool {
        let mut targets = self.targets.values();
        targets.all(|target| target.looks > 0 || target.left_alone.is_some())
    }

    fn carry_out(&mut self, action: Action, now: Duration) -> Result<(), Failure> {
        let (Action::Promote {
            process: pid,
            address,
        }
        | Action::CountZeros {
            process: pid,
            address,
        }
        | Action::Demote {
            process: pid,
            address,
        }) = action;
        let is_count = matches!(action, Action::CountZeros { .. });
        let Some(target) = self.targets.get_mut(&pid) else {
            self.processes.remove(pid);
            return Ok(());
        };
        if self.arguments.dry_run && !is_count {
            if let Some(line) =
                dry::line(action, self.arguments.policy, &self.processes, &target.comm)
            {
                output::print(&format!("{line}\n"))?;
            }
            let known = self.processes.entry(pid);
            match action {
                Action::Promote { .. } => {
                    known.refused(address, now, SHOWN_FOR);
                    self.promotions += 1;
                }
                _ => known.not_demoted(address, now, SHOWN_FOR),
            }
            return Ok(());
        }
        let known = self.processes.entry(pid);
        // A debugger may have come since the look.
        if target.is_left_alone(known) {
            return Ok(());
        }
        let promoted_before = target.done.promoted;
        let outcome = match action {
            Action::Promote { .. } => act::promote(target, &mut self.sensor, known, address, now),
            Action::CountZeros { .. } => {
                act::count_zeros(target, &mut self.sensor, known, address, now)
            }
            Action::Demote { .. } => act::demote(target, &mut self.sensor, known, address, now),
        };
        self.promotions += target.done.promoted - promoted_before;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                self.let_go(pid);
                self.refused.insert(pid, failure.to_string());
                return Ok(());
            }
        };
        match outcome {
            Outcome::Done | Outcome::Refused => {}
            Outcome::NoHugePage => self.pause.begin(Instant::now()),
            Outcome::Ended => self.let_go(pid),
            Outcome::NotPermitted => {
                self.let_go(pid);
                self.refused
                    .insert(pid, "not permitted; run with sudo".to_owned());
            }
        }
        Ok(())
    }
}
