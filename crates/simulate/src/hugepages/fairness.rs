//! A bound on waiting: a process that has something to promote gets its turn after so many promotions of others at most, or after a
//! few by each of them where there are many: else the turns would be all there is, and nothing left to the policy. A cgroup has such a
//! bound, too: beside one with a hundred processes, that of another with one would wait for a few by each of the hundred.
//!
//! HawkEye has none: a process of little overhead beside busy ones may wait for ever (a weakness its authors name).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Choice;
use super::MemoryState;
use super::Policy;
use super::Process;
use super::Processes;

/// Promotions that each other process or cgroup with something to promote makes, at least, before one has waited too long.
const EACH: u32 = 4;

/// A policy, but for who has waited too long.
pub(crate) struct Bounded {
    policy: Box<dyn Policy>,
    /// Promotions of others that a process lets pass, where they are few.
    most: u32,
    /// Processes with something to promote, beside the one chosen last.
    waiting: u32,
    groups: Groups,
}

/// Promotions of others since its last one, of each cgroup that has something to promote beside that of the last.
struct Groups {
    most: u32,
    passed_over: BTreeMap<u32, u32>,
}

impl Groups {
    fn chosen(&mut self, chosen: Option<u32>, with_candidates: &BTreeSet<u32>) {
        self.passed_over
            .retain(|group, _| with_candidates.contains(group));
        for group in with_candidates {
            *self.passed_over.entry(*group).or_default() += 1;
        }
        if let Some(group) = chosen {
            self.passed_over.remove(&group);
        }
    }

    fn longest_waiting(&self) -> Option<u32> {
        let waiting = self.passed_over.len() as u32;
        let most = self.most.max(EACH * waiting);
        let late = self
            .passed_over
            .iter()
            .filter(|(_, passed)| **passed >= most);
        late.max_by_key(|(_, passed)| **passed)
            .map(|(group, _)| *group)
    }
}

impl Bounded {
    /// `most` and `most_of_groups`: promotions of others that a process and a cgroup let pass.
    pub(crate) fn new(policy: Box<dyn Policy>, most: u32, most_of_groups: u32) -> Self {
        Self {
            policy,
            most,
            waiting: 0,
            groups: Groups {
                most: most_of_groups,
                passed_over: BTreeMap::new(),
            },
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
        let mut groups = BTreeSet::new();
        let mut chosen = None;
        for process in processes.iter_mut() {
            if process.id() == choice.process {
                chosen = process.group();
                process.passed_over = 0;
                process.take(choice.address);
            } else if self.policy.best_of(process).is_some() {
                groups.extend(process.group());
                process.passed_over += 1;
                self.waiting += 1;
            } else {
                process.passed_over = 0;
            }
        }
        self.groups.chosen(chosen, &groups);
        Some(choice)
    }

    fn longest_waiting(&self, processes: &Processes) -> Option<Choice> {
        let of_group = self.groups.longest_waiting().and_then(|group| {
            let members = processes
                .iter()
                .filter(|process| process.group() == Some(group));
            self.first_of(members)
        });
        of_group.or_else(|| {
            let most = self.most.max(EACH * self.waiting);
            self.first_of(
                processes
                    .iter()
                    .filter(|process| process.passed_over >= most),
            )
        })
    }

    /// The best region of the one that waited longest; of those that waited equally long, the first that came.
    fn first_of<'a>(&self, late: impl Iterator<Item = &'a Process>) -> Option<Choice> {
        let late = late.filter_map(|process| Some((process, self.policy.best_of(process)?)));
        let (process, address) =
            late.min_by_key(|(process, _)| std::cmp::Reverse(process.passed_over))?;
        Some(Choice {
            process: process.id(),
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::HugePolicy;
    use super::super::Seen;
    use super::super::Settings;
    use super::*;

    /// A hundred busy processes in one cgroup, a quiet one in another.
    fn turns_until_the_quiet_one(grouped: bool) -> usize {
        let mut processes = Processes::default();
        let region = |number: u64, accessed: u16| Seen {
            address: number << 21,
            resident: 512,
            accessed,
            ..Seen::default()
        };
        for id in 0..100 {
            let busy: Vec<Seen> = (1..20).map(|number| region(number, 512)).collect();
            processes.entry(id).observe(&busy, Duration::ZERO);
            processes.entry(id).set_group(grouped.then_some(0));
        }
        processes
            .entry(100)
            .observe(&[region(1, 60)], Duration::ZERO);
        processes.entry(100).set_group(grouped.then_some(1));
        let policy = HugePolicy::HawkEyeG;
        let mut bounded = Bounded::new(policy.build(&Settings::new(policy)), 63, 63);
        let turns = std::iter::from_fn(|| bounded.take_next(&mut processes));
        turns.take_while(|choice| choice.process != 100).count()
    }

    #[test]
    fn beside_many_processes_of_another_cgroup_one_waits_as_beside_one() {
        assert_eq!(turns_until_the_quiet_one(true), 63);
        assert!(turns_until_the_quiet_one(false) > 300);
    }
}
