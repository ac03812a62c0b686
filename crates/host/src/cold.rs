//! Makes pages of another process cold: their accessed bits are cleared, so that it can be seen which it accesses from then on.
//!
//! `MADV_COLD` (5.4, of another process 5.10; mm/madvise.c `madvise_cold_or_pageout_pte_range`, 6.18) also makes them inactive, as if they had not been
//! used lately: pages that are accessed soon after stay in memory all the same. Of a part of a large folio it would split that.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::advice::advise;
use crate::advice::as_iovec;
use crate::process;

/// `IOV_MAX` (include/uapi/linux/uio.h).
const MOST_AT_ONCE: usize = 1024;
const HUGE_PAGE_SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";
/// Its size that maps 2 MiB at once: such pages are told apart by the page table.
const WHOLE_TABLE: &str = "hugepages-2048kB";

/// Makes the pages in these ranges cold, by address, and returns the ranges where that cannot be, by their places in the list: not mapped any more, or
/// locked. Pages that other processes map, too, are left as they are without a word (`folio_mapcount`). About a microsecond of this thread's time for each
/// range, and an interrupt of the program where it runs; nobody waits.
///
/// # Errors
/// If it is not permitted (it needs CAP_SYS_NICE and the right to look into the process), or the process has ended (`ESRCH`).
pub fn make_cold(process: BorrowedFd<'_>, ranges: &[Range<u64>]) -> io::Result<Vec<usize>> {
    let ranges: Vec<libc::iovec> = ranges.iter().map(as_iovec).collect();
    let mut refused = Vec::new();
    let mut left = ranges.as_slice();
    while !left.is_empty() {
        let now = &left[..left.len().min(MOST_AT_ONCE)];
        let done = match advise(process, now, libc::MADV_COLD) {
            Ok(bytes) => ranges_within(now, bytes),
            Err(error) if is_about_range(&error) => 0,
            Err(error) => return Err(error),
        };
        // It stops before the first range that it cannot do.
        let is_refused = done < now.len();
        if is_refused {
            refused.push(ranges.len() - left.len() + done);
        }
        left = &left[done + usize::from(is_refused)..];
    }
    Ok(refused)
}

/// How many ranges so many bytes are.
fn ranges_within(ranges: &[libc::iovec], bytes: u64) -> usize {
    let mut left = bytes;
    let fits = |range: &&libc::iovec| {
        let rest = left.checked_sub(range.iov_len as u64);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    ranges.iter().take_while(fits).count()
}

/// Not mapped, or locked: no other range is concerned.
fn is_about_range(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOMEM | libc::EINVAL | libc::EFAULT | libc::EAGAIN | libc::EBUSY)
    )
}

/// The private memory of a process, by address, as it is now. `None`: it has ended, or may not be looked into.
pub fn private_memory(pid: u32) -> Option<Vec<Range<u64>>> {
    Some(process::maps(pid)?.lines().filter_map(memory_of).collect())
}

/// A line of `/proc/PID/maps`, if it is of such memory and not of a file.
fn memory_of(line: &str) -> Option<Range<u64>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let path = fields.nth(3)?.trim_start();
    let is_memory = path.is_empty()
        || path.starts_with("[anon")
        || path == "[heap]"
        || path.starts_with("[stack");
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let is_used = permissions.starts_with('r');
    let is_private = permissions.ends_with('p');
    (is_memory && is_used && is_private).then_some(number(start)?..number(end)?)
}

/// Whether this machine gives programs memory in large folios that no page table tells: these would be split.
pub fn folios_may_be_large() -> bool {
    folios_may_be_large_by(Path::new(HUGE_PAGE_SETTINGS))
}

fn folios_may_be_large_by(settings: &Path) -> bool {
    let sizes = std::fs::read_dir(settings).into_iter().flatten().flatten();
    sizes
        .filter(|size| size.file_name() != WHOLE_TABLE)
        .any(|size| {
            // Of the machine as a whole there is one of the same name beside the sizes.
            let setting = std::fs::read_to_string(size.path().join("enabled"));
            setting.is_ok_and(|setting| !setting.contains("[never]"))
        })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn memory_is_told_from_files() {
        let ranges = [
            "7f00-7f10 rw-p 00000000 00:00 0 ",
            "55aa-55bb rw-p 00000000 00:00 0                          [heap]",
            "7f20-7f30 rw-s 00000000 00:01 1033 /dev/zero (deleted)",
            "7f40-7f50 rw-p 00000000 00:00 0                          [anon:a name]",
            "7f52-7f54 rw-s 00000000 00:00 0 ",
            "7f60-7f70 ---p 00000000 00:00 0 ",
            "7f80-7f90 r-xp 00000000 fe:00 1033 /usr/lib/a library.so",
            "7ffc-7ffd r-xp 00000000 00:00 0                          [vdso]",
        ];
        let found: Vec<_> = ranges.iter().filter_map(|line| memory_of(line)).collect();
        assert_eq!(found, [0x7f00..0x7f10, 0x55aa..0x55bb, 0x7f40..0x7f50]);
    }

    #[test]
    fn what_was_done_is_told_in_ranges() {
        let ranges: Vec<_> = [0..10, 20..25, 30..40].iter().map(as_iovec).collect();
        assert_eq!(
            [0, 10, 15, 25].map(|bytes| ranges_within(&ranges, bytes)),
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn ranges_that_are_not_mapped_are_left_out() {
        let own = rustix::process::pidfd_open(
            rustix::process::getpid(),
            rustix::process::PidfdFlags::empty(),
        );
        let own = own.expect("5.3");
        let memory = vec![1_u8; 64 << 10];
        let page = 4096;
        let first = (memory.as_ptr() as u64).next_multiple_of(page);
        // Page 1 is never mapped.
        let ranges = [page..2 * page, first..first + page, page..2 * page];
        match make_cold(own.as_fd(), &ranges) {
            Ok(refused) => assert_eq!(refused, [0, 2]),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}"),
        }
        assert!(
            private_memory(std::process::id())
                .expect("alive")
                .iter()
                .any(|range| range.contains(&first))
        );
    }

    #[test]
    fn large_folios_are_told_by_their_settings() {
        let folder = tempfile::tempdir().expect("a folder");
        let set = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            std::fs::write(path, text).expect("written");
            folios_may_be_large_by(folder.path())
        };
        assert!(!folios_may_be_large_by(folder.path()));
        assert!(!set("enabled", "[always] madvise never"));
        let whole_table = "hugepages-2048kB/enabled";
        assert!(!set(whole_table, "always [inherit] madvise never"));
        let small = "hugepages-64kB/enabled";
        assert!(!set(small, "always inherit madvise [never]"));
        assert!(set(small, "always inherit [madvise] never"));
        assert!(set(small, "always [inherit] madvise never"));
        assert!(!set(small, "always inherit madvise [never]"));
    }
}
