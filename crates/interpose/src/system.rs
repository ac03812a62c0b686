//! System calls about memory, as they are: the functions of the C library may be interposed, by us.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;

use libc::c_long;

/// Pages that are in swap and asked for stay in the swap cache until they are touched.
pub const WILL_NEED: i32 = libc::MADV_WILLNEED;
/// Out of memory now.
pub const PAGE_OUT: i32 = libc::MADV_PAGEOUT;
/// Out of memory before others.
pub const COLD: i32 = libc::MADV_COLD;
/// Huge pages, where they fit.
pub const HUGE: i32 = libc::MADV_HUGEPAGE;
/// No huge pages.
pub const NO_HUGE: i32 = libc::MADV_NOHUGEPAGE;
/// Pages are wanted in order.
pub const SEQUENTIAL: i32 = libc::MADV_SEQUENTIAL;
/// As if each page were written, with what it holds; of memory that was never touched, huge pages where they fit (Linux 5.14).
pub const POPULATE: i32 = libc::MADV_POPULATE_WRITE;
/// The same for reading: nothing is changed.
pub const POPULATE_TO_READ: i32 = libc::MADV_POPULATE_READ;

/// A huge page of what lies there, whatever it is (Linux 6.1).
pub const COLLAPSE: i32 = 25;

const MLOCK_ONFAULT: c_long = 1;

fn result(value: c_long) -> Result<(), i32> {
    if value == 0 {
        return Ok(());
    }
    // SAFETY: this thread's own errno.
    Err(unsafe { *libc::__errno_location() })
}

/// `madvise` with advice that changes no contents (those of this module).
///
/// # Errors
/// The errno.
pub fn advise(start: usize, bytes: usize, advice: i32) -> Result<(), i32> {
    debug_assert!(
        [
            WILL_NEED,
            PAGE_OUT,
            COLD,
            HUGE,
            NO_HUGE,
            SEQUENTIAL,
            POPULATE,
            POPULATE_TO_READ,
            COLLAPSE
        ]
        .contains(&advice)
    );
    // SAFETY: none of these changes what memory holds; addresses without memory are refused.
    result(unsafe { libc::syscall(libc::SYS_madvise, start, bytes, c_long::from(advice)) })
}

/// Whether a page of private memory that is not mapped waits in the swap cache, read in already; also of one that is mapped. Unknown
/// is no. (mincore_swap of mm/mincore.c)
pub fn is_read_in(page: usize) -> bool {
    let mut state = 0u8;
    // SAFETY: the buffer has a byte for the one page; addresses without memory are refused.
    let read = result(unsafe { libc::syscall(libc::SYS_mincore, page, PAGE, &raw mut state) });
    read.is_ok() && state & 1 == 1
}

/// `mlock2(MLOCK_ONFAULT)`: pages are locked when they are touched.
///
/// # Errors
/// The errno.
pub fn lock_on_fault(start: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: changes no contents; addresses without memory are refused.
    result(unsafe { libc::syscall(libc::SYS_mlock2, start, bytes, MLOCK_ONFAULT) })
}

/// `mlock`: all pages are there, and locked.
///
/// # Errors
/// The errno.
pub fn lock_now(start: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: as above.
    result(unsafe { libc::syscall(libc::SYS_mlock, start, bytes) })
}

/// `munlock`.
///
/// # Errors
/// The errno.
pub fn unlock(start: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: as above.
    result(unsafe { libc::syscall(libc::SYS_munlock, start, bytes) })
}

/// Bytes that this process may lock; `None`: as many as it wants (`CAP_IPC_LOCK`).
pub fn lockable_bytes() -> Option<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_IPC_LOCK: u32 = 14;
    let mut header = [VERSION_3, 0];
    let mut sets = [0u32; 6];
    // SAFETY: header and sets have the form that version 3 wants (linux/capability.h).
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    if told == 0 && sets[0] & 1 << CAP_IPC_LOCK != 0 {
        return None;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid place for the answer.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    match told {
        0 if limit.rlim_cur == libc::RLIM_INFINITY => None,
        0 => Some(limit.rlim_cur),
        _ => Some(0),
    }
}

/// The machine's memory without swap, bytes; `None`: the kernel does not say.
pub fn memory_bytes() -> Option<u64> {
    let mut told = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: a valid place for the answer.
    let is_told = unsafe { libc::syscall(libc::SYS_sysinfo, told.as_mut_ptr()) } == 0;
    // SAFETY: zeros are valid, and so is what was told.
    let told = unsafe { told.assume_init() };
    is_told.then(|| told.totalram * u64::from(told.mem_unit))
}

/// Where a page of private memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory, and in the page table.
    Mapped,
    /// On the device, or in the swap cache and not mapped.
    Swapped,
    /// Never touched, or given back.
    Nowhere,
}

