//! Asks the kernel whether it has a system call, by making it on memory of our own.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::ptr;

/// `struct pm_scan_arg` (include/uapi/linux/fs.h, since 6.7).
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)` in the encoding of include/uapi/asm-generic/ioctl.h, which
/// x86, arm64 and RISC-V share.
const PAGEMAP_SCAN: u32 = (3 << 30) | ((size_of::<ScanArgument>() as u32) << 16) | (0x66 << 8) | 16;
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// Regions that one probe may return.
const REGIONS: usize = 4;

/// `struct page_region`: start, end, categories.
type Region = [u64; 3];

/// Scans one page that is certainly there, and looks whether the answer says so.
pub(super) fn pagemap_scan() -> bool {
    let Ok(file) = File::open("/proc/self/pagemap") else {
        return false;
    };
    let page = crate::page_bytes();
    let touched = [1_u8; 1];
    let start = (touched.as_ptr() as u64) & !(page - 1);
    let mut regions: [Region; REGIONS] = Default::default();
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        start,
        end: start + page,
        vec: regions.as_mut_ptr() as u64,
        vec_len: REGIONS as u64,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_PRESENT,
        ..ScanArgument::default()
    };
    // SAFETY: the argument tells its size, and points to `regions` with its length; only these two are
    // written. A kernel without it refuses with ENOTTY.
    let found = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut argument) };
    found == 1 && regions[0] == [start, start + page, PAGE_IS_PRESENT]
}

/// Advises nothing (an empty list) to ourselves: all kernels that have the call know it by then.
pub(super) fn process_madvise() -> bool {
    let Ok(own) = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    ) else {
        return false;
    };
    // SAFETY: a list of no entries is not read.
    let status = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            own.as_raw_fd(),
            ptr::null::<libc::iovec>(),
            0_usize,
            libc::MADV_COLD,
            0_u32,
        )
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    status >= 0 || !matches!(error, Some(libc::ENOSYS | libc::EPERM))
}

/// Takes a descriptor of our own, and looks at the pages of its file.
pub(super) fn open_files() -> bool {
    let found = || {
        let own = rustix::process::pidfd_open(
            rustix::process::getpid(),
            rustix::process::PidfdFlags::empty(),
        )
        .ok()?;
        let file = File::open("/proc/self/exe").ok()?;
        let number = file.as_raw_fd().unsigned_abs();
        let taken = crate::open_file::take_descriptor(own.as_fd(), number).ok()?;
        let cached = crate::open_file::cached_pages(&taken, 0..4096);
        Some(cached != Err(rustix::io::Errno::NOSYS))
    };
    found().unwrap_or(false)
}

/// `include/uapi/asm-generic/mman-common.h`, since 6.13.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Installs one on a page of our own, which goes at once.
pub(super) fn guard_regions() -> bool {
    let page = rustix::param::page_size();
    // SAFETY: a fresh mapping at an address of the kernel's choice, which nothing else knows, unmapped here.
    unsafe {
        let start = libc::mmap(
            ptr::null_mut(),
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if start == libc::MAP_FAILED {
            return false;
        }
        let status = libc::madvise(start, page, MADV_GUARD_INSTALL);
        libc::munmap(start, page);
        status == 0
    }
}

/// Whether userfaultfd(2) may serve the kernel's own faults, too: by a right, or by its device.
pub(super) fn kernel_userfaults() -> bool {
    // SAFETY: no pointers; the descriptor is closed once.
    let is_allowed = unsafe {
        let file = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        if file >= 0 {
            libc::close(file as libc::c_int);
        }
        file >= 0
    };
    let device = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/userfaultfd")
    };
    is_allowed || device().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_number_is_that_of_the_kernel_headers() {
        assert_eq!(size_of::<ScanArgument>(), 96);
        assert_eq!(PAGEMAP_SCAN, 0xc060_6610);
    }
}
