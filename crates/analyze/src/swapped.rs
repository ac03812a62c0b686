//! The pages that are in swap, in the order in which they left memory: how much more memory would have kept one.
//!
//! Memory that keeps the pages used last (LRU) is a stack: a page that is used goes on top, and what is deeper than
//! memory reaches is in swap (Mattson et al., *Evaluation techniques for storage hierarchies*, IBM Systems Journal 9(2),
//! 1970). What leaves memory is its deepest page, so the part of the stack below it is known from the trace: the pages in
//! swap, those evicted last on top. With as much more memory as a page lies deep there, it would not have left.
//!
//! The kernel estimates the same by counting evictions (refault distance, `mm/workingset.c`); that counts a page that
//! left and came back meanwhile twice.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::recency::Recency;

/// Pages that lie side by side are kept side by side: programs go from one to the next.
const CHUNK_PAGES: u64 = 64;
/// Of a page that is not in swap.
const NOWHERE: u32 = u32::MAX;

/// Address space and number of a chunk.
type Chunk = (u32, u64);

/// Pages in swap.
#[derive(Default)]
pub(crate) struct SwappedPages {
    /// Where each chunk's places begin.
    chunks: HashMap<Chunk, u32, RandomState>,
    /// Each page's place in the order, by chunk.
    places: Vec<u32>,
    /// Beginnings of chunks that are no more.
    free: Vec<u32>,
    last: Option<(Chunk, u32)>,
    /// The pages, as indices of their places.
    order: Recency<u32>,
}

impl SwappedPages {
    /// The page left memory, as the one used longest ago.
    pub(crate) fn evicted(&mut self, space: u32, page: u64) {
        let slot = self.slot_or_new(space, page);
        // If it is there: it was given back and made anew meanwhile, and nothing tells of that.
        self.take_out(slot);
        let Self { places, order, .. } = self;
        let place = order.push(slot, |slot, place| places[slot as usize] = place);
        places[slot as usize] = place;
    }

    /// The page came back. Returns how many pages more of memory would have kept it; `None` if its eviction was not seen.
    pub(crate) fn came_back(&mut self, space: u32, page: u64) -> Option<u64> {
        let slot = self.slot(space, page)?;
        Some(self.take_out(slot)? as u64 + 1)
    }

    /// These pages are nobody's any more: they take no place in memory, however large.
    pub(crate) fn given_back(&mut self, space: u32, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let (first_chunk, last_chunk) = (first / CHUNK_PAGES, (end - 1) / CHUNK_PAGES);
        let chunks: Vec<(u64, u32)> = if last_chunk - first_chunk < self.chunks.len() as u64 {
            (first_chunk..=last_chunk)
                .filter_map(|number| Some((number, *self.chunks.get(&(space, number))?)))
                .collect()
        } else {
            self.chunks_of(space)
                .filter(|(number, _)| (first_chunk..=last_chunk).contains(number))
                .collect()
        };
        for (number, begin) in chunks {
            let from = first.max(number * CHUNK_PAGES) % CHUNK_PAGES;
            let up_to = (end - number * CHUNK_PAGES).min(CHUNK_PAGES);
            for offset in from..up_to {
                self.take_out(begin + offset as u32);
            }
        }
    }

    /// So is all of an address space that ended.
    pub(crate) fn ended(&mut self, space: u32) {
        let chunks: Vec<(u64, u32)> = self.chunks_of(space).collect();
        for (number, begin) in chunks {
            for offset in 0..CHUNK_PAGES as u32 {
                self.take_out(begin + offset);
            }
            self.chunks.remove(&(space, number));
            self.free.push(begin);
        }
        self.last = None;
    }

    fn chunks_of(&self, space: u32) -> impl Iterator<Item = (u64, u32)> {
        let of_space = self
            .chunks
            .iter()
            .filter(move |((other, _), _)| *other == space);
        of_space.map(|((_, number), begin)| (*number, *begin))
    }

