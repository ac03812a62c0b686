//! Linux' khugepaged: process by process in the order in which they came, each by address (mm/khugepaged.c, 6.12).

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;

/// Goes on where it stopped: through one process to its end, then to the next, then from the first again. With the default
/// `max_ptes_none` of 511, one base page in memory is enough.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    /// Process, and the address from which it is looked at further.
    at: Option<(u32, u64)>,
}

impl Policy for Linux {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        let current = self.at.and_then(|(id, _)| processes.get(id));
        let from = self.at.map_or(0, |at| at.1);
        let rest = current.and_then(|process| {
            let address = *process.candidates().range(from..).next()?;
            Some((process, address))
        });
        let (process, address) = rest.or_else(|| {
            let mut others = processes.after(current.map(Process::id));
            others.find_map(|process| Some((process, self.best_of(process)?)))
        })?;
        self.at = Some((process.id(), address + 1));
        Some(Choice {
            process: process.id(),
            address,
        })
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        process.candidates().first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::order;
    use super::super::tests::processes;
    use super::*;

    #[test]
    fn by_address_and_first_come_first_served_whatever_is_hot() {
        let map: [(&str, &[(u64, u16)]); 2] = [
            ("A", &[(1, 0), (2, 1), (3, 512)]),
            ("B", &[(1, 512), (2, 512)]),
        ];
        let mut processes = processes(&map);
        assert_eq!(
            order(&mut Linux::default(), &mut processes, &map),
            "A1,A2,A3,B1,B2"
        );
    }

    #[test]
    fn it_goes_on_where_it_stopped_also_if_that_process_has_ended() {
        let map: [(&str, &[(u64, u16)]); 3] =
            [("A", &[(1, 9), (2, 9)]), ("B", &[(1, 9)]), ("C", &[(1, 9)])];
        let mut processes = processes(&map);
        let mut policy = Linux::default();
        let first = policy.next(&processes).expect("a region");
        processes.entry(first.process).take(first.address);
        processes.remove(first.process);
        let next = policy.next(&processes).expect("a region");
        assert_eq!(next.process, 1);
    }
}
