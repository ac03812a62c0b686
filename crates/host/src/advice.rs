//! Advice about the memory of another process (`process_madvise(2)`, 5.10).

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;

/// A range of the other process's addresses, as the kernel wants it.
pub(crate) fn as_iovec(range: &Range<u64>) -> libc::iovec {
    libc::iovec {
        iov_base: range.start as *mut libc::c_void,
        iov_len: (range.end - range.start) as usize,
    }
}

/// Advises about ranges of another process's memory, in order, up to the first where that cannot be; returns how many bytes these were. `advice`: one of
/// those that leave the memory as it is, byte for byte (`MADV_COLD`, `MADV_COLLAPSE`).
///
/// # Errors
/// If it cannot be of the first range, or of any.
pub(crate) fn advise(
    process: BorrowedFd<'_>,
    ranges: &[libc::iovec],
    advice: libc::c_int,
) -> io::Result<u64> {
    // SAFETY: the ranges are of the other process's memory, which the advice leaves as it is; of ours only the list is read.
    let status = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            ranges.as_ptr(),
            ranges.len(),
            advice,
            0_u32,
        )
    };
    u64::try_from(status).map_err(|_| io::Error::last_os_error())
}
