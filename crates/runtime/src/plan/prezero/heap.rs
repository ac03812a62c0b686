//! The C library's heap: it grows in large steps, so that there is something to make ready, and each step is advised.

use std::ops::Range;
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

/// Where it ended before the helper began: the program may be faster than that.
static BEGINS: AtomicUsize = AtomicUsize::new(0);

/// Before a helper is started.
pub(super) fn note_end() {
    BEGINS.store(system::heap_end(), Ordering::Relaxed);
}

/// Lets it grow in large steps, unless the user has said how it shall grow. Of another allocator's heap nothing changes.
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
    for (name, value) in [
        (libc::M_TOP_PAD, PAD),
        (libc::M_TRIM_THRESHOLD, TRIM),
        (libc::M_MMAP_THRESHOLD, MAPPED),
    ] {
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
        let end = system::heap_end().max(self.start);
        if end > self.advised {
            // The kernel may refuse: then there are base pages.
            let _ = system::advise(self.advised, end - self.advised, system::HUGE);
        }
        self.advised = end;
        self.start..end
    }
}
