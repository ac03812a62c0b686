//! The C library's heap: it grows in large steps, so that there is something to make ready, and each step is advised.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::system;

use crate::plan::heap;
use crate::settings;

/// How far a heap grows beyond what is asked for, at most: this much of what is freed at its end stays, too.
const PAD: u64 = 32 << 20;
/// How much may be free at its end before it shrinks, at most: threads' heaps end at 64 MiB (`HEAP_MAX_SIZE`, malloc/arena.c).
const TRIM: u64 = 48 << 20;
/// Of a memory limit, no more than these parts are such a pad, and free.
const PAD_SHARE: u64 = 16;
const TRIM_SHARE: u64 = 8;
/// What the C library chooses for both.
const DEFAULT: i32 = 128 << 10;
/// What is mapped by itself from so many bytes on: as the C library chooses for a program that frees large blocks
/// (`DEFAULT_MMAP_THRESHOLD_MAX`, malloc/malloc.c), since to choose the others ends its own choosing.
const MAPPED: i32 = 32 << 20;

/// A heap that grows by so much is looked after.
const GROWN: usize = 4 << 20;

/// Where it ended when it was watched first.
static BEGINS: AtomicUsize = AtomicUsize::new(0);
/// Whether it may be changed how it grows.
static MAY_SET: AtomicBool = AtomicBool::new(false);
static IS_LEFT: AtomicBool = AtomicBool::new(false);

/// From here on its growth matters.
pub(super) fn watch() {
    let end = system::heap_end();
    BEGINS.store(end, Ordering::Relaxed);
    heap::tell_from(end + GROWN);
}

/// In a forked child, if it ever mattered.
pub(super) fn watch_again() {
    if BEGINS.load(Ordering::Relaxed) != 0 && !is_left() {
        watch();
    }
}

/// Lets blocks come from it, unless the user has said how it shall grow. Of another allocator's heap nothing changes.
pub(super) fn begin() {
    let own_settings = [
        "GLIBC_TUNABLES",
        "MALLOC_TOP_PAD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_MMAP_THRESHOLD_",
    ];
    if own_settings
        .into_iter()
        .any(|name| settings::environment_variable(name).is_some())
    {
        return;
    }
    MAY_SET.store(true, Ordering::Relaxed);
    set(&[(libc::M_MMAP_THRESHOLD, MAPPED)]);
}

/// Once it is looked after. 0: there is no limit.
pub(super) fn grow_in_large_steps(limit_bytes: u64) {
    let (pad, trim) = steps(limit_bytes);
    set(&[(libc::M_TOP_PAD, pad), (libc::M_TRIM_THRESHOLD, trim)]);
}

/// Pad and threshold under a limit.
fn steps(limit_bytes: u64) -> (i32, i32) {
    let within = |most: u64, share: u64| match limit_bytes {
        0 => most as i32,
        limit => ((limit / share).min(most) as i32).max(DEFAULT),
    };
    (within(PAD, PAD_SHARE), within(TRIM, TRIM_SHARE))
}

/// All memory is locked from here on, and what a heap has beyond what was asked for would be, too: it is left to the C library.
/// Where no allocator's lock is held.
pub(super) fn leave() {
    IS_LEFT.store(true, Ordering::Relaxed);
    if MAY_SET.load(Ordering::Relaxed) {
        set(&[
            (libc::M_TOP_PAD, DEFAULT),
            (libc::M_TRIM_THRESHOLD, DEFAULT),
        ]);
        // SAFETY: gives back what is free.
        unsafe { libc::malloc_trim(DEFAULT as usize) };
    }
}

/// Whether it was left.
pub(super) fn is_left() -> bool {
    IS_LEFT.load(Ordering::Relaxed)
}

fn set(numbers: &[(i32, i32)]) {
    if !MAY_SET.load(Ordering::Relaxed) {
        return;
    }
    for &(name, value) in numbers {
        // SAFETY: sets numbers of the allocator's; those that it does not know are refused.
        unsafe { libc::mallopt(name, value) };
    }
}

/// Where it is, and how far it is advised.
pub(super) struct Heap {
    start: usize,
    advised: usize,
}

impl Heap {
    pub(super) fn new() -> Self {
        let end = BEGINS.load(Ordering::Relaxed);
        Self {
            start: end,
            advised: end,
        }
    }

    /// Says `advice` of what has come since the last look. Returns where it is now.
    pub(super) fn look(&mut self, advice: i32) -> Range<usize> {
        // Who was late comes to what is touched already.
        let end = system::heap_end().max(self.start);
        if end > self.advised {
            // The kernel may refuse: then there are base pages.
            let _ = system::advise(self.advised, end - self.advised, advice);
        }
        self.advised = end;
        self.start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_of_the_heap_is_a_small_part_of_the_limit() {
        const MIB: i32 = 1 << 20;
        assert_eq!(steps(0), (32 * MIB, 48 * MIB));
        assert_eq!(steps(1 << 40), (32 * MIB, 48 * MIB));
        assert_eq!(steps(64 << 20), (4 * MIB, 8 * MIB));
        assert_eq!(steps(1), (DEFAULT, DEFAULT));
    }
}
