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
/// Memory is filled once one in so many pages has come back.
const COME_BACK: u64 = 64;
/// Looks before that tell nothing of later, and a short run would have no other: the first one after it waits until all pages have left so many times since.
const TURNOVERS_SINCE_FILLED: u64 = 1;

/// Pages that left and came back, so far.
#[derive(Clone, Copy, Debug)]
pub(in crate::record) struct Exchanged {
    pub(in crate::record) evictions: u64,
    pub(in crate::record) swap_ins: u64,
}

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
    /// Evictions until memory was filled.
    until_filled: Option<u64>,
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
            until_filled: None,
            last_look: None,
        }
    }

    /// By now there were so many in all, with about so many pages in memory.
    pub(super) fn count(&mut self, exchanged: Exchanged, resident_pages: u64, now: Instant) {
        let Exchanged {
            evictions,
            swap_ins,
        } = exchanged;
        if now.duration_since(self.seen) >= CALM {
            self.lately = evictions - self.evictions;
            (self.seen, self.evictions) = (now, evictions);
            if self.until_filled.is_none() && swap_ins * COME_BACK > resident_pages {
                self.until_filled = Some(evictions);
            }
        }
    }

    /// Whether a look would change little, with so many pages in memory.
    pub(super) fn allows_look(&self, resident_pages: u64) -> bool {
        let is_calm = self.lately * FEW <= resident_pages;
        is_calm
            || self.evictions - self.at_last_look >= resident_pages * TURNOVERS
            || self.is_first_since_filled(resident_pages)
    }

    fn is_first_since_filled(&self, resident_pages: u64) -> bool {
        self.until_filled.is_some_and(|until| {
            let since = self.evictions - until;
            self.at_last_look < until && since >= resident_pages * TURNOVERS_SINCE_FILLED
        })
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

    fn exchanged(evictions: u64, swap_ins: u64) -> Exchanged {
        Exchanged {
            evictions,
            swap_ins,
        }
    }

    #[test]
    fn looks_wait_while_memory_is_exchanged() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut turnover = Turnover::new();
        let count = |turnover: &mut Turnover, evictions, ms| {
            turnover.count(exchanged(evictions, 10), 1000, after(ms));
        };
        assert!(turnover.allows_look(1000));
        count(&mut turnover, 100, 1000);
        turnover.looked();
        assert!(!turnover.allows_look(1000));
        count(&mut turnover, 103, 1050); // too soon to tell
        assert!(!turnover.allows_look(1000));
        count(&mut turnover, 103, 1150);
        assert!(turnover.allows_look(1000), "it is over");
        count(&mut turnover, 4100, 1300);
        assert!(turnover.allows_look(1000), "four times");
        assert!(!turnover.is_long_ago(Duration::MAX));
        turnover.looked();
        assert!(!turnover.allows_look(1000));
        assert!(!turnover.allows_look_beside(1000));
        count(&mut turnover, 5100, 1500);
        assert!(turnover.allows_look_beside(1000) && !turnover.allows_look(1000));
        turnover.looked_beside();
        count(&mut turnover, 5600, 1700);
        assert!(!turnover.allows_look_beside(1000), "once in a while");
        count(&mut turnover, 8100, 1900);
        assert!(
            turnover.allows_look(1000),
            "four times since the last of these"
        );
        turnover.looked();
        assert!(turnover.is_long_ago(Duration::ZERO));
    }

    #[test]
    fn the_first_look_at_filled_memory_comes_soon() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut turnover = Turnover::new();
        assert!(turnover.is_long_ago(Duration::MAX), "there was none");
        turnover.looked();
        turnover.count(exchanged(1200, 15), 1000, after(200));
        turnover.count(exchanged(1300, 16), 1000, after(400));
        turnover.count(exchanged(2299, 900), 1000, after(600));
        assert!(!turnover.allows_look(1000), "what is hot may not be back");
        turnover.count(exchanged(2300, 901), 1000, after(800));
        assert!(turnover.allows_look(1000));
        turnover.looked();
        turnover.count(exchanged(4000, 2600), 1000, after(1000));
        assert!(!turnover.allows_look(1000), "it is not the first any more");
        turnover.count(exchanged(6300, 5000), 1000, after(1200));
        assert!(turnover.allows_look(1000));
    }
}
