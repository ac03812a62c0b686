//! The C library's heap: it grows in large steps, so that there is something to make ready, and each step is advised.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::system;

use crate::settings;

/// How far the heap grows beyond what is asked for,
const PAD: i32 = 64 << 20;
/// how much may be free at its end before that shrinks,
const TRIM: i32 = 2 * PAD;
/// and what is mapped by itself from so many bytes on: as the C library chooses for a program that frees large blocks
/// (`DEFAULT_MMAP_THRESHOLD_MAX`, malloc/malloc.c), since to choose the others ends its own choosing.
const MAPPED: i32 = 32 << 20;

/// A heap that grows by so much is looked after.
const GROWN: usize = 4 << 20;
/// Heaps are not longer than this; mappings lie further above them.
const SPAN: usize = 1 << 40;
/// No address is within [`SPAN`] of it.
const NOWHERE: usize = 1 << 63;

/// Where it ended when it was watched first.
static BEGINS: AtomicUsize = AtomicUsize::new(0);
/// Blocks beyond it say that the heap has grown; [`NOWHERE`]: nobody wants to know.
static BAR: AtomicUsize = AtomicUsize::new(NOWHERE);
/// Whether it may be changed how it grows.
static MAY_SET: AtomicBool = AtomicBool::new(false);

/// Whether the heap has grown so far that it is to be looked after, as seen from the end of a block.
#[inline(always)]
pub(super) fn is_grown(block_end: usize) -> bool {
    block_end.wrapping_sub(BAR.load(Ordering::Relaxed)) < SPAN
}

/// From here on its growth matters.
pub(super) fn watch() {
    let end = system::heap_end();
    BEGINS.store(end, Ordering::Relaxed);
    BAR.store(end + GROWN, Ordering::Relaxed);
}

/// In a forked child, if it ever mattered.
pub(super) fn watch_again() {
    if BEGINS.load(Ordering::Relaxed) != 0 {
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

/// Once it is looked after.
pub(super) fn grow_in_large_steps() {
    BAR.store(NOWHERE, Ordering::Relaxed);
    set(&[(libc::M_TOP_PAD, PAD), (libc::M_TRIM_THRESHOLD, TRIM)]);
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

    /// Advises what has come since the last look. Returns where it is now.
    pub(super) fn look(&mut self) -> Range<usize> {
        // Who was late comes to what is touched already.
        let end = system::heap_end().max(self.start);
        if end > self.advised {
            // The kernel may refuse: then there are base pages.
            let _ = system::advise(self.advised, end - self.advised, system::HUGE);
        }
        self.advised = end;
        self.start..end
    }
}
