//! How far a sweep is read ahead of, and in what chunks: not too short, not too long. Pure.

use super::object::PAGE;

/// A region is at least so many chunks.
const REGION_CHUNKS: usize = 16;
/// What is read ahead is at least so many chunks: while some wait for their turn, most is in memory.
pub(super) const LEAD_CHUNKS: usize = 16;
const SMALLEST_CHUNK: usize = 128 << 10;
const LARGEST_CHUNK: usize = 4 << 20;
/// To read a chunk takes between these times: shorter ones cost calls, longer ones come too late.
const SHORT_NS: u64 = 300_000;
const LONG_NS: u64 = 3_000_000;

/// How far to read ahead, bytes, multiples of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) chunk: usize,
    pub(super) lead: usize,
}

impl Sizes {
    /// In a region of so many bytes: chunks are small parts of it.
    pub(super) fn within(self, length: usize) -> Self {
        let most = whole_pages(length / REGION_CHUNKS).max(PAGE);
        Self {
            chunk: self.chunk.min(most),
            ..self
        }
    }

    /// After it took so long to read a chunk: the next is larger, or smaller.
    pub(super) fn fitted(self, took_ns: u64) -> Self {
        let chunk = match took_ns {
            ..SHORT_NS => self.chunk * 2,
            LONG_NS.. => self.chunk / 2,
            _ => return self,
        };
        let most = LARGEST_CHUNK.min(self.lead / LEAD_CHUNKS);
        let chunk = whole_pages(chunk.clamp(SMALLEST_CHUNK.min(most), most));
        Self {
            chunk: chunk.max(PAGE),
            ..self
        }
    }

    /// Of one of so many that read ahead at once: together they take no more memory than one alone.
    pub(super) fn shared(self, active: usize) -> Self {
        let whole = |bytes: usize| whole_pages(bytes).max(PAGE);
        let lead = whole(self.lead / active.max(1));
        Self {
            chunk: self.chunk.min(whole(lead / 4)),
            lead,
        }
    }
}

pub(super) fn whole_pages(bytes: usize) -> usize {
    bytes / PAGE * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_read_ahead_at_once_share_what_one_alone_has() {
        let alone = Sizes {
            chunk: 1 << 20,
            lead: 8 << 20,
        };
        assert_eq!((alone.shared(0), alone.shared(1)), (alone, alone));
        for active in [2, 5, 64] {
            let each = alone.shared(active);
            assert!(each.lead * active <= alone.lead && each.chunk <= each.lead / 4);
            assert_eq!((each.lead % PAGE, each.chunk % PAGE), (0, 0));
        }
    }

    #[test]
    fn a_chunk_takes_neither_too_long_nor_too_short_a_time() {
        // A device takes so long for each page, of which a program with so far a lead is ahead.
        let settled = |ns_a_page: u64, lead: usize| {
            let mut sizes = Sizes {
                chunk: 1 << 20,
                lead,
            };
            for _ in 0..10 {
                sizes = sizes.fitted((sizes.chunk / PAGE) as u64 * ns_a_page);
            }
            sizes.chunk
        };
        let far = 64 << 20;
        assert_eq!(settled(5000, far), 1 << 20, "1.3 ms");
        assert_eq!(settled(100, far), LARGEST_CHUNK);
        assert_eq!(settled(40_000, far), 256 << 10, "2.6 ms");
        assert_eq!(settled(1_000_000, far), SMALLEST_CHUNK);
        // In little memory, a sixteenth of what is read ahead, and a page at least.
        assert_eq!(settled(100, 1600 << 10), 100 << 10);
        assert_eq!(settled(100, PAGE), PAGE);
    }
}
