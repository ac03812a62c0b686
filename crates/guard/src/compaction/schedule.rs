//! On which processors the compactor and those that wait for it run. On the same one, a fault takes two switches between
//! threads. On two it takes two wake-ups of a processor that may be halted: ten times as long on a virtual machine.
//!
//! The kernel wakes a thread on an idle processor if there is one, while the compactor is still at this one. So the compactor lies
//! low when it wakes somebody: see [`super::watch`]. Where that starves it, who waits is
//! tied to the compactor's processor for the moment in which it is woken; and the compactor is scheduled before all others (which takes a
//! privilege), or the other might go on while it is tied.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use libc::c_long;
use pagewise_interpose::Symbol;

use super::watch;
use crate::descriptor::Descriptor;
use crate::paths;

/// Of a thread whose processor is not known otherwise, it is asked for after so many faults; the next one waits for that, some
/// 20 us.
const FOLLOW_EVERY: u32 = 512;
/// Threads whose processors are known at once.
const THREADS: usize = 1024;
/// Words of a set of processors.
const SET: usize = 16;
const NOWHERE: usize = usize::MAX;

/// Where a thread's processor is found, as long as the thread lives.
struct Running {
    thread: AtomicU32,
    processor: AtomicUsize,
}

static RUNNING: [Running; THREADS] = [const {
    Running {
        thread: AtomicU32::new(0),
        processor: AtomicUsize::new(0),
    }
}; THREADS];

// SAFETY: the C library's number of that name: where its `struct rseq` is from the thread pointer on (glibc 2.35).
static RSEQ_OFFSET: Symbol<&'static isize> = unsafe { Symbol::new(c"__rseq_offset") };
// SAFETY: the C library's number of that name: 0 where the kernel was not told of the structure.
static RSEQ_SIZE: Symbol<&'static u32> = unsafe { Symbol::new(c"__rseq_size") };
/// Of `cpu_id` in `struct rseq` (`include/uapi/linux/rseq.h`).
const CPU_ID: usize = 4;

/// Ends a thread's entry with it.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let thread = NOTED.try_with(Cell::get).unwrap_or(0);
        entry(thread).thread.store(0, Ordering::Release);
    }
}

thread_local! {
    /// The number under which this thread is known; 0: it is not.
    static NOTED: Cell<u32> = const { Cell::new(0) };
    /// Its first use allocates: only where [`NOTED`] is set already.
    static ENDING: Ending = const { Ending };
}

fn entry(thread: u32) -> &'static Running {
    &RUNNING[thread as usize % THREADS]
}

/// Looks up what is asked for later, while that may take a lock.
pub(super) fn prepare() {
    RSEQ_OFFSET.look_up();
    RSEQ_SIZE.look_up();
}

/// This thread may wait for the compactor from now on.
#[inline(always)]
pub(super) fn note_this_thread() {
    let _ = NOTED.try_with(|noted| {
        if noted.get() == 0 {
            noted.set(paths::known_thread());
            if noted.get() != 0 {
                note(noted.get());
            }
        }
    });
}

/// In a forked child, whose thread has another number.
pub(super) fn in_child() {
    let _ = NOTED.try_with(|noted| noted.set(0));
    for entry in &RUNNING {
        entry.thread.store(0, Ordering::Relaxed);
    }
}

#[cold]
fn note(thread: u32) {
    if ENDING.try_with(|_| ()).is_err() {
        return;
    }
    let (Some(&offset), Some(&size)) = (RSEQ_OFFSET.known(), RSEQ_SIZE.known()) else {
        return;
    };
    if size as usize > CPU_ID {
        let word = super::thread::thread_pointer().wrapping_add_signed(offset) + CPU_ID;
        entry(thread).thread.store(0, Ordering::Relaxed);
        entry(thread).processor.store(word, Ordering::Release);
        entry(thread).thread.store(thread, Ordering::Release);
    }
}

/// The processor of a thread that waits for us, where the kernel keeps it up to date.
fn processor_now(thread: u32) -> Option<usize> {
    let entry = entry(thread);
    let is_its = || entry.thread.load(Ordering::Acquire) == thread;
    let word =
        Some(entry.processor.load(Ordering::Acquire)).filter(|&word| is_its() && word != 0)?;
    // SAFETY: in the thread's own memory of its C library, which lasts until it has left the table.
    usize::try_from(unsafe { (word as *const i32).read_volatile() }).ok()
}

/// A set of processors, as the kernel has it.
struct Set {
    words: [u64; SET],
    bytes: c_long,
}

impl Set {
    fn of(thread: u32) -> Option<Self> {
        let mut words = [0; SET];
        // SAFETY: there is as much room as is said.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                c_long::from(thread),
                size_of_val(&words),
                words.as_mut_ptr(),
            )
        };
        (bytes > 0).then_some(Self { words, bytes })
    }

    fn only(processor: usize) -> Option<Self> {
        let mut words = [0; SET];
        *words.get_mut(processor / 64)? |= 1 << (processor % 64);
        let bytes = size_of_val(&words) as c_long;
        Some(Self { words, bytes })
    }

    fn is_one(&self) -> bool {
        self.words.iter().map(|word| word.count_ones()).sum::<u32>() == 1
    }

    /// Thread 0 is this one.
    fn apply(&self, thread: u32) -> bool {
        // SAFETY: a set of that length.
        let status = unsafe {
            libc::syscall(
                libc::SYS_sched_setaffinity,
                c_long::from(thread),
                self.bytes,
                self.words.as_ptr(),
            )
        };
        status == 0
    }
}

