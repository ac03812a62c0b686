//! Whether a sweep waits at all, seen before anything is done for it. A program whose arrays just do not fit finds most of each in
//! memory again, round after round: who drops behind such a sweep makes the program wait for all of it in place of a part.

use super::pace::Pace;
use super::sweep::Progress;

/// Pages of a look, at most, and at most this share of the object.
const MOST_PAGES: u64 = 1024;
const SHARE: u64 = 4;
/// Of the pages that a sweep passes, at least one in so many raises a fault where it waits for all.
const PAGES_A_FAULT: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    wanted: u64,
    seen: Pace,
    faults: u64,
    /// How fast it was in the last look.
    pace: Progress,
}

impl Watch {
    /// Of an object of so many pages.
    pub(super) fn new(pages: u64) -> Self {
        let wanted = wanted(pages);
        Self {
            wanted,
            seen: Pace::over(wanted),
            faults: 0,
            pace: Progress { pages: 0, ns: 0 },
        }
    }

    /// The object has so many pages from here on. What was seen counts: one that grows all the time would never be seen else.
    pub(super) fn set_object(&mut self, pages: u64) {
        self.wanted = wanted(pages);
    }

    /// A fault, after so many pages. `Some`, once enough was seen: whether most pages raised none.
    pub(super) fn note(&mut self, progress: Progress) -> Option<bool> {
        self.seen.add(progress);
        self.faults += 1;
        if self.seen.pages() < self.wanted {
            return None;
        }
        let is_mostly_there = self.faults * PAGES_A_FAULT < self.seen.pages();
        self.pace = self.seen.steady();
        (self.seen, self.faults) = (Pace::over(self.wanted), 0);
        Some(is_mostly_there)
    }

    /// How fast the sweep was by itself, when last enough was seen.
    pub(super) fn pace(&self) -> Progress {
        self.pace
    }
}

/// Pages of a look at an object of so many.
fn wanted(pages: u64) -> u64 {
    (pages / SHARE).clamp(1, MOST_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(watch: &mut Watch, pages_a_fault: u64) -> (u64, bool) {
        let step = Progress {
            pages: pages_a_fault,
            ns: 1,
        };
        let mut faults = 0;
        loop {
            faults += 1;
            if let Some(is_mostly_there) = watch.note(step) {
                return (faults, is_mostly_there);
            }
        }
    }

    #[test]
    fn a_sweep_that_seldom_waits_is_told_from_one_that_waits_for_each_page() {
        let mut watch = Watch::new(1 << 20);
        assert_eq!(seen(&mut watch, 10), (103, true));
        assert_eq!(seen(&mut watch, 1), (1024, false));
        assert_eq!(seen(&mut watch, 2), (512, false));
    }

    #[test]
    fn an_object_that_grows_with_each_fault_is_seen() {
        let mut watch = Watch::new(400);
        let step = Progress { pages: 1, ns: 1 };
        let faults = (1..).find(|fault| {
            watch.set_object(400 + fault);
            watch.note(step).is_some()
        });
        assert_eq!(faults, Some(133));
    }

    #[test]
    fn how_fast_it_is_by_itself_is_seen_with_it() {
        let mut watch = Watch::new(1 << 20);
        seen(&mut watch, 2);
        let pace = watch.pace();
        assert!(pace.ns > 0 && pace.pages == 2 * pace.ns, "{pace:?}");
    }

    #[test]
    fn of_a_small_object_a_part_is_enough() {
        assert_eq!(seen(&mut Watch::new(400), 1), (100, false));
        assert_eq!(seen(&mut Watch::new(1), 3), (1, true));
    }
}
