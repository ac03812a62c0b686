//! Whether clearing the bits of some pages would change which pages leave memory.
//!
//! Reclaim lets a page go at the end of a list unless it was accessed since it was there last. Whose bit was cleared meanwhile goes, and the others stay: pages that
//! are looked at more often than reclaim comes round would leave too early.

use std::time::Duration;
use std::time::Instant;

/// There is no reclaim to speak of if no more than one in so many pages has left in this time.
const CALM: Duration = Duration::from_millis(100);
const FEW: u64 = 256;
/// Else all pages in memory have to leave so many times between two looks,
const TURNOVERS: u64 = 4;
/// and so many times between two at a few pages beside these, or one at these and one at those.
const TURNOVERS_BESIDE: u64 = 1;

/// Evictions since the last look, and lately.
#[derive(Debug)]
pub(super) struct Turnover {
    /// By then there had been so many.
    seen: Instant,
    evictions: u64,
    /// In the time before that.
    lately: u64,
    at_last_look: u64,
    /// The same with looks beside.
    at_last_of_both: u64,
    last_look: Option<Instant>,
}

impl Turnover {
    pub(super) fn new() -> Self {
        Self {
            seen: Instant::now(),
            evictions: 0,
            lately: 0,
            at_last_look: 0,
            at_last_of_both: 0,
            last_look: None,
        }
    }

    /// By now there were so many evictions in all.
    pub(super) fn count(&mut self, evictions: u64, now: Instant) {
        if now.duration_since(self.seen) >= CALM {
            self.lately = evictions - self.evictions;
            (self.seen, self.evictions) = (now, evictions);
        }
    }

    /// Whether a look would change little, with so many pages in memory.
    pub(super) fn allows_look(&self, resident_pages: u64) -> bool {
        let is_calm = self.lately * FEW <= resident_pages;
        is_calm || self.evictions - self.at_last_look >= resident_pages * TURNOVERS
    }

    /// The same of a look at a few pages that nothing else is told by.
    pub(super) fn allows_look_beside(&self, resident_pages: u64) -> bool {
        self.evictions - self.at_last_of_both >= resident_pages * TURNOVERS_BESIDE
    }

    /// A look begins now.
    pub(super) fn looked(&mut self) {
        self.at_last_look = self.evictions;
        self.looked_beside();
    }

    /// A look at a few pages beside begins now.
    pub(super) fn looked_beside(&mut self) {
        self.at_last_of_both = self.evictions;
        self.last_look = Some(Instant::now());
    }

    /// Whether the last look began so long ago, if there was one: it may have been over at once, where nothing could be cleared.
    pub(super) fn is_long_ago(&self, time: Duration) -> bool {
        self.last_look.is_none_or(|begun| begun.elapsed() >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_wait_while_memory_is_exchanged() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut turnover = Turnover::new();
        assert!(turnover.allows_look(1000));
        turnover.count(100, after(1000));
        assert!(!turnover.allows_look(1000));
        turnover.count(103, after(1050)); // too soon to tell
        assert!(!turnover.allows_look(1000));
        turnover.count(103, after(1150));
        assert!(turnover.allows_look(1000), "it is over");
        turnover.count(4000, after(1300));
        assert!(turnover.allows_look(1000), "four times");
        assert!(turnover.is_long_ago(Duration::MAX), "there was none");
        turnover.looked();
        assert!(!turnover.allows_look(1000));
        assert!(!turnover.allows_look_beside(1000));
        turnover.count(5000, after(1500));
        assert!(turnover.allows_look_beside(1000) && !turnover.allows_look(1000));
        turnover.looked_beside();
        turnover.count(5500, after(1700));
        assert!(!turnover.allows_look_beside(1000), "once in a while");
        turnover.count(8000, after(1900));
        assert!(
            turnover.allows_look(1000),
            "four times since the last of these"
        );
        turnover.looked();
        assert!(turnover.is_long_ago(Duration::ZERO));
        assert!(!turnover.is_long_ago(Duration::MAX));
    }
}
