//! What happened how often: to an object, or to all.

use std::iter::Sum;

use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::WriteLook;

use crate::counted::Share;

/// Of fewer looks a share says little.
const LEAST_LOOKS: u64 = 16;

/// Counts of events, and the time they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that found a swap entry.
    pub swap_ins: u64,
    /// Of these, those whose page was in the swap cache.
    pub swap_cache_hits: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Pages sent to the swap device.
    pub pages_written: u64,
    /// Pages kept without input or output because they are all zero.
    pub zero_filled: u64,
    /// Looks at its pages when up to half of what memory holds had come in after them.
    pub write_looks: u64,
    /// Of these, those that found the page written.
    pub found_written: u64,
    /// Time spent in swap-in faults of known latency, ns, summed over threads.
    pub stall_ns: u64,
}

impl Counts {
    /// Counts one event.
    pub fn add(&mut self, event: &Event) {
        match event.kind {
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                self.swap_ins += 1;
                self.swap_cache_hits += u64::from(event.kind == EventKind::SwapCacheHit);
                let waited = event.latency_ns.unwrap_or(0);
                self.stall_ns = self.stall_ns.saturating_add(waited);
            }
            EventKind::Eviction => self.evictions += 1,
            EventKind::PageWritten => self.pages_written += 1,
            EventKind::ZeroFilled => self.zero_filled += 1,
        }
    }
}

impl Counts {
    /// Counts a look at a page that had come back.
    pub(crate) fn add_look(&mut self, look: &WriteLook) {
        self.write_looks += 1;
        self.found_written += u64::from(look.written);
    }

    /// The share of pages that the program writes while they are in memory, 0 to 1, of those that came back or left: by looks at
    /// them, and without any by what had to go to the swap device, or was all zero, as the others still had their place in swap. Where
    /// `swap_is_memory`, all lose that as they come in, and only looks tell. `None`: too few were seen. Writes are counted when they
    /// are sent, and evictions when the page is gone, so that at the end of a recording there may be more of the former.
    pub fn write_share(&self, swap_is_memory: bool) -> Option<f64> {
        if self.write_looks >= LEAST_LOOKS {
            return Some(self.found_written as f64 / self.write_looks as f64);
        }
        let written = self.pages_written + self.zero_filled;
        let is_told = self.evictions > 0 && !swap_is_memory;
        is_told.then(|| (written as f64 / self.evictions as f64).min(1.0))
    }

    /// Pages that left memory, as far as that is known: not where some were read back that nobody saw leave. So it is with shared
    /// memory, whose evictions the kernel lays to nobody.
    pub fn known_evictions(&self) -> Option<u64> {
        let left = self.evictions > 0 || self.swap_ins == self.swap_cache_hits;
        left.then_some(self.evictions)
    }

    /// The same without swap-ins.
    pub(crate) fn but_swap_ins(self) -> Self {
        Self {
            swap_ins: 0,
            swap_cache_hits: 0,
            stall_ns: 0,
            ..self
        }
    }

    /// What is left without these, which are among them.
    pub(crate) fn less(self, others: &Self) -> Self {
        Self {
            swap_ins: self.swap_ins.saturating_sub(others.swap_ins),
            swap_cache_hits: self.swap_cache_hits.saturating_sub(others.swap_cache_hits),
            evictions: self.evictions.saturating_sub(others.evictions),
            pages_written: self.pages_written.saturating_sub(others.pages_written),
            zero_filled: self.zero_filled.saturating_sub(others.zero_filled),
            write_looks: self.write_looks.saturating_sub(others.write_looks),
            found_written: self.found_written.saturating_sub(others.found_written),
            stall_ns: self.stall_ns.saturating_sub(others.stall_ns),
        }
    }

    /// Counts events that were counted by region already.
    pub(crate) fn add_share(&mut self, share: &Share) {
        match share.kind {
            EventKind::SwapIn => self.swap_ins += share.events,
            EventKind::SwapCacheHit => {
                self.swap_ins += share.events;
                self.swap_cache_hits += share.events;
            }
            EventKind::Eviction => self.evictions += share.events,
            EventKind::PageWritten => self.pages_written += share.events,
            EventKind::ZeroFilled => self.zero_filled += share.events,
        }
        if matches!(share.kind, EventKind::SwapIn | EventKind::SwapCacheHit) {
            self.stall_ns = self.stall_ns.saturating_add(share.latency_ns);
        }
    }
}

impl<'counts> Sum<&'counts Counts> for Counts {
    fn sum<I: Iterator<Item = &'counts Counts>>(all: I) -> Self {
        all.fold(Self::default(), |sum, more| Self {
            swap_ins: sum.swap_ins + more.swap_ins,
            swap_cache_hits: sum.swap_cache_hits + more.swap_cache_hits,
            evictions: sum.evictions + more.evictions,
            pages_written: sum.pages_written + more.pages_written,
            zero_filled: sum.zero_filled + more.zero_filled,
            write_looks: sum.write_looks + more.write_looks,
            found_written: sum.found_written + more.found_written,
            stall_ns: sum.stall_ns.saturating_add(more.stall_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_had_left() {
        let evictions = |swap_ins, swap_cache_hits, evictions| {
            let counts = Counts {
                swap_ins,
                swap_cache_hits,
                evictions,
                ..Counts::default()
            };
            counts.known_evictions()
        };
        assert_eq!(evictions(0, 0, 0), Some(0));
        assert_eq!(evictions(3, 0, 7), Some(7));
        assert_eq!(evictions(3, 3, 0), Some(0), "they were unmapped only");
        assert_eq!(evictions(3, 2, 0), None);
    }

    #[test]
    fn what_was_written_is_a_share_of_what_left() {
        let share = |evictions, pages_written, zero_filled| {
            let counts = Counts {
                evictions,
                pages_written,
                zero_filled,
                ..Counts::default()
            };
            assert_eq!(counts.write_share(true), None, "all that leave are sent");
            counts.write_share(false)
        };
        assert_eq!(share(8, 3, 1), Some(0.5));
        assert_eq!(share(8, 0, 0), Some(0.0));
        assert_eq!(share(8, 9, 0), Some(1.0));
        assert_eq!(share(0, 1, 0), None);
    }

    #[test]
    fn looks_tell_what_was_written_where_there_are_enough() {
        let looked = |write_looks, found_written| Counts {
            evictions: 100,
            pages_written: 100,
            write_looks,
            found_written,
            ..Counts::default()
        };
        assert_eq!(looked(40, 10).write_share(true), Some(0.25));
        assert_eq!(looked(40, 10).write_share(false), Some(0.25));
        assert_eq!(looked(LEAST_LOOKS - 1, 1).write_share(true), None);
        assert_eq!(looked(LEAST_LOOKS - 1, 1).write_share(false), Some(1.0));
    }
}
