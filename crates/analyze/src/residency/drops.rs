//! Pages that left memory without being written: a clean page still in the swap cache, or a page of a file.

use std::collections::HashMap;
use std::collections::VecDeque;

use pagewise_trace::PageState;
use pagewise_trace::Residency;
use pagewise_trace::SharedMemory;

use super::share::Before;

/// A page's entry names swap a little before the page is written: so long may that take.
const WRITE_PATIENCE_NS: u64 = 200_000_000;

/// Pages that are now in swap, and that were not when they were last seen.
#[derive(Clone, Copy, Debug)]
struct Swapped {
    since_ns: u64,
    until_ns: u64,
    start: u64,
    end: u64,
}

/// Counts drops.
#[derive(Debug)]
pub(super) struct Drops {
    page_bytes: u64,
    shared_memory: SharedMemory,
    of_files: u64,
    of_shared_memory: u64,
    clean: u64,
    waiting: VecDeque<Swapped>,
    /// By address only: of memory shared after a fork, the write is told of one of the family.
    last_write: HashMap<u64, u64>,
}

impl Drops {
    pub(super) fn new(page_bytes: u64, shared_memory: SharedMemory) -> Self {
        Self {
            page_bytes,
            shared_memory,
            of_files: 0,
            of_shared_memory: 0,
            clean: 0,
            waiting: VecDeque::new(),
            last_write: HashMap::new(),
        }
    }

    /// A range has changed; `before` was in memory, when it was last seen at `since_ns`.
    pub(super) fn changed(&mut self, row: &Residency, since_ns: u64, before: Vec<Before>) {
        for part in before {
            match row.state {
                PageState::Swapped => self.waiting.push_back(Swapped {
                    since_ns,
                    until_ns: row.time_ns.saturating_add(WRITE_PATIENCE_NS),
                    start: part.start,
                    end: part.end,
                }),
                // Other pages do not vanish by themselves: the program gave them up.
                PageState::Absent if part.file && row.mapped == Some(true) => {
                    let shared = self.shared_memory.bytes_in(row.space, part.start, part.end);
                    // Perhaps to swap, where only the kernel finds them.
                    self.of_shared_memory += shared / self.page_bytes;
                    self.of_files += (part.end - part.start - shared) / self.page_bytes;
                }
                _ => {}
            }
        }
    }

    /// How many pages of shared memory have left memory.
    pub(super) fn of_shared_memory(&self) -> u64 {
        self.of_shared_memory
    }

    /// All changes are known: now for the writes, in order of time.
    pub(super) fn sort(&mut self) {
        self.waiting
            .make_contiguous()
            .sort_by_key(|swapped| swapped.until_ns);
    }

    /// A page was written.
    pub(super) fn written(&mut self, address: u64, time_ns: u64) {
        self.settle(time_ns);
        self.last_write.insert(address, time_ns);
    }

    /// Decides on what no write to come can explain.
    fn settle(&mut self, now_ns: u64) {
        while let Some(&swapped) = self.waiting.front()
            && swapped.until_ns < now_ns
        {
            self.waiting.pop_front();
            let pages = (swapped.start..swapped.end).step_by(self.page_bytes as usize);
            let clean = |page: &u64| {
                let write = self.last_write.get(page);
                write.is_none_or(|&time_ns| time_ns < swapped.since_ns)
            };
            self.clean += pages.filter(clean).count() as u64;
        }
    }

    /// How many there were.
    pub(super) fn finish(mut self) -> u64 {
        self.settle(u64::MAX);
        self.of_files + self.clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const SECOND: u64 = 1_000_000_000;

    fn row(time_ns: u64, state: PageState, mapped: Option<bool>) -> Residency {
        Residency {
            time_ns,
            space: 1,
            address: 0,
            bytes: 4 * PAGE,
            state,
            file: None,
            mapped,
        }
    }

    fn before(file: bool) -> Vec<Before> {
        vec![Before {
            start: 0,
            end: 4 * PAGE,
            file,
        }]
    }

    #[test]
    fn swapped_without_a_write_since_it_was_seen_is_dropped() {
        let mut drops = Drops::new(PAGE, SharedMemory::default());
        drops.changed(
            &row(10 * SECOND, PageState::Swapped, None),
            9 * SECOND,
            before(false),
        );
        drops.sort();
        drops.written(0, 8 * SECOND); // before: it has come back since, and is clean
        drops.written(PAGE, 9 * SECOND + 1);
        drops.written(2 * PAGE, 10 * SECOND + 1); // on its way
        drops.written(3 * PAGE, 11 * SECOND); // too late to be this time's
        assert_eq!(drops.finish(), 2);
    }

    #[test]
    fn pages_of_shared_memory_may_be_in_swap() {
        let shared = SharedMemory::of(1, &[(PAGE, 3 * PAGE)]);
        let mut drops = Drops::new(PAGE, shared);
        drops.changed(&row(1, PageState::Absent, Some(true)), 0, before(true));
        assert_eq!(drops.of_shared_memory(), 2);
        assert_eq!(drops.finish(), 2);
    }

    #[test]
    fn pages_of_files_are_dropped_while_mapped() {
        let mut drops = Drops::new(PAGE, SharedMemory::default());
        for (file, mapped) in [
            (true, Some(true)),
            (true, Some(false)),
            (true, None),
            (false, Some(true)),
        ] {
            drops.changed(&row(1, PageState::Absent, mapped), 0, before(file));
        }
        assert_eq!(drops.finish(), 4);
    }
}
