//! Ingens (Kwon, Yu, Peter, Rossbach, Witchel, OSDI 2016): by utilisation, in proportion to shares.

use super::Choice;
use super::MemoryState;
use super::Policy;
use super::Process;
use super::Processes;
use super::REGION_PAGES;

/// Below it, free memory is in large pieces, and promotion is as eager as Linux'.
const FRAGMENTED: f64 = 0.5;
/// What an idle huge page costs a process's claim against an active one: 1 / (1 - tax) with a tax of 75 % (Waldspurger,
/// OSDI 2002, from which Ingens has the formula).
const IDLE: f64 = 4.0;

/// Regions of which a share of the base pages is in memory, of the process with the least huge memory for its share.
#[derive(Debug)]
pub(crate) struct Ingens {
    /// Base pages that must be in memory, while memory is fragmented.
    threshold: u16,
    eager: bool,
}

impl Ingens {
    /// `utilisation`: share of a region that must be in memory, 0 to 1; 0.9 in the paper.
    pub(crate) fn new(utilisation: f64) -> Self {
        Self {
            threshold: (utilisation * f64::from(REGION_PAGES)).ceil() as u16,
            eager: false,
        }
    }
}

/// How well it is served: huge pages, idle ones counted more. All processes have the same share.
fn served(process: &Process) -> f64 {
    let active = |accessed: u16| if accessed > 0 { 1.0 } else { IDLE };
    let known = process.regions().values().filter(|region| region.seen.huge);
    let weight = known
        .clone()
        .map(|region| active(region.seen.accessed))
        .sum::<f64>();
    // Those under way have not been seen: they count as active.
    weight + process.huge().saturating_sub(known.count()) as f64
}

impl Policy for Ingens {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        let waiting = processes
            .iter()
            .filter_map(|process| Some((process, self.best_of(process)?)));
        // Of those served equally, the first.
        let (process, address) =
            waiting.min_by(|(a, _), (b, _)| served(a).total_cmp(&served(b)))?;
        Some(Choice {
            process: process.id(),
            address,
        })
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        let least = if self.eager { 1 } else { self.threshold };
        let mut candidates = process.candidates().iter();
        candidates
            .find(|address| process.regions()[address].seen.resident >= least)
            .copied()
    }

    /// Where fragmentation is not known, it is taken to be high: the careful way.
    fn memory(&mut self, memory: &MemoryState) {
        self.eager = memory.fragmentation.is_some_and(|share| share < FRAGMENTED);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::super::tests::order;
    use super::super::tests::processes;
    use super::*;
    use std::time::Duration;

    fn fragmented(share: Option<f64>) -> MemoryState {
        MemoryState {
            total_bytes: 4,
            available_bytes: 2,
            fragmentation: share,
        }
    }

    #[test]
    fn equal_processes_get_equal_shares_by_address() {
        let map: [(&str, &[(u64, u16)]); 2] = [
            ("A", &[(1, 0), (2, 512), (3, 1)]),
            ("B", &[(1, 1), (2, 1), (3, 9)]),
        ];
        let mut processes = processes(&map);
        assert_eq!(
            order(&mut Ingens::new(0.9), &mut processes, &map),
            "A1,B1,A2,B2,A3,B3"
        );
    }

    #[test]
    fn idle_huge_pages_cost_claims() {
        let mut processes = Processes::default();
        let region = |address: u64, huge: bool, accessed: u16| Seen {
            address: address << 21,
            resident: 512,
            accessed,
            huge,
            ..Seen::default()
        };
        let with = |accessed| {
            [
                region(1, true, accessed),
                region(2, false, 5),
                region(3, false, 5),
            ]
        };
        processes.entry(0).observe(&with(0), Duration::ZERO);
        processes.entry(1).observe(&with(512), Duration::ZERO);
        let mut policy = Ingens::new(0.9);
        let mut chosen = Vec::new();
        while let Some(choice) = policy.next(&processes) {
            processes.entry(choice.process).take(choice.address);
            chosen.push(choice.process);
        }
        assert_eq!(chosen, [1, 1, 0, 0]);
    }

    #[test]
    fn sparse_regions_wait_while_memory_is_fragmented() {
        let mut processes = Processes::default();
        let sparse = Seen {
            address: 1 << 21,
            resident: 460,
            ..Seen::default()
        };
        processes.entry(0).observe(&[sparse], Duration::ZERO);
        let mut policy = Ingens::new(0.9);
        for (share, eager) in [(Some(0.7), false), (None, false), (Some(0.3), true)] {
            policy.memory(&fragmented(share));
            assert_eq!(policy.next(&processes).is_some(), eager, "{share:?}");
        }
    }
}
