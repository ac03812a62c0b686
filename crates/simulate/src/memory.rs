//! The memory that all policies share: what is resident, what is dirty, what was transferred.

use crate::outcome::Outcome;
use crate::reference::Reference;

/// State of each page in one byte: four bits of the engine, four for the policy's own use, so that a hit of a simple
/// policy touches this byte and nothing else. One byte a page of footprint, and four for each dirty file page.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Vec<u8>,
    frames: u32,
    resident: u32,
    /// File pages written since the last flush, those evicted since included.
    unflushed: Vec<u32>,
    /// Whether there will be a next flush.
    flushes: bool,
    swap_keeps_copy: bool,
    pub(crate) counts: Outcome,
}

const RESIDENT: u8 = 1;
const SEEN: u8 = 2;
const DIRTY_ANONYMOUS: u8 = 4;
const DIRTY_FILE: u8 = 8;
const DIRTY: u8 = DIRTY_ANONYMOUS | DIRTY_FILE;

/// First bit of those that belong to the policy.
const POLICY_SHIFT: u32 = 4;

impl Memory {
    pub(crate) fn new(frames: u32, flushes: bool, swap_keeps_copy: bool) -> Memory {
        Memory {
            pages: Vec::new(),
            frames,
            resident: 0,
            unflushed: Vec::new(),
            flushes,
            swap_keeps_copy,
            counts: Outcome::default(),
        }
    }

    /// Pages that fit.
    #[inline]
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    pub(crate) fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    /// Pages that are in memory.
    #[inline]
    pub(crate) fn resident(&self) -> u32 {
        self.resident
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.resident >= self.frames
    }

    #[inline]
    pub(crate) fn is_resident(&self, page: u32) -> bool {
        self.pages
            .get(page as usize)
            .is_some_and(|state| state & RESIDENT != 0)
    }

    #[inline]
    pub(crate) fn is_dirty(&self, page: u32) -> bool {
        self.pages[page as usize] & DIRTY != 0
    }

    /// The policy's four bits of this page; 0 until set. They survive eviction.
    #[inline]
    pub(crate) fn bits(&self, page: u32) -> u8 {
        self.pages[page as usize] >> POLICY_SHIFT
    }

    /// Sets the policy's four bits of this page.
    #[inline]
    pub(crate) fn set_bits(&mut self, page: u32, bits: u8) {
        let state = &mut self.pages[page as usize];
        *state = *state & ((1 << POLICY_SHIFT) - 1) | bits << POLICY_SHIFT;
    }

    /// Notes a write to a resident page.
    #[inline]
    pub(crate) fn note_write(&mut self, reference: Reference) {
        let state = &mut self.pages[reference.page() as usize];
        if !reference.is_file() {
            *state |= DIRTY_ANONYMOUS;
        } else if *state & DIRTY_FILE == 0 {
            *state |= DIRTY_FILE;
            if self.flushes {
                self.unflushed.push(reference.page());
            }
        }
    }

    /// Pages that have room in the arrays.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn grow(&mut self, pages: usize) {
        self.pages.resize(pages, 0);
    }

    /// Counts a miss, and what it reads: a file page always, an anonymous one if it was in memory before, as the first
    /// touch is filled with zeros.
    #[inline]
    pub(crate) fn count_miss(&mut self, reference: Reference) {
        let state = &mut self.pages[reference.page() as usize];
        let again = u64::from(*state & SEEN != 0);
        self.counts.first_touches += 1 - again;
        if reference.is_file() {
            self.counts.file_misses += 1;
            self.counts.file_reads += 1;
        } else {
            self.counts.anonymous_misses += 1;
            self.counts.swap_reads += again;
            if again != 0 && !self.swap_keeps_copy {
                *state |= DIRTY_ANONYMOUS;
            }
        }
    }

    /// The page is in memory from now on.
    #[inline]
    pub(crate) fn admit(&mut self, page: u32) {
        debug_assert!(!self.is_resident(page), "page {page} admitted twice");
        self.pages[page as usize] |= RESIDENT | SEEN;
        self.resident += 1;
    }

    /// The page leaves memory, and is written if dirty.
    #[inline]
    pub(crate) fn evict(&mut self, page: u32) {
        debug_assert!(self.is_resident(page), "page {page} evicted from outside");
        let state = &mut self.pages[page as usize];
        self.counts.evictions += 1;
        self.counts.swap_writes += u64::from(*state & DIRTY_ANONYMOUS != 0);
        self.counts.file_writes += u64::from(*state & DIRTY_FILE != 0);
        *state &= !(RESIDENT | DIRTY);
        self.resident -= 1;
    }

    /// The page ceases to be, in memory or not; what was in it needs no writing. A later access is its first touch.
    pub(crate) fn forget(&mut self, page: u32) {
        let state = &mut self.pages[page as usize];
        self.resident -= u32::from(*state & RESIDENT != 0);
        *state &= !(RESIDENT | SEEN | DIRTY);
    }

    /// Writes all dirty file pages, as the kernel's flusher threads do.
    pub(crate) fn flush(&mut self) {
        for page in self.unflushed.drain(..) {
            let state = &mut self.pages[page as usize];
            self.counts.file_writes += u64::from(*state & DIRTY_FILE != 0);
            *state &= !DIRTY_FILE;
        }
    }
}
