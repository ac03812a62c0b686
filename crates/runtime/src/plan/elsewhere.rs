//! How much of memory is in use elsewhere, beside what is swept. It raises no faults, as it is used all the time, and no rule need be about
//! it: a tree of small blocks, say. Pure.
//!
//! The kernel evicts what was used longest ago, so that once as many pages have come as there is memory, what is still there was used since,
//! in about: of what is freed and touched anew, nothing had to leave. While something is dropped behind sweeps nothing else has to leave
//! either, and nothing can be told.

/// However much is in use elsewhere, so large a part of the room is left: in none, nothing could be told of what comes back.
const LEAST_ROOM: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    /// Pages that had come when something was last dropped.
    since: u64,
    /// Pages; `None`: that was never told.
    used: Option<u64>,
}

impl Elsewhere {
    pub(super) const NEW: Self = Self {
        since: 0,
        used: None,
    };

    /// Something is dropped now, or may be.
    pub(super) fn note_dropping(&mut self, now: u64) {
        self.since = now;
    }

    /// Whether it is worth to look how many pages are there.
    pub(super) fn is_due(&self, now: u64, memory: u64) -> bool {
        self.used.is_some() || self.is_all_used(now, memory)
    }

    fn is_all_used(&self, now: u64, memory: u64) -> bool {
        now.saturating_sub(self.since) >= memory
    }

    /// So many pages are in memory elsewhere, of so many that it holds.
    pub(super) fn note(&mut self, now: u64, there: u64, memory: u64) {
        self.used = match self.used {
            _ if self.is_all_used(now, memory) => Some(there),
            // No more than are there.
            known => known.map(|used| used.min(there)),
        };
    }

    /// What of so much room is left beside it.
    pub(super) fn left(&self, room: u64) -> u64 {
        let left = room.saturating_sub(self.used.unwrap_or(0));
        left.max(room / LEAST_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_while_all_of_memory_came_anew_is_in_use() {
        let mut elsewhere = Elsewhere::NEW;
        assert_eq!(elsewhere.left(1000), 1000);
        assert!(!elsewhere.is_due(900, 1000) && elsewhere.is_due(1000, 1000));
        elsewhere.note(900, 400, 1000);
        assert_eq!(
            elsewhere.left(1000),
            1000,
            "it may be what was there before"
        );
        elsewhere.note(1000, 300, 1000);
        assert_eq!(elsewhere.left(1000), 700);
        // While something is dropped, what is of no use stays, too,
        elsewhere.note_dropping(3000);
        elsewhere.note(3500, 600, 1000);
        assert_eq!(elsewhere.left(1000), 700);
        // but what is gone is not in use.
        elsewhere.note(3600, 200, 1000);
        assert_eq!(elsewhere.left(1000), 800);
        elsewhere.note(4000, 600, 1000);
        assert!(elsewhere.is_due(4100, 1000));
        assert_eq!(elsewhere.left(504), 63, "never none");
    }
}
