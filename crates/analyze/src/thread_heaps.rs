//! The heaps that the C library makes for further threads (`new_heap`, malloc/arena.c of glibc 2.36): mappings of 64 MiB each, at
//! multiples of that, of which it uses more and more from their start on. It maps them without anybody telling us, so that they are known
//! by the blocks in them.

use std::collections::BTreeMap;

use crate::address_map::Range;

/// `HEAP_MAX_SIZE`, in bytes.
pub(crate) const HEAP_BYTES: u64 = 64 << 20;

/// Those of one address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadHeaps {
    /// By start: each one's number, counted from 1, and up to where blocks were seen in it.
    heaps: BTreeMap<u64, (u64, u64)>,
}

/// Where the heap would start that has this address.
pub(crate) fn start_of(address: u64) -> u64 {
    address / HEAP_BYTES * HEAP_BYTES
}

impl ThreadHeaps {
    pub(crate) fn is_known(&self, address: u64) -> bool {
        self.heaps.contains_key(&start_of(address))
    }

    /// One more, of this object: all of its room. Nothing in it is known to be used yet.
    pub(crate) fn add(&mut self, address: u64, object: usize) -> Range {
        let start = start_of(address);
        let number = self.heaps.len() as u64 + 1;
        self.heaps.insert(start, (number, start));
        Range {
            allocation: number,
            ..Range::whole(start, start.saturating_add(HEAP_BYTES), object)
        }
    }

    /// A block lies in one that is known: what of the heap is in use in addition, and how much of the object is right beside that, 0 or 1;
    /// `None`: nothing.
    pub(crate) fn grow(&mut self, block: &Range, object: usize) -> Option<(Range, usize)> {
        let start = start_of(block.start);
        let is_below = self
            .heaps
            .range(..start)
            .next_back()
            .is_some_and(|(below, _)| below + HEAP_BYTES == start);
        let (number, used_to) = self.heaps.get_mut(&start)?;
        let end = block.end.min(start.saturating_add(HEAP_BYTES));
        if end <= *used_to {
            return None;
        }
        let piece = Range {
            allocation: *number,
            origin: start,
            whole_bytes: HEAP_BYTES,
            ..Range::whole(*used_to, end, object)
        };
        let beside = usize::from(is_below || *used_to > start);
        *used_to = end;
        Some((piece, beside))
    }

    /// Takes out those that reach between two addresses: the room of each, and what of it was in use.
    pub(crate) fn remove(&mut self, start: u64, end: u64, object: usize) -> Vec<(Range, Range)> {
        let starts: Vec<u64> = self
            .heaps
            .range(start_of(start)..end)
            .map(|(&start, _)| start)
            .collect();
        let taken = starts.into_iter().filter_map(|start| {
            let (number, used_to) = self.heaps.remove(&start)?;
            let part = |end| Range {
                allocation: number,
                whole_bytes: HEAP_BYTES,
                ..Range::whole(start, end, object)
            };
            Some((part(start.saturating_add(HEAP_BYTES)), part(used_to)))
        });
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7f00_0000_0000;

    fn block(offset: u64) -> Range {
        Range::whole(BASE + offset, BASE + offset + 100, 0)
    }

    #[test]
    fn a_heap_grows_to_the_last_block_seen_in_it() {
        let mut heaps = ThreadHeaps::default();
        assert!(heaps.grow(&block(5000), 3).is_none());
        let room = heaps.add(BASE + 5000, 3);
        assert_eq!(
            (room.start, room.end, room.allocation),
            (BASE, BASE + HEAP_BYTES, 1)
        );
        let grown = |heaps: &mut ThreadHeaps, offset| {
            heaps
                .grow(&block(offset), 3)
                .map(|(piece, beside)| (piece.start - BASE, piece.end - BASE, beside))
        };
        assert_eq!(grown(&mut heaps, 5000), Some((0, 5100, 0)));
        assert_eq!(grown(&mut heaps, 4000), None);
        assert_eq!(grown(&mut heaps, 9000), Some((5100, 9100, 1)));
        heaps.add(BASE + HEAP_BYTES, 3);
        let next = grown(&mut heaps, HEAP_BYTES + 50);
        assert_eq!(
            next,
            Some((HEAP_BYTES, HEAP_BYTES + 150, 1)),
            "beside the first"
        );
        assert!(heaps.is_known(BASE + 1) && !heaps.is_known(BASE - 1));
    }

    #[test]
    fn what_turns_out_to_be_something_else_is_taken_out() {
        let mut heaps = ThreadHeaps::default();
        heaps.add(BASE, 3);
        heaps.grow(&block(5000), 3);
        heaps.add(BASE + 4 * HEAP_BYTES, 3);
        let taken = heaps.remove(BASE + 100, BASE + HEAP_BYTES, 3);
        let ends: Vec<(u64, u64)> = taken
            .iter()
            .map(|(room, used)| (room.end - BASE, used.end - BASE))
            .collect();
        assert_eq!(ends, [(HEAP_BYTES, 5100)]);
        assert!(!heaps.is_known(BASE) && heaps.is_known(BASE + 4 * HEAP_BYTES));
    }
}
