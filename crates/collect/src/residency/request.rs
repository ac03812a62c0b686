//! The `PAGEMAP_SCAN` request (include/uapi/linux/fs.h, since Linux 6.7).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub(crate) const PAGE_IS_FILE: u64 = 1 << 2;
pub(crate) const PAGE_IS_PRESENT: u64 = 1 << 3;
pub(crate) const PAGE_IS_SWAPPED: u64 = 1 << 4;
pub(crate) const PAGE_IS_PFNZERO: u64 = 1 << 5;
pub(crate) const PAGE_IS_HUGE: u64 = 1 << 6;
/// Since Linux 6.15.
pub(crate) const PAGE_IS_GUARD: u64 = 1 << 8;

/// `struct page_region`: bytes, and the categories that were asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Argument {
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

/// `_IOWR('f', 16, struct pm_scan_arg)` in the encoding of include/uapi/asm-generic/ioctl.h, which x86, arm64 and
/// RISC-V share.
const PAGEMAP_SCAN: u32 = (3 << 30) | ((size_of::<Argument>() as u32) << 16) | (0x66 << 8) | 16;

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// First byte.
    pub(crate) start: u64,
    /// The byte after the last.
    pub(crate) end: u64,
    /// Stop after so many pages that are in memory or in swap.
    pub(crate) most_pages: u64,
    /// Ask for guard pages too.
    pub(crate) guards: bool,
}

/// Fills `regions` with the pages that are in memory or in swap. Returns how many there are, and up to which byte it
/// looked.
///
/// # Errors
/// `ENOTTY` on kernels without it, `EINVAL` for a category that the kernel does not know, `EFAULT` if `end` is beyond the
/// address space.
pub(crate) fn scan(
    pagemap: &File,
    request: Request,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let guard = if request.guards { PAGE_IS_GUARD } else { 0 };
    let mut argument = Argument {
        size: size_of::<Argument>() as u64,
        start: request.start,
        end: request.end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        max_pages: request.most_pages,
        category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        return_mask: PAGE_IS_FILE
            | PAGE_IS_PRESENT
            | PAGE_IS_SWAPPED
            | PAGE_IS_PFNZERO
            | PAGE_IS_HUGE
            | guard,
        ..Argument::default()
    };
    // SAFETY: the argument tells its own size, and points to `regions` with their number; the kernel writes no more
    // than these two, and any bits are a valid region.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut argument) };
    match usize::try_from(found) {
        Ok(found) => {
            let regions = regions.get(..found).unwrap_or(regions);
            Ok((
                regions.len(),
                reached(request, regions, argument.walk_end, argument.vec_len),
            ))
        }
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Up to where it looked. The kernel's own answer is stale after a walk to the end that had to empty its buffer on the way
/// (do_pagemap_scan, fs/proc/task_mmu.c, 6.7 to 6.18), so it counts only if there was a reason to stop.
fn reached(request: Request, found: &[PageRegion], walk_end: u64, most_regions: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    let pages: u64 = found
        .iter()
        .map(|region| region.end.saturating_sub(region.start) / page)
        .sum();
    if (found.len() as u64) < most_regions && pages < request.most_pages {
        return request.end;
    }
    let last = found.last().map_or(request.start, |last| last.end);
    walk_end.max(last).min(request.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_that_of_the_kernel_headers() {
        assert_eq!(size_of::<Argument>(), 96);
        assert_eq!(size_of::<PageRegion>(), 24);
        assert_eq!(PAGEMAP_SCAN, 0xc060_6610);
    }

    #[test]
    fn a_walk_to_the_end_is_one_whatever_the_kernel_says() {
        let page = rustix::param::page_size() as u64;
        let request = Request {
            start: 0,
            end: 1000 * page,
            most_pages: 10,
            guards: false,
        };
        let region = |start: u64, end: u64| PageRegion {
            start: start * page,
            end: end * page,
            categories: 0,
        };
        let two = [region(1, 3), region(900, 901)];
        assert_eq!(reached(request, &two, 500 * page, 8), 1000 * page);
        assert_eq!(reached(request, &two, 950 * page, 2), 950 * page, "no room");
        assert_eq!(reached(request, &two, 500 * page, 2), 901 * page, "stale");
        let many = [region(1, 11)];
        assert_eq!(
            reached(request, &many, 11 * page, 8),
            11 * page,
            "enough pages"
        );
        assert_eq!(reached(request, &[], 0, 8), 1000 * page);
    }
}