/// This process's page tables, as the kernel shows them. Open only as long as it is used: descriptors are the program's.
pub struct PageMap(c_long);

impl PageMap {
    /// `None`: it cannot be opened.
    pub fn open() -> Option<Self> {
        // SAFETY: the path is a C string.
        let file = unsafe {
            libc::syscall(
                libc::SYS_openat,
                c_long::from(libc::AT_FDCWD),
                c"/proc/self/pagemap".as_ptr(),
                c_long::from(libc::O_RDONLY | libc::O_CLOEXEC),
            )
        };
        (file >= 0).then_some(Self(file))
    }

    /// Whether a page, by its number, is mapped now; `None`: the kernel does not say.
    pub fn is_present(&self, page: usize) -> Option<bool> {
        Some(self.place(page)? == Place::Mapped)
    }

    /// Where a page is, by its number; `None`: the kernel does not say.
    pub fn place(&self, page: usize) -> Option<Place> {
        let mut entry = 0u64;
        // SAFETY: the buffer is a word.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                self.0,
                &raw mut entry,
                8 as c_long,
                page * 8,
            )
        };
        // Documentation/admin-guide/mm/pagemap.rst
        (bytes == 8).then_some(match entry >> 62 {
            0 => Place::Nowhere,
            1 => Place::Swapped,
            _ => Place::Mapped,
        })
    }

    /// Pages of this huge page's range that are in memory and nobody else's, which the kernel's page of zeros is not; `None`: the
    /// kernel does not say.
    pub fn own_pages(&self, region: usize) -> Option<usize> {
        const OWN: u64 = 1 << 63 | 1 << 56; // present, and mapped by this process alone
        let mut entries = [0u64; HUGE_PAGES];
        // SAFETY: the buffer is as long as said.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                self.0,
                entries.as_mut_ptr(),
                size_of_val(&entries),
                region / PAGE * 8,
            )
        };
        let is_whole = usize::try_from(bytes) == Ok(size_of_val(&entries));
        is_whole.then(|| entries.iter().filter(|entry| **entry & OWN == OWN).count())
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// Pages of this process that are in memory and of no file, nor shared; `None`: the kernel does not say.
pub fn own_resident_pages() -> Option<u64> {
    let mut text = [0u8; 256];
    let text = str::from_utf8(read_file(c"/proc/self/statm", &mut text)?).ok()?;
    // Documentation/filesystems/proc.rst: size, resident, shared, ...
    let mut numbers = text.split(' ').map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (numbers.nth(1)??, numbers.next()??);
    Some(resident.saturating_sub(shared))
}

/// The number of the process that made this one, or of who has taken its place.
pub fn parent_id() -> u32 {
    // SAFETY: getppid has no arguments and cannot fail.
    unsafe { libc::getppid() as u32 }
}

/// Whether any page of this process's private memory is in swap; `None`: the kernel does not say.
pub fn has_swapped() -> Option<bool> {
    is_not_zero(b"\nVmSwap:")
}

/// Whether it has shared memory: what of that is in swap the kernel does not count for the process; `None`: it does not say.
pub fn has_shared_memory() -> Option<bool> {
    is_not_zero(b"\nRssShmem:")
}

/// A line of `/proc/self/status`.
fn is_not_zero(key: &[u8]) -> Option<bool> {
    let mut text = [0u8; 4096];
    let text = read_file(c"/proc/self/status", &mut text)?;
    let at = text.windows(key.len()).position(|piece| piece == key)?;
    let value = text[at + key.len()..].iter();
    let first = value.into_iter().find(|byte| byte.is_ascii_digit())?;
    // Written without leading zeros.
    Some(*first != b'0')
}

/// What a file begins with, as far as there is room.
fn read_file<'text>(path: &CStr, text: &'text mut [u8]) -> Option<&'text [u8]> {
    // SAFETY: the path is a C string; the descriptor is closed below.
    let file = unsafe {
        libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            path.as_ptr(),
            c_long::from(libc::O_RDONLY | libc::O_CLOEXEC),
        )
    };
    if file < 0 {
        return None;
    }
    // SAFETY: the buffer has that length; the descriptor was opened above, and is closed once.
    let bytes = unsafe {
        let bytes = libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, file);
        bytes
    };
    text.get(..usize::try_from(bytes).ok()?)
}

/// Pages of a huge page.
pub const HUGE_PAGES: usize = 512;
const PAGE: usize = 4096;

/// Whether any page of this huge page's range has memory (`mincore`, which needs no descriptor); `None`: the range is not mapped.
pub fn has_memory(region: usize) -> Option<bool> {
    pages_with_memory(region).map(|pages| pages > 0)
}

