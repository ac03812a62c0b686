//! The two pieces of advice: collapse a region into a huge page, and split one.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use super::BYTES;
use crate::advice::as_iovec;

/// Since 6.1 (include/uapi/asm-generic/mman-common.h).
pub(super) const MADV_COLLAPSE: libc::c_int = 25;

/// Why the kernel did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The process has ended.
    Gone,
    /// Not permitted: it needs root, or CAP_SYS_NICE and the right to trace the process.
    NotPermitted,
    /// There is no free huge page, and none could be made by compaction.
    NoHugePage,
    /// The limit of the process's cgroup leaves no room for one beside the pages it is made of.
    LimitReached,
    /// A page is in use at this moment (under I/O, being moved, pinned): a later try may work.
    Busy,
    /// The area does not take huge pages: advised against, switched off by the process (`PR_SET_THP_DISABLE`), locked (for a
    /// split), nothing in memory, or shared with another process.
    Unsuitable,
    /// Nothing is mapped there any more.
    Unmapped,
    /// Another error number of the system.
    Other(i32),
}

impl Refusal {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ESRCH) => Refusal::Gone,
            Some(libc::EPERM | libc::EACCES) => Refusal::NotPermitted,
            Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) => Refusal::Busy,
            Some(libc::EINVAL) => Refusal::Unsuitable,
            Some(libc::EFAULT) => Refusal::Unmapped,
            Some(number) => Refusal::Other(number),
            None => Refusal::Other(0),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Gone => "process ended",
            Refusal::NotPermitted => "not permitted",
            Refusal::NoHugePage => "no huge page free",
            Refusal::LimitReached => "limit of its cgroup reached",
            Refusal::Busy => "page busy",
            Refusal::Unsuitable => "area takes none",
            Refusal::Unmapped => "not mapped any more",
            Refusal::Other(number) => return write!(f, "error {number}"),
        })
    }
}

/// Makes the region of 2 MiB at this address a huge page (`MADV_COLLAPSE`, 6.1): pages that are missing become zeros. It does
/// not ask for `transparent_hugepage/enabled`. About 0.4 ms of this thread's time.
///
/// # Errors
/// The kernel's refusal. Success does not tell that the region is a huge page now: look again.
pub fn collapse(process: BorrowedFd<'_>, address: u64) -> Result<(), Refusal> {
    advise(process, address, BYTES, MADV_COLLAPSE).map_err(|error| match error.raw_os_error() {
        // madvise_collapse (mm/khugepaged.c, 6.12): allocation failed, or the range is unmapped; charging it to the cgroup failed.
        Some(libc::ENOMEM) => Refusal::NoHugePage,
        Some(libc::EBUSY) => Refusal::LimitReached,
        _ => Refusal::of(&error),
    })
}

/// Splits the huge page at this address: `MADV_COLD` on one of its base pages, which the kernel cannot carry out without.
/// Since 6.12 the zero-filled base pages are freed in passing, without a race. 0.3 to 0.9 ms of this thread's time.
///
/// # Errors
/// The kernel's refusal. Success does not tell that it was split (shared after a fork, pinned): look again.
pub fn split(process: BorrowedFd<'_>, address: u64) -> Result<(), Refusal> {
    advise(process, address, crate::page_bytes(), libc::MADV_COLD).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ENOMEM) => Refusal::Unmapped,
            _ => Refusal::of(&error),
        }
    })
}

fn advise(
    process: BorrowedFd<'_>,
    address: u64,
    bytes: u64,
    advice: libc::c_int,
) -> io::Result<()> {
    let range = as_iovec(&(address..address + bytes));
    crate::advice::advise(process, &[range], advice).map(drop)
}