/// Keeps this thread, the compactor's, on the processor of those that wait for it, and them there when they are woken.
pub(super) struct Follower {
    processor: usize,
    /// No other thread of the program runs here before this one waits again.
    is_first: bool,
    /// Where the last one was that was elsewhere.
    elsewhere: usize,
    count: u32,
    low: Low,
}

/// When the compactor lies low: not for a while after it had to be raised, each time for longer.
struct Low {
    is_possible: bool,
    /// As far as known, of [`watch::raised`].
    raised: u32,
    /// So many are tied before the next one.
    tied: u32,
    /// So many were tied the last time.
    tied_last: u32,
    /// So many were woken since.
    since: u32,
}

impl Low {
    /// Who is tied at least and at most after the compactor was raised; so many that were woken without make it forgotten.
    const TIED: (u32, u32) = (256, 1 << 16);
    const FORGOTTEN: u32 = 1 << 12;

    fn new(is_first: bool) -> Self {
        Self {
            is_possible: is_first && watch::begin(),
            raised: watch::raised(),
            tied: 0,
            tied_last: 0,
            since: 0,
        }
    }

    /// Whether the next one is to be woken so.
    fn is_next(&mut self) -> bool {
        let raised = watch::raised();
        if raised != self.raised {
            self.raised = raised;
            self.since = 0;
            self.tied_last = (2 * self.tied_last).clamp(Self::TIED.0, Self::TIED.1);
            self.tied = self.tied_last;
        }
        if self.tied > 0 {
            self.tied -= 1;
            return false;
        }
        self.since += 1;
        if self.since == Self::FORGOTTEN {
            self.tied_last = 0;
        }
        self.is_possible
    }
}

impl Follower {
    pub(super) fn new() -> Self {
        let is_first = watch::come_first(0);
        Self {
            processor: NOWHERE,
            is_first,
            elsewhere: NOWHERE,
            count: 0,
            low: Low::new(is_first),
        }
    }

    /// Wakes a thread.
    pub(super) fn wake(&mut self, thread: u32, wake: impl FnOnce() -> bool) {
        let there = processor_now(thread).filter(|_| self.is_first);
        if there == Some(self.processor) {
            self.elsewhere = NOWHERE;
            if self.low.is_next() {
                watch::lie_low();
                wake();
            } else {
                watch::stand_up();
                tied(thread, self.processor, wake);
            }
            return;
        }
        wake();
        match there {
            // Twice from there: it stays there.
            Some(there) if there == self.elsewhere => self.go_to(there),
            Some(there) => self.elsewhere = there,
            None => self.follow(thread),
        }
    }

    fn follow(&mut self, thread: u32) {
        if self.count == 0
            && let Some(processor) = processor_of(thread)
            && processor != self.processor
        {
            self.go_to(processor);
        }
        self.count = (self.count + 1) % FOLLOW_EVERY;
    }

    fn go_to(&mut self, processor: usize) {
        self.processor = processor;
        stay_on(processor);
    }
}

/// Ties this thread.
pub(super) fn stay_on(processor: usize) {
    if let Some(set) = Set::only(processor) {
        set.apply(0);
    }
}

/// Serves a thread that waits on this processor and is not to go on elsewhere. It cannot look at its own set meanwhile; what
/// others make of it then is lost.
fn tied<T>(thread: u32, processor: usize, serve: impl FnOnce() -> T) -> T {
    let before = Set::of(thread).filter(|set| !set.is_one());
    let is_tied = before.is_some() && Set::only(processor).is_some_and(|set| set.apply(thread));
    let served = serve();
    if let Some(before) = before.filter(|_| is_tied) {
        before.apply(thread);
    }
    served
}

/// The processor on which a thread ran last (proc_pid_stat(5), field 39).
fn processor_of(thread: u32) -> Option<usize> {
    let mut path = [0u8; 40];
    let mut at = 0;
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    let mut rest = thread;
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    for part in [b"/proc/self/task/", &digits[first..], b"/stat"] {
        path[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let mut text = [0u8; 512];
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let bytes = Descriptor::open(path)?.read(&mut text);
    processor_in(&text[..bytes])
}

fn processor_in(text: &[u8]) -> Option<usize> {
    /// Fields behind the name, of which the first is the third of all.
    const PROCESSOR: usize = 39 - 3;
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = text[name_end + 2..].split(|&byte| byte == b' ');
    std::str::from_utf8(fields.nth(PROCESSOR)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_while_they_live_and_tied_for_a_moment() {
        prepare();
        let thread = std::thread::spawn(|| {
            note_this_thread();
            let thread = paths::this_thread();
            let Some(now) = processor_now(thread) else {
                let is_registered = RSEQ_SIZE.known().is_some_and(|&size| size > 0);
                assert!(!is_registered, "an emulator's kernel has none");
                return thread;
            };
            let before = Set::of(thread).expect("its own");
            let inside = tied(thread, now, || Set::of(thread).expect("its own"));
            assert!(inside.is_one());
            assert_eq!(Set::of(thread).expect("its own").words, before.words);
            thread
        });
        let thread = thread.join().expect("joined");
        assert_eq!(processor_now(thread), None, "it has ended");
    }

    #[test]
    fn the_processor_of_a_thread_is_read() {
        let line = b"7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 100 0 0 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n";
        assert_eq!(processor_in(line), Some(3));
        assert_eq!(processor_in(b"nonsense"), None);
        // SAFETY: no arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // SAFETY: no arguments.
        let most = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as usize;
        assert!(processor_of(thread).is_some_and(|processor| processor < most));
    }
}
