//! The size of a page, asked of the system once.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a page.
#[inline(always)]
pub(crate) fn bytes() -> usize {
    match BYTES.load(Ordering::Relaxed) {
        0 => ask(),
        bytes => bytes,
    }
}

#[cold]
fn ask() -> usize {
    // SAFETY: no preconditions; known from the process's first instruction on.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    BYTES.store(bytes, Ordering::Relaxed);
    bytes
}

/// The begin of the page of an address.
pub(crate) fn floor(address: usize) -> usize {
    address & !(bytes() - 1)
}