fn pages_with_memory(region: usize) -> Option<usize> {
    let mut pages = [0u8; HUGE_PAGES];
    // SAFETY: the buffer has a byte for each page of the range.
    let told = unsafe {
        libc::syscall(
            libc::SYS_mincore,
            region,
            HUGE_PAGES * PAGE,
            pages.as_mut_ptr(),
        )
    };
    (told == 0).then(|| pages.iter().filter(|page| **page & 1 != 0).count())
}

/// Whether the first word of each page of this huge page's range is zero, read by the kernel, as the range may be unmapped
/// meanwhile; `None`: it cannot be read.
pub fn begins_with_zeros(region: usize) -> Option<bool> {
    first_words(region).map(|words| words.iter().all(|word| *word == 0))
}

/// Pages of zeros in this huge page's range, all of which has memory; `None`: it has not, or cannot be read.
pub fn zeros_of_whole(region: usize) -> Option<usize> {
    if pages_with_memory(region)? < HUGE_PAGES {
        return None;
    }
    let words = first_words(region)?;
    let maybe = (0..HUGE_PAGES).filter(|page| words[*page] == 0);
    Some(maybe.filter(|page| is_zeros(region + page * PAGE)).count())
}

fn is_zeros(page: usize) -> bool {
    let mut words = [0u64; PAGE / size_of::<u64>()];
    let from = libc::iovec {
        iov_base: page as *mut libc::c_void,
        iov_len: PAGE,
    };
    read_own(&mut words, &[from]) && words.iter().all(|word| *word == 0)
}

fn first_words(region: usize) -> Option<[u64; HUGE_PAGES]> {
    let mut words = [0u64; HUGE_PAGES];
    let from: [libc::iovec; HUGE_PAGES] = std::array::from_fn(|page| libc::iovec {
        iov_base: (region + page * PAGE) as *mut libc::c_void,
        iov_len: size_of::<u64>(),
    });
    read_own(&mut words, &from).then_some(words)
}

/// A word of this process's memory, which may be unmapped meanwhile; `None`: it cannot be read.
pub fn own_word(address: usize) -> Option<usize> {
    let mut words = [0u64];
    let from = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: size_of::<u64>(),
    };
    read_own(&mut words, &[from]).then_some(words[0] as usize)
}

/// This process's own memory, which may be unmapped or protected meanwhile; false: not all of it can be read.
pub(crate) fn read_own(words: &mut [u64], from: &[libc::iovec]) -> bool {
    let into = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: size_of_val(words),
    };
    // SAFETY: memory is read into the words, which are as long as said; what is not mapped is refused.
    let read = unsafe {
        libc::process_vm_readv(
            // Any thread stands for its process, but one that has ended has no memory: the first may have.
            crate::thread_id() as libc::pid_t,
            &raw const into,
            1,
            from.as_ptr(),
            from.len() as libc::c_ulong,
            0,
        )
    };
    read == into.iov_len as isize
}

/// Threads of this process, its first one included even when it has ended (`stat`, which needs no descriptor); `None`: the
/// kernel does not say.
pub fn threads() -> Option<usize> {
    // SAFETY: all zeros is a valid answer.
    let mut told: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and the place for the answer valid.
    let failed = unsafe { libc::stat(c"/proc/self/task".as_ptr(), &raw mut told) };
    let links = usize::try_from(told.st_nlink).ok()?;
    // Besides its folders, a folder has two links.
    links.checked_sub(2).filter(|_| failed == 0)
}

/// Whether the first thread of this process has ended and others have not: it has no memory any more.
pub fn has_first_thread_ended() -> bool {
    let word = 0u64;
    let mut copy = 0u64;
    let part = |place: *mut u64| libc::iovec {
        iov_base: place.cast(),
        iov_len: size_of::<u64>(),
    };
    let (into, from) = (part(&raw mut copy), part((&raw const word).cast_mut()));
    // SAFETY: a word of this thread's is read into another.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const into, 1, &raw const from, 1, 0)
    };
    // SAFETY: this thread's own errno.
    read < 0 && unsafe { *libc::__errno_location() } == libc::ESRCH
}

/// Whether any signal is blocked in this thread, as while it is handled.
pub fn is_any_signal_blocked() -> bool {
    let mut blocked = u64::MAX;
    // SAFETY: without a new set nothing changes; the kernel's sets have 64 signals.
    let told = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            c_long::from(libc::SIG_BLOCK),
            std::ptr::null::<u64>(),
            &raw mut blocked,
            size_of::<u64>(),
        )
    };
    told != 0 || blocked != 0
}

