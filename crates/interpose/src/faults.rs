//! The program's own page faults, told by the kernel: a software event of each thread, whose ring this process reads.
//!
//! The descriptor is closed as soon as its ring is mapped: the mapping keeps the event, and a program that closes all
//! descriptors, or counts them, does not notice.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use libc::c_long;

const PAGE: usize = 4096;
/// Of data; a power of two.
const DATA_PAGES: usize = 16;
const DATA: usize = DATA_PAGES * PAGE;
/// Each costs memory for its ring.
const MOST_THREADS: usize = 128;
const REFUSED_FOR_NS: u64 = 1_000_000_000;
/// Offsets of `data_head` and `data_tail` (struct perf_event_mmap_page).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

const TYPE_SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;
/// Time, address and processor.
const SAMPLE: u64 = 1 << 2 | 1 << 3 | 1 << 7;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const USE_CLOCK: u64 = 1 << 25;
const CLOEXEC: c_long = 1 << 3;
const RECORD_SAMPLE: u32 = 9;

/// struct perf_event_attr as of its fifth version (linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    unused: [u64; 4],
    stack: u32,
    clock: i32,
    registers: u64,
    watermark: u32,
    rest: u32,
}

/// A fault in user mode, minor or major, that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The address that was touched.
    pub address: usize,
    /// The thread that touched it; 0: not known.
    pub thread: u32,
    /// Where that was; `None`: not known.
    pub processor: Option<u32>,
}

#[derive(Clone, Copy)]
struct Ring {
    thread: u32,
    start: *mut u8,
}

/// The rings of this process's threads. To be used by one thread.
pub struct FaultEvents {
    rings: [Option<Ring>; MOST_THREADS],
    unfollowed: usize,
    /// Some thread was refused: none is asked for until then.
    refused_until_ns: u64,
}

impl FaultEvents {
    /// Of no thread yet.
    pub const fn new() -> Self {
        Self {
            rings: [None; MOST_THREADS],
            unfollowed: 0,
            refused_until_ns: 0,
        }
    }

    /// Threads that the last look found and that could not be followed, too.
    pub fn unfollowed(&self) -> usize {
        self.unfollowed
    }

    /// Looks for threads that have come or gone, all but the caller, and follows them.
    ///
    /// # Errors
    /// Why none could be followed: an errno.
    pub fn look_for_threads(&mut self) -> Result<(), i32> {
        let own = crate::thread_id();
        let mut seen = [false; MOST_THREADS];
        let mut failed = None;
        let mut unfollowed = 0;
        // To ask for each thread at each look costs the threads, too.
        let mut is_refused = crate::now_ns() < self.refused_until_ns;
        for_each_thread(&mut |thread| {
            if thread == own {
                return;
            }
            let known = |ring: &Option<Ring>| ring.is_some_and(|ring| ring.thread == thread);
            if let Some(index) = self.rings.iter().position(known) {
                seen[index] = true;
                return;
            }
            let free = self.rings.iter().position(Option::is_none);
            let Some(free) = free.filter(|_| !is_refused) else {
                unfollowed += 1;
                return;
            };
            match open(thread) {
                Ok(start) => {
                    self.rings[free] = Some(Ring { thread, start });
                    seen[free] = true;
                }
                Err(errno) => {
                    failed = Some(errno);
                    // It has ended, or there is no memory just now: that passes.
                    is_refused = !matches!(errno, libc::ESRCH | libc::ENOMEM);
                    unfollowed += usize::from(is_refused);
                    if is_refused {
                        self.refused_until_ns = crate::now_ns() + REFUSED_FOR_NS;
                    }
                }
            }
        });
        self.unfollowed = unfollowed;
        for (ring, _) in self.rings.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            if let Some(ring) = ring.take() {
                unmap(ring.start);
            }
        }
        match failed {
            Some(errno) if self.rings.iter().all(Option::is_none) => Err(errno),
            _ => Ok(()),
        }
    }

    /// Hands on what was told since the last time, thread by thread.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Fault)) {
        for ring in self.rings.iter().flatten() {
            ring.drain(sink);
        }
    }

    /// Follows nobody any more.
    pub fn stop(&mut self) {
        for ring in self.rings.iter_mut().filter_map(Option::take) {
            unmap(ring.start);
        }
    }

    /// The kernel tells of no faults of the threads that are followed until [`FaultEvents::go_on`], which costs less than to stop and to look
    /// for threads anew.
    ///
    /// # Errors
    /// Why not: an errno; a filter of system calls, say.
    pub fn pause(&self) -> Result<(), i32> {
        control_own_events(libc::PR_TASK_PERF_EVENTS_DISABLE)
    }

    /// As before [`FaultEvents::pause`].
    ///
    /// # Errors
    /// Why not: an errno.
    pub fn go_on(&self) -> Result<(), i32> {
        control_own_events(libc::PR_TASK_PERF_EVENTS_ENABLE)
    }

    /// Forgets rings that a forked child does not have.
    pub fn forget(&mut self) {
        self.rings = [None; MOST_THREADS];
    }
}

impl Default for FaultEvents {
    fn default() -> Self {
        Self::new()
    }
}

/// Of the events that this thread has opened, whichever threads they are of: only those of rings (`perf_event_task_disable`,
/// kernel/events/core.c, 6.18).
fn control_own_events(command: i32) -> Result<(), i32> {
    // SAFETY: no pointers; the events are this thread's own.
    let result = unsafe { libc::syscall(libc::SYS_prctl, command, 0, 0, 0, 0) };
    match result {
        0 => Ok(()),
        // SAFETY: this thread's own errno.
        _ => Err(unsafe { *libc::__errno_location() }),
    }
}

