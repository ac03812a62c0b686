//! The size of a page. Where processors have several it is asked of the system, once.

#[cfg(not(target_arch = "x86_64"))]
mod asked {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    static BYTES: AtomicUsize = AtomicUsize::new(0);

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
}

/// Bytes of a page.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use asked::bytes;

/// Bytes of a page, of which this processor has but one size: places are found without a division.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn bytes() -> usize {
    4096
}

/// The begin of the page of an address.
pub(crate) fn floor(address: usize) -> usize {
    address & !(bytes() - 1)
}