    /// Takes a page out of the order, if it is there; returns how many left memory after it.
    fn take_out(&mut self, slot: u32) -> Option<usize> {
        let place = std::mem::replace(&mut self.places[slot as usize], NOWHERE);
        (place != NOWHERE).then(|| self.order.remove(place))
    }

    fn slot(&mut self, space: u32, page: u64) -> Option<u32> {
        let chunk = (space, page / CHUNK_PAGES);
        let begin = match self.last {
            Some((last, begin)) if last == chunk => begin,
            _ => *self.chunks.get(&chunk)?,
        };
        self.last = Some((chunk, begin));
        Some(begin + (page % CHUNK_PAGES) as u32)
    }

    fn slot_or_new(&mut self, space: u32, page: u64) -> u32 {
        if let Some(slot) = self.slot(space, page) {
            return slot;
        }
        let begin = self.free.pop().unwrap_or_else(|| {
            let begin = self.places.len();
            self.places.resize(begin + CHUNK_PAGES as usize, NOWHERE);
            begin as u32
        });
        self.chunks.insert((space, page / CHUNK_PAGES), begin);
        begin + (page % CHUNK_PAGES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Goes through pages under a memory that keeps the last used; returns how deep those lay that came back.
    fn depths(memory: usize, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (mut swapped, mut resident, mut found) =
            (SwappedPages::default(), VecDeque::new(), Vec::new());
        for page in pages {
            match resident.iter().position(|&other| other == page) {
                Some(at) => drop(resident.remove(at)),
                None => {
                    found.extend(swapped.came_back(1, page));
                    if resident.len() == memory {
                        let oldest = resident.pop_front().expect("there is one");
                        swapped.evicted(1, oldest);
                    }
                }
            }
            resident.push_back(page);
        }
        found
    }

    /// Misses on pages seen before, under a memory that keeps the last used.
    fn misses(memory: usize, pages: &[u64]) -> usize {
        depths(memory, pages.iter().copied()).len()
    }

    #[test]
    fn a_loop_needs_all_that_it_lacks() {
        let found = depths(60, (0..5).flat_map(|_| 0..100));
        assert_eq!(found.len(), 400);
        assert!(found.iter().all(|&depth| depth == 40), "{found:?}");
    }

    #[test]
    fn what_would_be_left_with_more_memory_is_what_is_left_with_more_memory() {
        let mut state = 3u64;
        let pages: Vec<u64> = (0..6000)
            .map(|step| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // A hot part, a sweep and anything at all.
                match state >> 62 {
                    0 => state >> 33 & 31,
                    1 => 100 + step % 90,
                    _ => 200 + (state >> 33) % 150,
                }
            })
            .collect();
        let found = depths(80, pages.iter().copied());
        for more in [1, 5, 20, 60, 100, 150, 180] {
            let left = found.iter().filter(|&&depth| depth > more).count();
            assert_eq!(left, misses(80 + more as usize, &pages), "{more} more");
        }
    }

    #[test]
    fn what_was_given_back_takes_no_memory() {
        let mut swapped = SwappedPages::default();
        for page in 0..10 {
            swapped.evicted(1, page);
        }
        swapped.evicted(2, 0);
        swapped.given_back(1, 5, 8);
        swapped.given_back(7, 0, 100);
        assert_eq!(swapped.came_back(1, 4), Some(1 + 2 + 1));
        swapped.ended(2);
        swapped.given_back(1, 9, u64::MAX);
        assert_eq!(swapped.came_back(1, 3), Some(1 + 1));
        assert_eq!(swapped.came_back(1, 6), None);
        assert_eq!(swapped.came_back(2, 0), None);
    }

    #[test]
    fn a_page_made_anew_counts_once() {
        let mut swapped = SwappedPages::default();
        swapped.evicted(1, 1);
        swapped.evicted(1, 2);
        swapped.evicted(1, 1);
        assert_eq!(swapped.came_back(1, 2), Some(2));
    }
}
