//! FreeBSD: a region is promoted once all of it is in memory (Navarro, Iyer, Druschel, Cox, OSDI 2002).

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;
use super::REGION_PAGES;

/// Regions with all 512 base pages in memory, process by process, by address. FreeBSD reserves the memory when the first
/// page is touched; that is the kernel's to do, and is left out.
#[derive(Debug, Default)]
pub(crate) struct FreeBsd;

impl Policy for FreeBsd {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        processes.iter().find_map(|process| {
            Some(Choice {
                process: process.id(),
                address: self.best_of(process)?,
            })
        })
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        let full = |address: &&u64| process.regions()[*address].seen.resident >= REGION_PAGES;
        process.candidates().iter().find(full).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_full_regions_are_promoted() {
        let mut processes = Processes::default();
        let seen = [(1, 511), (2, 512), (3, 512)].map(|(number, resident)| Seen {
            address: number << 21,
            resident,
            ..Seen::default()
        });
        processes.entry(5).observe(&seen, Duration::ZERO);
        let mut chosen = Vec::new();
        while let Some(choice) = FreeBsd.next(&processes) {
            processes.entry(choice.process).take(choice.address);
            chosen.push(choice.address >> 21);
        }
        assert_eq!(chosen, [2, 3]);
    }
}
