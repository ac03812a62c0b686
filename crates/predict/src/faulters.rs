//! For which threads pages came back: what several threads or processes go through in parts of their own is no sweep of one of them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Whom a page came back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faulter {
    One(u32),
    /// Several threads, or it is not known whom.
    Several,
}

/// The threads that pages came back for.
#[derive(Debug, Default)]
pub(crate) struct Faulters {
    /// By a page's key.
    of_pages: HashMap<u64, Faulter, RandomState>,
    /// Of each thread, the times of its first fault and its last, ns.
    spans: HashMap<u32, (u64, u64), RandomState>,
}

impl Faulters {
    /// The page of this key came back for a thread.
    pub(crate) fn note(&mut self, key: u64, thread: Option<u32>, time_ns: u64) {
        let faulter = thread.map_or(Faulter::Several, Faulter::One);
        let known = self.of_pages.entry(key).or_insert(faulter);
        if *known != faulter {
            *known = Faulter::Several;
        }
        if let Some(thread) = thread {
            let (first, last) = self.spans.entry(thread).or_insert((time_ns, time_ns));
            (*first, *last) = ((*first).min(time_ns), (*last).max(time_ns));
        }
    }

    /// Whether two threads that ran side by side each wait for one of these pages, and not for the other's.
    pub(crate) fn are_apart(&self, key: u64, other: u64) -> bool {
        if self.spans.len() < 2 {
            return false;
        }
        let of = |key: u64| match self.of_pages.get(&key) {
            Some(Faulter::One(thread)) => Some(*thread),
            _ => None,
        };
        let Some((one, other)) = of(key).zip(of(other)) else {
            return false;
        };
        let ((from, until), (other_from, other_until)) = (self.spans[&one], self.spans[&other]);
        one != other && from < other_until && other_from < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_that_two_threads_wait_for_side_by_side() {
        let mut faulters = Faulters::default();
        let faults = [
            (1, Some(7), 10),
            (2, Some(8), 11),
            (3, Some(8), 12),
            (3, Some(7), 13),
            (4, None, 14),
            (1, Some(7), 15),
            // When it began, the others had ended.
            (5, Some(9), 20),
            (5, Some(9), 21),
        ];
        for (key, thread, time) in faults {
            faulters.note(key, thread, time);
        }
        assert!(faulters.are_apart(1, 2) && faulters.are_apart(2, 1));
        assert!(!faulters.are_apart(1, 1), "one thread");
        assert!(!faulters.are_apart(1, 3), "both wait for it");
        assert!(!faulters.are_apart(1, 4), "nobody knows who waited");
        assert!(!faulters.are_apart(1, 5), "one after the other");
        assert!(!faulters.are_apart(1, 6), "it never came back");
    }
}
