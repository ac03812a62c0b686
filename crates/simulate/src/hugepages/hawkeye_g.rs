//! HawkEye-G: the hottest region of all processes first (Panwar, Bansal, Gopinath, ASPLOS 2019, sections 3.3 and 3.4).

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;

/// Head to tail from the highest bucket that is not empty, round-robin between the processes that have that bucket.
#[derive(Debug, Default)]
pub(crate) struct HawkEyeG {
    /// Bucket and process of the last choice: within a bucket the turn goes on, in another it begins anew.
    last: Option<(usize, u32)>,
}

impl Policy for HawkEyeG {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        let highest = processes
            .iter()
            .filter_map(|process| process.map().highest())
            .max()?;
        let turn = self
            .last
            .filter(|last| last.0 == highest)
            .map(|last| last.1);
        let process = processes
            .after(turn)
            .find(|process| process.map().highest() == Some(highest))?;
        self.last = Some((highest, process.id()));
        Some(Choice {
            process: process.id(),
            address: process.map().first()?,
        })
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        process.map().first()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::order;
    use super::super::tests::processes;
    use super::*;

    /// The map of the paper's figure is a picture; this one gives the order its text tells.
    #[test]
    fn the_papers_example_is_promoted_in_the_papers_order() {
        // Within a bucket what enters last is the head: so from the last to the first.
        let map: [(&str, &[(u64, u16)]); 3] = [
            ("A", &[(3, 110), (2, 120), (1, 470)]),
            ("B", &[(4, 210), (3, 220), (2, 330), (1, 480)]),
            ("C", &[(5, 140), (4, 310), (3, 320), (2, 460), (1, 490)]),
        ];
        let mut processes = processes(&map);
        assert_eq!(
            order(&mut HawkEyeG::default(), &mut processes, &map),
            "A1,B1,C1,C2,B2,C3,C4,B3,B4,A2,C5,A3"
        );
    }

    #[test]
    fn the_turn_goes_on_between_calls_and_an_idle_region_is_never_taken() {
        let map: [(&str, &[(u64, u16)]); 2] = [
            ("A", &[(3, 0), (2, 20), (1, 500)]),
            ("B", &[(2, 500), (1, 500)]),
        ];
        let mut processes = processes(&map);
        assert_eq!(
            order(&mut HawkEyeG::default(), &mut processes, &map),
            "A1,B1,B2,A2"
        );
    }
}
