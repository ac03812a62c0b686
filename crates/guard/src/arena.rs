//! The one range of addresses that objects are in: chunks of one class of slots each, or parts of a large object.
//!
//! A slot is its pages and a guard behind them; the slot before ends with a guard, too. A large object begins with a chunk
//! and has at least one page of guard behind it; its size is in the words of the second slot of its first chunk.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use crate::page;
use crate::placement::Placed;
use crate::placement::Side;
use crate::slot::Facts;
use crate::slot::Slot;

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 2 << 20;
/// Slots of a chunk, at most.
pub(crate) const SLOTS: usize = 256;
/// The first one stays behind a guard: what is before the arena's first object is the arena's, too.
pub(crate) const FIRST_CHUNK: usize = 1;
/// 1 TiB of chunks.
pub(crate) const MOST_CHUNKS: usize = 1 << 19;
/// Pages of an object, by class. What is longer is large.
pub(crate) const CLASS_PAGES: [usize; 5] = [1, 2, 4, 8, 16];
/// Pages from which on an object is large.
pub(crate) const LARGE_PAGES: usize = CLASS_PAGES[CLASS_PAGES.len() - 1] + 1;

/// Slots of a class are found among pages by a multiplication: how many of these there are in 2 to this power of pages, rounded up.
const FRACTION_BITS: u32 = 16;
const FRACTIONS: [usize; CLASS_PAGES.len()] = {
    let mut fractions = [0; CLASS_PAGES.len()];
    let mut class = 0;
    while class < CLASS_PAGES.len() {
        fractions[class] = (1usize << FRACTION_BITS).div_ceil(CLASS_PAGES[class] + 1);
        class += 1;
    }
    fractions
};

/// How many whole slots of a class so many pages hold, of no more than a chunk.
fn whole_slots(class: usize, pages: usize) -> usize {
    (pages * FRACTIONS[class]) >> FRACTION_BITS
}

/// What a chunk is for.
pub(crate) const UNUSED: u8 = 0;
/// The first chunk of a large object.
pub(crate) const LARGE: u8 = 254;
/// A further one: the link of its first slot is the number of the first chunk.
pub(crate) const REST: u8 = 255;

/// Number of a slot: its chunk and which of it.
pub(crate) type Number = u32;

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where its pages begin.
    pub(crate) begin: usize,
    /// Where its guard begins.
    pub(crate) guard: usize,
    /// Where the next slot begins.
    pub(crate) end: usize,
}

/// Chunks and the words of their slots. Copied freely: all of it lives as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Arena {
    /// A multiple of [`CHUNK`].
    pub(crate) base: usize,
    pub(crate) chunks: usize,
    pub(crate) slots: *const Slot,
    pub(crate) kinds: &'static [AtomicU8],
    pub(crate) side: Side,
}

// SAFETY: the slots are atomics in memory that lives for ever.
unsafe impl Send for Arena {}

impl Arena {
    pub(crate) fn kind(&self, chunk: usize) -> u8 {
        self.kinds[chunk].load(Ordering::Acquire)
    }

    pub(crate) fn set_kind(&self, chunk: usize, kind: u8) {
        self.kinds[chunk].store(kind, Ordering::Release);
    }