impl Ring {
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: offsets of aligned words within the mapping's first page, which lives until `unmap`.
        unsafe { &*self.start.add(offset).cast::<AtomicU64>() }
    }

    /// Records are multiples of 8 bytes, so that no word wraps.
    fn data(&self, at: u64) -> u64 {
        let offset = PAGE + at as usize % DATA;
        // SAFETY: within the data pages, aligned; the kernel does not write between tail and head.
        unsafe { self.start.add(offset).cast::<u64>().read_volatile() }
    }

    fn drain(&self, sink: &mut dyn FnMut(Fault)) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let header = self.data(tail);
            let bytes = header >> 48;
            if bytes < 8 {
                tail = head; // not what a kernel writes
                break;
            }
            if header as u32 == RECORD_SAMPLE {
                sink(Fault {
                    time_ns: self.data(tail + 8),
                    address: self.data(tail + 16) as usize,
                    thread: self.thread,
                    processor: Some(self.data(tail + 24) as u32),
                });
            }
            tail += bytes;
        }
        self.word(TAIL).store(tail, Ordering::Release);
    }
}

fn open(thread: u32) -> Result<*mut u8, i32> {
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PAGE_FAULTS,
        period: 1,
        sample_type: SAMPLE,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | USE_CLOCK,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    let errno = || {
        // SAFETY: this thread's own errno.
        unsafe { *libc::__errno_location() }
    };
    // SAFETY: the attributes live across the call and state their size.
    let file = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread as c_long,
            -1 as c_long,
            -1 as c_long,
            CLOEXEC,
        )
    };
    if file < 0 {
        return Err(errno());
    }
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            std::ptr::null_mut::<u8>(),
            PAGE + DATA,
            c_long::from(libc::PROT_READ | libc::PROT_WRITE),
            c_long::from(libc::MAP_SHARED),
            file,
            0 as c_long,
        )
    };
    let failed = errno();
    // SAFETY: opened above, closed once.
    unsafe { libc::syscall(libc::SYS_close, file) };
    if start > 0 {
        Ok(start as *mut u8)
    } else {
        Err(failed)
    }
}

fn unmap(start: *mut u8) {
    // SAFETY: mapped by `open`, and forgotten by the caller.
    unsafe { libc::syscall(libc::SYS_munmap, start, PAGE + DATA) };
}

/// The numbers of this process's threads, without allocating.
fn for_each_thread(visit: &mut dyn FnMut(u32)) {
    // SAFETY: the path is a C string.
    let folder = unsafe {
        libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            c"/proc/self/task".as_ptr(),
            c_long::from(libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC),
        )
    };
    if folder < 0 {
        return;
    }
    let mut entries = [0u64; 256];
    loop {
        // SAFETY: the buffer is valid for its length.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder,
                entries.as_mut_ptr(),
                size_of_val(&entries),
            )
        };
        let Some(bytes) = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0) else {
            break;
        };
        // SAFETY: the kernel filled so many bytes.
        let text = unsafe { std::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), bytes) };
        visit_entries(text, visit);
    }
    // SAFETY: opened above, closed once.
    unsafe { libc::syscall(libc::SYS_close, folder) };
}

/// Entries of struct linux_dirent64: a length (u16) at 16, a name at 19.
fn visit_entries(mut entries: &[u8], visit: &mut dyn FnMut(u32)) {
    while let Some(length) = entries.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let Some(name) = entries.get(19..length) else {
            return;
        };
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0u32, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u32::from(digit - b'0'))
        });
        if number > 0 {
            visit(number);
        }
        entries = &entries[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beyond_the_rings_are_counted() {
        const THREADS: usize = MOST_THREADS + 2;
        let mut events = FaultEvents::new();
        let (begun, ended) = (
            std::sync::Barrier::new(THREADS + 1),
            std::sync::Barrier::new(THREADS + 1),
        );
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begun.wait();
                    ended.wait();
                });
            }
            begun.wait();
            // Where the kernel refuses them all, all are counted.
            let _ = events.look_for_threads();
            assert!(events.unfollowed() >= 2, "{}", events.unfollowed());
            events.stop();
            ended.wait();
        });
    }

    #[test]
    fn anothers_first_touches_are_told_with_their_addresses() {
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel::<usize>();
        let thread = std::thread::spawn(move || {
            asked.recv().expect("asked");
            let memory = vec![0u8; 1 << 20];
            let start = memory.as_ptr() as usize;
            for page in 0..memory.len() / PAGE {
                // SAFETY: within the vector, which nobody else knows.
                unsafe { ((start + page * PAGE) as *mut u8).write_volatile(1) };
            }
            answer.send(start).expect("told");
            asked.recv().expect("asked");
        });
        let mut events = FaultEvents::new();
        if let Err(errno) = events.look_for_threads() {
            // Where the kernel refuses (perf_event_paranoid), it says so; the plan has another way then.
            assert!(
                [libc::EACCES, libc::EPERM, libc::ENOSYS].contains(&errno),
                "{errno}"
            );
            return;
        }
        ask.send(()).expect("asked");
        let start = answered.recv().expect("told");
        let mut pages = std::collections::BTreeSet::new();
        events.drain(&mut |fault| {
            assert!(fault.time_ns <= crate::now_ns());
            if (start..start + (1 << 20)).contains(&fault.address) {
                pages.insert(fault.address / PAGE);
            }
        });
        assert!(pages.len() > 200, "{}", pages.len());
        ask.send(()).expect("asked");
        thread.join().expect("joined");
        events.look_for_threads().expect("some are left");
        events.stop();
    }
}
