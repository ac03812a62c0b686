//! HawkEye-PMU: the process that spends most of its cycles on page walks first (ASPLOS 2019, section 3.4).

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;

/// Overheads that differ by less are alike: those processes take turns.
const ALIKE: f64 = 0.02;
/// Below this share of cycles, huge pages are not worth it.
const LEAST: f64 = 0.02;

/// By measured overhead; within a process by its access map.
#[derive(Debug, Default)]
pub(crate) struct HawkEyePmu {
    last: Option<u32>,
}

fn overhead(process: &Process) -> Option<f64> {
    let measured = process.overhead().filter(|overhead| *overhead >= LEAST);
    measured.filter(|_| process.map().highest().is_some())
}

impl Policy for HawkEyePmu {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        let most = processes
            .iter()
            .filter_map(overhead)
            .max_by(f64::total_cmp)?;
        let process = processes
            .after(self.last)
            .find(|process| overhead(process).is_some_and(|overhead| overhead > most - ALIKE))?;
        self.last = Some(process.id());
        Some(Choice {
            process: process.id(),
            address: process.map().first()?,
        })
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        overhead(process)?;
        process.map().first()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::order;
    use super::super::tests::processes;
    use super::*;

    #[test]
    fn the_most_burdened_first_those_alike_in_turn_and_none_below_two_percent() {
        let map: [(&str, &[(u64, u16)]); 4] = [
            ("A", &[(2, 90), (1, 95)]),
            ("B", &[(2, 500), (1, 510)]),
            ("C", &[(2, 500), (1, 505)]),
            ("D", &[(1, 512)]),
        ];
        let mut processes = processes(&map);
        // Readings of perf's dtlb_load_misses.walk_active over cycles, made up of the kind that counters give.
        for (id, overhead) in [(0, 0.305), (1, 0.10), (2, 0.295), (3, 0.019)] {
            processes.entry(id).set_overhead(Some(overhead));
        }
        assert_eq!(
            order(&mut HawkEyePmu::default(), &mut processes, &map),
            "A1,C1,A2,C2,B1,B2"
        );
    }

    #[test]
    fn what_is_not_measured_is_not_promoted() {
        let map: [(&str, &[(u64, u16)]); 1] = [("A", &[(1, 500)])];
        let mut processes = processes(&map);
        assert_eq!(order(&mut HawkEyePmu::default(), &mut processes, &map), "");
    }
}