/// Where the heap (`brk`) ends now.
pub fn heap_end() -> usize {
    // SAFETY: an end that cannot be is refused, and the end told.
    unsafe { libc::syscall(libc::SYS_brk, 0 as c_long) as usize }
}

/// Sleeps so long at most, or until [`wake`] is called or `word` no longer is `value`.
pub fn wait(word: &AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    // SAFETY: the word and the time live.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
        )
    };
}

/// Wakes who waits for the word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// Major faults of this process so far.
pub fn major_faults() -> u64 {
    usage(libc::RUSAGE_SELF).ru_majflt as u64
}

/// Time in user mode of this process so far, ns, and its major faults.
pub fn headway() -> (u64, u64) {
    let usage = usage(libc::RUSAGE_SELF);
    let user = usage.ru_utime;
    let user_ns = 1_000_000_000 * user.tv_sec as u64 + 1_000 * user.tv_usec as u64;
    (user_ns, usage.ru_majflt as u64)
}

/// Minor and major faults of this process so far, those on behalf of its system calls included, but for this thread's.
pub fn faults_of_others() -> u64 {
    let faults = |of| {
        let usage = usage(of);
        (usage.ru_minflt + usage.ru_majflt) as u64
    };
    faults(libc::RUSAGE_SELF).saturating_sub(faults(libc::RUSAGE_THREAD))
}

fn usage(of: libc::c_int) -> libc::rusage {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    unsafe { libc::getrusage(of, &raw mut usage) };
    usage
}

/// Minor faults of this thread so far, those on behalf of its system calls included.
pub fn thread_faults() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_minflt as u64
}

/// Whether the kernel frees the zeros of a huge page that it splits. It has since the change that brought this switch, which is
/// about splitting for that reason (Linux 6.12), whatever it is set to.
pub fn frees_zeros_on_split() -> bool {
    const SWITCH: &std::ffi::CStr = c"/sys/kernel/mm/transparent_hugepage/shrink_underused";
    // SAFETY: the path is a C string.
    unsafe { libc::access(SWITCH.as_ptr(), libc::F_OK) == 0 }
}

/// Fresh memory of the library's own, all zeros, so many bytes; `None`: there is none.
pub fn map(bytes: usize) -> Option<usize> {
    // SAFETY: a new mapping; nobody is told of it.
    let start = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            0 as c_long,
            bytes,
            c_long::from(libc::PROT_READ | libc::PROT_WRITE),
            c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
            -1 as c_long,
            0 as c_long,
        )
    };
    usize::try_from(start).ok().filter(|&start| start > 0)
}

/// Has the kernel give this page memory and take it away again: its translations are flushed wherever there may be any. Of [`map`], and
/// nobody else's.
pub fn touch_and_forget(page: usize) {
    // SAFETY: it is mapped, and nobody else has it.
    unsafe { (page as *mut u8).write_volatile(1) };
    let _ = advise(page, PAGE, libc::MADV_DONTNEED);
}

/// Processor time of this thread, ns.
pub fn thread_time_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps so long, or until a signal.
pub fn pause_ns(ns: u64) {
    let pause = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    // SAFETY: a valid duration; what is left of it after a signal does not matter.
    unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_memory_is_refused_with_its_errno() {
        assert_eq!(advise(0x1000, 4096, WILL_NEED), Err(libc::ENOMEM));
        assert_eq!(lock_on_fault(0x1000, 4096), Err(libc::ENOMEM));
        assert_eq!(unlock(0x1000, 4096), Err(libc::ENOMEM));
    }

    #[test]
    fn what_was_paged_out_is_in_swap_where_there_is_any() {
        let is_known = has_swapped().is_some();
        assert!(is_known);
        let memory = vec![1u8; 64 * 4096];
        let page = (memory.as_ptr() as usize).next_multiple_of(4096);
        assert_eq!(advise(page, 32 * 4096, PAGE_OUT), Ok(()));
        let map = PageMap::open().expect("one's own page map");
        if map.is_present(page / 4096) == Some(false) {
            assert_eq!(has_swapped(), Some(true));
        }
    }

    #[test]
    fn threads_are_counted_and_the_first_lives() {
        let counted = std::thread::spawn(threads).join().expect("it ends");
        assert!(counted.is_some_and(|threads| threads >= 2), "{counted:?}");
        assert!(!has_first_thread_ended());
        assert!(!is_any_signal_blocked());
    }

    #[test]
    fn a_page_is_locked_and_unlocked() {
        let memory = vec![1u8; 3 * 4096];
        let page = (memory.as_ptr() as usize).next_multiple_of(4096);
        assert_eq!(lock_on_fault(page, 4096), Ok(()));
        assert_eq!(unlock(page, 4096), Ok(()));
        assert!(thread_time_ns() > 0);
    }
}
