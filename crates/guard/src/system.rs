//! System calls about memory, as they are: the C library's functions may be interposed.

use libc::c_long;

use crate::descriptor::Descriptor;
use crate::sandbox;

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` (Linux 6.13, `include/uapi/asm-generic/mman-common.h`).
const GUARD_INSTALL: c_long = 102;
const GUARD_REMOVE: c_long = 103;

fn worked(result: c_long) -> bool {
    result == 0
}

/// Addresses without memory: they count against `RLIMIT_AS`, but against nothing else.
pub(crate) fn reserve(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            0 as c_long,
            bytes,
            c_long::from(libc::PROT_NONE),
            c_long::from(flags),
            -1 as c_long,
            0 as c_long,
        )
    };
    // The kernel's errors are the last page of addresses, which `syscall` turns into -1.
    (start != -1).then_some(start as usize)
}

/// Gives back a part of what was reserved.
pub(crate) fn unreserve(start: usize, bytes: usize) {
    // SAFETY: callers own these addresses, and nothing is there.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
}

/// Makes reserved addresses readable and writable, or neither.
pub(crate) fn set_usable(start: usize, bytes: usize, is_usable: bool) -> bool {
    let protection = match is_usable {
        true => libc::PROT_READ | libc::PROT_WRITE,
        false => libc::PROT_NONE,
    };
    // SAFETY: callers own these addresses.
    worked(unsafe { libc::syscall(libc::SYS_mprotect, start, bytes, c_long::from(protection)) })
}

/// Makes code writable, too, or no longer.
#[cfg(target_arch = "x86_64")]
pub(crate) fn protect_code(start: usize, bytes: usize, is_writable: bool) -> bool {
    let code = libc::PROT_READ | libc::PROT_EXEC;
    let protection = if is_writable {
        code | libc::PROT_WRITE
    } else {
        code
    };
    // SAFETY: pages that are run, which they can be all the while.
    worked(unsafe { libc::syscall(libc::SYS_mprotect, start, bytes, c_long::from(protection)) })
}

/// Guards: what was there is gone, and each access faults.
pub(crate) fn install_guards(start: usize, bytes: usize) -> bool {
    // SAFETY: callers own these addresses, and what they hold is no longer wanted.
    worked(unsafe { libc::syscall(libc::SYS_madvise, start, bytes, GUARD_INSTALL) })
}

/// Whether the kernel itself cannot write there: some emulators say that they have done what they have not.
pub(crate) fn is_closed(start: usize) -> bool {
    let clock = c_long::from(libc::CLOCK_MONOTONIC);
    // SAFETY: callers own these addresses, which hold nothing.
    let status = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, start) };
    !worked(status)
}

/// Removes guards; pages without one stay as they are.
pub(crate) fn remove_guards(start: usize, bytes: usize) -> bool {
    // SAFETY: callers own these addresses.
    worked(unsafe { libc::syscall(libc::SYS_madvise, start, bytes, GUARD_REMOVE) })
}

/// This process, without a descriptor (`PIDFD_SELF_THREAD_GROUP`, Linux 6.15, `include/uapi/linux/pidfd.h`).
const THIS_PROCESS: c_long = -10_001;

/// Advises on ranges in one call, by `process_madvise`, which a process may ask of itself for all advice since Linux 6.13.
fn advise_many(ranges: &[(usize, usize)], advice: c_long) -> bool {
    let mut list = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MOST_RANGES];
    let Some(list) = list.get_mut(..ranges.len()).filter(|_| !sandbox::is_in()) else {
        return false;
    };
    for (part, &(start, bytes)) in list.iter_mut().zip(ranges) {
        (part.iov_base, part.iov_len) = (start as *mut _, bytes);
    }
    let all: usize = ranges.iter().map(|(_, bytes)| bytes).sum();
    // SAFETY: callers own these addresses; the list is that long.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            THIS_PROCESS,
            list.as_ptr(),
            list.len(),
            advice,
            0 as c_long,
        )
    };
    done == all as c_long
}

/// As [`remove_guards`].
pub(crate) fn remove_guards_of_many(ranges: &[(usize, usize)]) -> bool {
    advise_many(ranges, GUARD_REMOVE)
}

/// Gives pages memory, as if they were written to.
pub(crate) fn populate_many(ranges: &[(usize, usize)]) -> bool {
    advise_many(ranges, c_long::from(libc::MADV_POPULATE_WRITE))
}

/// As [`drop_pages`].
pub(crate) fn drop_many(ranges: &[(usize, usize)]) -> bool {
    advise_many(ranges, c_long::from(libc::MADV_DONTNEED))
}

/// Ranges that the functions for many take at once, at most.
pub(crate) const MOST_RANGES: usize = 64;

/// Gives pages back; the next touch finds zeros.
pub(crate) fn drop_pages(start: usize, bytes: usize) -> bool {
    let advice = c_long::from(libc::MADV_DONTNEED);
    // SAFETY: callers own these addresses, and what they hold is no longer wanted.
    worked(unsafe { libc::syscall(libc::SYS_madvise, start, bytes, advice) })
}

/// What is touched there gets no huge pages. Where the kernel knows none, nothing changes.
pub(crate) fn take_small_pages(start: usize, bytes: usize) {
    let advice = c_long::from(libc::MADV_NOHUGEPAGE);
    // SAFETY: changes no contents.
    unsafe { libc::syscall(libc::SYS_madvise, start, bytes, advice) };
}

/// Which pages of a range have memory: bit 0 of each byte of `pages`. False: the system does not say.
pub(crate) fn are_resident(start: usize, bytes: usize, pages: &mut [u8]) -> bool {
    let count = bytes / crate::page::bytes();
    // SAFETY: there is a byte for each page.
    count <= pages.len()
        && worked(unsafe { libc::syscall(libc::SYS_mincore, start, bytes, pages.as_mut_ptr()) })
}

/// Ends the locking of pages in memory, which guards do not go with.
pub(crate) fn unlock(start: usize, bytes: usize) -> bool {
    // SAFETY: changes no contents.
    worked(unsafe { libc::syscall(libc::SYS_munlock, start, bytes) })
}

/// Bytes that this process may still ask for, of addresses or of memory to be written to; `None`: no limit.
pub(crate) fn space_left() -> Option<usize> {
    let limits = [
        soft_limit(libc::RLIMIT_AS),
        soft_limit(libc::RLIMIT_DATA),
        commit_left(),
    ];
    limits.into_iter().flatten().min()
}

fn soft_limit(resource: libc::__rlimit_resource_t) -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid place for the answer.
    let told = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (told == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// Where the system promises no more memory than it has (`vm.overcommit_memory` is 2): what it has not promised yet, bytes.
fn commit_left() -> Option<usize> {
    let mut text = [0u8; 4096];
    let bytes = Descriptor::open(c"/proc/sys/vm/overcommit_memory")?.read(&mut text);
    if text[..bytes].first() != Some(&b'2') {
        return None;
    }
    let bytes = Descriptor::open(c"/proc/meminfo")?.read(&mut text);
    unpromised(std::str::from_utf8(&text[..bytes]).ok()?)
}

/// Of the text of `/proc/meminfo`, bytes.
fn unpromised(text: &str) -> Option<usize> {
    let value = |name: &str| {
        let mut lines = text.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    };
    let left = value("CommitLimit")?.saturating_sub(value("Committed_AS")?);
    Some(left << 10)
}

/// Cores may be as large as the hard limit says.
pub(crate) fn allow_core() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid place for the answer, which is a valid limit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_CORE, &raw const limit);
        }
    }
}

/// Mappings that a process may have.
pub(crate) fn most_mappings() -> Option<u64> {
    let mut text = [0u8; 24];
    let bytes = Descriptor::open(c"/proc/sys/vm/max_map_count")?.read(&mut text);
    std::str::from_utf8(&text[..bytes])
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The program's path, as far as it fits; empty: it is not known. Where there is no `/proc` it is that by which the program was
/// run.
pub(crate) fn executable(place: &mut [u8]) -> &[u8] {
    // SAFETY: a question about this process.
    let is_run_by_kernel = unsafe { libc::getauxval(libc::AT_BASE) } != 0;
    if !is_run_by_kernel {
        // By a loader that was run itself: that one's path is known.
        return &[];
    }
    let bytes = link_to_executable(place)
        .or_else(|| path_run_by(place))
        .unwrap_or(0);
    &place[..bytes]
}

/// Returns how long it is. A path that fills its place may be longer, and is none.
fn link_to_executable(place: &mut [u8]) -> Option<usize> {
    // SAFETY: the path is a C string, the buffer that long.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            c_long::from(libc::AT_FDCWD),
            c"/proc/self/exe".as_ptr(),
            place.as_mut_ptr(),
            place.len(),
        )
    };
    usize::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes < place.len())
}

/// As the kernel was told it, behind the current folder if it is relative. Returns how long it is.
fn path_run_by(place: &mut [u8]) -> Option<usize> {
    // SAFETY: null, or a C string that the kernel put on the stack.
    let told = unsafe { (libc::getauxval(libc::AT_EXECFN) as *const libc::c_char).as_ref() }?;
    // SAFETY: as above.
    let told = unsafe { std::ffi::CStr::from_ptr(told) }.to_bytes();
    let mut length = 0;
    if told.first() != Some(&b'/') {
        // SAFETY: the buffer is that long.
        let bytes = unsafe { libc::syscall(libc::SYS_getcwd, place.as_mut_ptr(), place.len()) };
        // In place of its zero byte.
        length = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?;
        place[length - 1] = b'/';
    }
    let end = length + told.len();
    place.get_mut(length..end)?.copy_from_slice(told);
    Some(end)
}

/// Descriptors that this process's table has room for, as it is now; `None`: that cannot be read.
pub(crate) fn descriptors() -> Option<usize> {
    let mut text = [0u8; 4096];
    let bytes = Descriptor::open(c"/proc/self/status")?.read(&mut text);
    let text = std::str::from_utf8(&text[..bytes]).ok()?;
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("FDSize:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_known_with_and_without_proc() {
        let mut place = [0; 1024];
        let known = std::env::current_exe().expect("it is known");
        let same = |path: &[u8]| {
            use std::os::unix::ffi::OsStrExt;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
            std::fs::canonicalize(path).ok() == std::fs::canonicalize(&known).ok()
        };
        assert!(same(executable(&mut place)));
        let bytes = path_run_by(&mut place).expect("the kernel says it");
        assert!(same(&place[..bytes]));
        assert_eq!(path_run_by(&mut [0; 3]), None, "there is no room");
        assert_eq!(link_to_executable(&mut [0; 3]), None);
    }

    #[test]
    fn what_the_system_has_not_promised_yet_is_left() {
        let text = "MemTotal:  9 kB\nCommitLimit:     3000 kB\nCommitted_AS:    1000 kB\n";
        assert_eq!(unpromised(text), Some(2000 << 10));
        let text = "CommitLimit: 1 kB\nCommitted_AS: 1000 kB\n";
        assert_eq!(unpromised(text), Some(0));
        assert_eq!(unpromised("MemTotal: 9 kB"), None);
    }
}
