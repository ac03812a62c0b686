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

/// After a refusal for want of huge pages, nothing is promoted for so long.
const PAUSE: Duration = Duration::from_secs(1);
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

impl Manager<'_> {
    /// Acts for as long as there is something to do and to spend.
    pub(super) fn act(&mut self) -> Result<Acted, Failure> {
        let round = Instant::now();
        while round.elapsed() < HOUSEKEEPING {
            let paused = self
                .paused_until
                .is_some_and(|until| Instant::now() < until);
            // What is only shown costs next to nothing; zeros are counted in any case.
            let cost = match self.arguments.dry_run {
                true => Duration::ZERO,
                false => self.action_cost,
            };
            let affordable = self.budget.allows(cost);
            let early = self.arguments.once && !self.all_looked();
            if paused || early || !affordable || self.left_to_hand_out() == 0 {
                return Ok(Acted::Waiting);
            }
            let now = self.time_of_action();
            let Some(action) = self.controller.next(&mut self.processes, now) else {
                let waits = self.controller.waits_for_rate(now);
                return Ok(if waits {
                    Acted::Waiting
                } else {
                    Acted::NothingLeft
                });
            };
            self.carry_out(action, now)?;
        }
        Ok(Acted::Waiting)
    }

    /// A dry run that looks once shows what would come in time: it does not wait for it.
    fn time_of_action(&self) -> Duration {
        if !self.arguments.dry_run || !self.arguments.once {
            return self.budget.elapsed();
        }
        self.budget.elapsed()
            + Duration::from_secs_f64(self.handed_out as f64 / self.arguments.rate.0)
    }

    /// Promotions that may still be made, or shown.
    pub(super) fn left_to_hand_out(&self) -> u64 {
        let asked = self.arguments.max_promotions.unwrap_or(u64::MAX);
        let shown = if self.arguments.dry_run && self.arguments.once {
            SHOWN
        } else {
            u64::MAX
        };
        asked.min(shown).saturating_sub(self.handed_out)
    }

    pub(super) fn all_looked(&self) -> bool {
        self.targets.values().all(|target| target.looks > 0)
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
        self.handed_out += u64::from(matches!(action, Action::Promote { .. }));
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
                Action::Promote { .. } => known.refused(address, now, SHOWN_FOR),
                _ => known.not_demoted(address, now, SHOWN_FOR),
            }
            return Ok(());
        }
        let before = self.budget.spent();
        let known = self.processes.entry(pid);
        // A debugger may have come since the look.
        if target.is_left_alone(known) {
            return Ok(());
        }
        let outcome = match action {
            Action::Promote { .. } => act::promote(target, &mut self.sensor, known, address, now)?,
            Action::CountZeros { .. } => {
                act::count_zeros(target, &mut self.sensor, known, address, now)?;
                Outcome::Done
            }
            Action::Demote { .. } => act::demote(target, &mut self.sensor, known, address, now)?,
        };
        let cost = self.budget.spent().saturating_sub(before);
        self.action_cost = (self.action_cost * 7 + cost) / 8;
        match outcome {
            Outcome::Done | Outcome::Refused => {}
            Outcome::NoHugePage => self.paused_until = Some(Instant::now() + PAUSE),
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