    /// The words of a slot, of a chunk that has them.
    pub(crate) fn slot(&self, number: Number) -> &'static Slot {
        debug_assert!((number as usize) < self.chunks * SLOTS);
        // SAFETY: numbers come from chunks in use, whose slots' words are memory for ever.
        unsafe { &*self.slots.add(number as usize) }
    }

    pub(crate) fn address_of_chunk(&self, chunk: usize) -> usize {
        self.base + chunk * CHUNK
    }

    /// Slots that a chunk of a class has.
    pub(crate) fn slots_of_class(class: usize) -> usize {
        whole_slots(class, CHUNK / page::bytes()).min(SLOTS)
    }

    /// The slot that holds an address; `None`: none does.
    #[inline]
    pub(crate) fn find(&self, address: usize) -> Option<Number> {
        let offset = address.wrapping_sub(self.base);
        let chunk = offset / CHUNK;
        if chunk >= self.chunks {
            return None;
        }
        let first = (chunk * SLOTS) as Number;
        match self.kind(chunk) {
            UNUSED => None,
            LARGE => Some(first),
            REST => Some(self.slot(first).link.load(Ordering::Relaxed) * SLOTS as Number),
            kind => {
                let class = usize::from(kind - 1);
                let which = whole_slots(class, offset % CHUNK / page::bytes());
                (which < Self::slots_of_class(class)).then_some(first + which as Number)
            }
        }
    }

    /// Whether a slot is a large object's.
    pub(crate) fn is_large(&self, number: Number) -> bool {
        self.kind(number as usize / SLOTS) == LARGE
    }

    #[inline]
    pub(crate) fn extent(&self, number: Number) -> Extent {
        let chunk = number as usize / SLOTS;
        let start = self.address_of_chunk(chunk);
        match self.kind(chunk) {
            LARGE | REST | UNUSED => {
                let size = self.slot(number + 1);
                let pages = size.link.load(Ordering::Relaxed) as usize;
                Extent {
                    begin: start,
                    guard: start + pages * page::bytes(),
                    end: start + size.freed.load(Ordering::Relaxed) as usize * CHUNK,
                }
            }
            kind => {
                let pages = CLASS_PAGES[usize::from(kind - 1)];
                let bytes = (pages + 1) * page::bytes();
                let begin = start + number as usize % SLOTS * bytes;
                Extent {
                    begin,
                    guard: begin + pages * page::bytes(),
                    end: begin + bytes,
                }
            }
        }
    }

    /// Says how long a large object is: pages, chunks of its slot and bytes.
    pub(crate) fn set_large(&self, number: Number, pages: usize, chunks: usize) {
        let size = self.slot(number + 1);
        size.link.store(pages as u32, Ordering::Relaxed);
        size.freed.store(chunks as u32, Ordering::Relaxed);
    }

    /// Notes the bytes of a large object.
    pub(crate) fn set_large_bytes(&self, number: Number, bytes: usize) {
        let size = self.slot(number + 1);
        // Two halves of a word.
        size.made.store(bytes as u32, Ordering::Relaxed);
        size.set_extra((bytes >> 32) as u32);
    }

    /// The object that a slot holds or held.
    #[inline]
    pub(crate) fn object(&self, number: Number, facts: Facts) -> Placed {
        let bytes = if self.is_large(number) {
            let size = self.slot(number + 1);
            size.made.load(Ordering::Relaxed) as usize | (size.extra() as usize) << 32
        } else {
            facts.bytes
        };
        self.place(number, bytes, facts.alignment)
    }

    /// Where an object of this size and alignment lies in a slot.
    #[inline]
    pub(crate) fn place(&self, number: Number, bytes: usize, alignment: usize) -> Placed {
        let extent = self.extent(number);
        match self.side {
            Side::End => Placed::before(extent.guard, bytes, alignment),
            Side::Begin => Placed::from(extent.begin, bytes),
        }
    }

    /// Whether an object lies on its slot's pages: else somebody wrote over the slot's words.
    pub(crate) fn may_hold(&self, number: Number, placed: &Placed) -> bool {
        let extent = self.extent(number);
        let is_of_arena = extent.end <= self.address_of_chunk(self.chunks);
        let is_of_slot = extent.begin <= placed.start && placed.guard <= extent.guard;
        let is_whole = placed.start <= placed.end() && placed.end() <= placed.guard;
        is_of_arena && extent.guard <= extent.end && is_of_slot && is_whole
    }

    /// Visits the numbers of all slots of all chunks in use, whatever their state.
    pub(crate) fn visit(&self, upto_chunk: usize, visit: &mut dyn FnMut(Number)) {
        for chunk in 0..upto_chunk.min(self.chunks) {
            let first = (chunk * SLOTS) as Number;
            match self.kind(chunk) {
                UNUSED | REST => {}
                LARGE => visit(first),
                kind => {
                    let slots = Self::slots_of_class(usize::from(kind - 1));
                    (first..first + slots as Number).for_each(&mut *visit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_among_pages_are_as_by_division() {
        for (class, most) in CLASS_PAGES.into_iter().enumerate() {
            for pages in 0..=CHUNK / 4096 {
                let expected = pages / (most + 1);
                assert_eq!(whole_slots(class, pages), expected, "{most} {pages}");
            }
        }
    }
}
