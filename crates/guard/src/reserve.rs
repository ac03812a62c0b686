//! Addresses that become memory from their begin on, as far as needed: one mapping of it, one of what is left.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::system;

/// Memory becomes usable in steps of so many bytes.
const STEP: usize = 2 << 20;

/// A range of addresses, usable up to a point.
pub(crate) struct Reserve {
    start: AtomicUsize,
    bytes: AtomicUsize,
    usable: AtomicUsize,
}

impl Reserve {
    pub(crate) const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            usable: AtomicUsize::new(0),
        }
    }

    /// Reserves `bytes`, a multiple of [`STEP`], beginning at a multiple of it. To be called by one thread, once.
    pub(crate) fn make(&self, bytes: usize) -> bool {
        let Some(start) = system::reserve(bytes + STEP) else {
            return false;
        };
        let aligned = start.next_multiple_of(STEP);
        if aligned > start {
            system::unreserve(start, aligned - start);
        }
        let end = start + bytes + STEP;
        if end > aligned + bytes {
            system::unreserve(aligned + bytes, end - aligned - bytes);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.start.store(aligned, Ordering::Release);
        true
    }

    /// What becomes memory does so in small pages: see [`crate::own_memory`].
    pub(crate) fn take_small_pages(&self) {
        system::take_small_pages(self.start(), self.bytes());
    }

    /// Where it begins; 0: it is not there.
    #[inline(always)]
    pub(crate) fn start(&self) -> usize {
        self.start.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that have become memory.
    pub(crate) fn usable(&self) -> usize {
        self.usable.load(Ordering::Acquire)
    }

    /// Makes at least the first `bytes` memory. False: there are no more, or the system has none.
    #[inline(always)]
    pub(crate) fn use_up_to(&self, bytes: usize) -> bool {
        bytes <= self.usable() || self.grow(bytes)
    }

    #[cold]
    fn grow(&self, bytes: usize) -> bool {
        let wanted = bytes.next_multiple_of(STEP);
        if self.start() == 0 || wanted > self.bytes() {
            return false;
        }
        // Twice by two threads is the same as once.
        let usable = self.usable();
        if wanted > usable && !system::set_usable(self.start() + usable, wanted - usable, true) {
            return false;
        }
        self.usable.fetch_max(wanted, Ordering::Release);
        true
    }
}
