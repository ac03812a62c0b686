//! A bound on waiting: a process that has something to promote gets its turn after so many promotions of others at most, or after a
//! few by each of them where there are many: else the turns would be all there is, and nothing left to the policy.
//!
//! HawkEye has none: a process of little overhead beside busy ones may wait for ever (a weakness its authors name).

use super::Choice;
use super::MemoryState;
use super::Policy;
use super::Processes;

/// Promotions that each other process with something to promote makes, at least, before one has waited too long.
const EACH: u32 = 4;

/// A policy, but for who has waited too long.
pub(crate) struct Bounded {
    policy: Box<dyn Policy>,
    /// Promotions of others that a process lets pass, where they are few.
    most: u32,
    /// Processes with something to promote, beside the one chosen last.
    waiting: u32,
}

impl Bounded {
    pub(crate) fn new(policy: Box<dyn Policy>, most: u32) -> Self {
        Self {
            policy,
            most,
            waiting: 0,
        }
    }

    pub(crate) fn memory(&mut self, memory: &MemoryState) {
        self.policy.memory(memory);
    }

    pub(crate) fn is_at_first_touch(&self) -> bool {
        self.policy.is_at_first_touch()
    }

    /// The next region, taken out of its process's candidates.
    pub(crate) fn take_next(&mut self, processes: &mut Processes) -> Option<Choice> {
        let choice = self
            .longest_waiting(processes)
            .or_else(|| self.policy.next(processes))?;
        self.waiting = 0;
        for process in processes.iter_mut() {
            if process.id() == choice.process {
                process.passed_over = 0;
                process.take(choice.address);
            } else if self.policy.best_of(process).is_some() {
                process.passed_over += 1;
                self.waiting += 1;
            } else {
                process.passed_over = 0;
            }
        }
        Some(choice)
    }

    fn longest_waiting(&self, processes: &Processes) -> Option<Choice> {
        let most = self.most.max(EACH * self.waiting);
        let late = processes
            .iter()
            .filter(|process| process.passed_over >= most);
        let late = late.filter_map(|process| Some((process, self.policy.best_of(process)?)));
        // Of those that waited equally long, the first that came.
        let (process, address) =
            late.min_by_key(|(process, _)| std::cmp::Reverse(process.passed_over))?;
        Some(Choice {
            process: process.id(),
            address,
        })
    }
}
