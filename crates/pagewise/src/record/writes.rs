//! Pages on their way to a slow swap device: their events wait for the completion, which tells the latency.

use std::collections::HashMap;

use pagewise_trace::Event;
use pagewise_trace::EventKind;

/// A write that takes longer has lost its completion: the latency stays unknown.
const OVERDUE_NS: u64 = 10_000_000_000;

/// What names a write: space, address of its first page, and the time of its submission.
type Write = (u32, u64, u64);

#[derive(Default)]
pub(super) struct Writes {
    /// Base pages by write.
    in_flight: HashMap<Write, u64>,
    done: Vec<(Write, u64, Option<u64>)>,
}

impl Writes {
    pub(super) fn submitted(&mut self, space: u32, address: u64, time_ns: u64, pages: u64) {
        self.in_flight.insert((space, address, time_ns), pages);
    }

    /// A completion of no known write is of one that was overdue.
    pub(super) fn completed(&mut self, space: u32, address: u64, time_ns: u64, latency_ns: u64) {
        let write = (space, address, time_ns);
        if let Some(pages) = self.in_flight.remove(&write) {
            self.done.push((write, pages, Some(latency_ns)));
        }
    }

    /// The events of all writes that need not be waited for any more at this time.
    pub(super) fn take_done(&mut self, now_ns: u64, page_bytes: u64) -> Vec<Event> {
        let done = &mut self.done;
        self.in_flight.retain(|write, pages| {
            let overdue = now_ns.saturating_sub(write.2) > OVERDUE_NS;
            if overdue {
                done.push((*write, *pages, None));
            }
            !overdue
        });
        let events =
            self.done
                .drain(..)
                .flat_map(|((space, address, time_ns), pages, latency_ns)| {
                    (0..pages).map(move |index| Event {
                        time_ns,
                        space,
                        tid: None,
                        kind: EventKind::PageWritten,
                        address: address + index * page_bytes,
                        latency_ns,
                        stack: None,
                    })
                });
        events.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(events: &[Event]) -> Vec<(u64, Option<u64>)> {
        events
            .iter()
            .map(|event| (event.address, event.latency_ns))
            .collect()
    }

    #[test]
    fn a_write_waits_for_its_completion() {
        let mut writes = Writes::default();
        writes.submitted(1, 0x1000, 50, 2);
        writes.submitted(1, 0x8000, 60, 1);
        assert_eq!(writes.take_done(100, 4096), []);
        writes.completed(1, 0x1000, 50, 70);
        writes.completed(2, 0x8000, 60, 70); // another space
        let events = writes.take_done(200, 4096);
        assert_eq!(summary(&events), [(0x1000, Some(70)), (0x2000, Some(70))]);
        assert!(events.iter().all(|event| event.time_ns == 50));
    }

    #[test]
    fn a_lost_completion_leaves_the_latency_unknown() {
        let mut writes = Writes::default();
        writes.submitted(1, 0x1000, 50, 1);
        let late = 51 + OVERDUE_NS;
        assert_eq!(summary(&writes.take_done(late, 4096)), [(0x1000, None)]);
        writes.completed(1, 0x1000, 50, late);
        assert_eq!(writes.take_done(u64::MAX, 4096), [], "told once");
    }
}
