//! A thread that the program's C library does not know of, and that shares nothing with it but memory.

use std::ffi::c_int;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use libc::c_long;

use crate::page;
use crate::system;

/// Bytes of its stack.
const STACK: usize = 128 << 10;
/// Room around what is looked for beside the thread pointer.
const SLACK: usize = 64 << 10;
/// The highest descriptor of all.
const LAST_DESCRIPTOR: c_long = u32::MAX as c_long;
/// Its processor is chosen again after so many faults; the next one waits for that, some 20 us.
const FOLLOW_EVERY: u32 = 512;

/// Its memory: thread-local variables, then its stack. A forked child uses it again.
static MEMORY: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Addresses of its memory: what it is at may point to any object.
pub(crate) fn place() -> std::ops::Range<usize> {
    let start = MEMORY.load(Ordering::Relaxed);
    start..start + BYTES.load(Ordering::Relaxed)
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the word at the thread pointer is the pointer itself (System V ABI).
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    };
    pointer
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack));
    };
    pointer
}

/// Starts it. No signal reaches it. The error is errno.
pub(super) fn spawn(body: extern "C" fn()) -> Result<(), c_int> {
    let here = thread_pointer();
    // SAFETY: this thread's own errno; only its address is looked at.
    let errno = unsafe { libc::__errno_location() as usize };
    // errno is as far from the thread pointer there as it is here.
    let room = page::floor(here.abs_diff(errno) + SLACK) + page::bytes();
    let bytes = 2 * room + STACK;
    if MEMORY.load(Ordering::Relaxed) == 0 {
        let memory = system::reserve(bytes).ok_or(libc::ENOMEM)?;
        if !system::set_usable(memory, bytes, true) {
            return Err(libc::ENOMEM);
        }
        BYTES.store(bytes, Ordering::Relaxed);
        MEMORY.store(memory, Ordering::Relaxed);
    }
    let memory = MEMORY.load(Ordering::Relaxed);
    let pointer = memory + room;
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS;
    let (all, mut before) = ([u64::MAX], [0u64]);
    // SAFETY: masks of the kernel's size, which are put back; the memory is the new thread's alone, with its thread pointer's
    // word as the ABI has it; nothing of its C library's is used there but system calls and errno.
    unsafe {
        (pointer as *mut usize).write(pointer);
        let mask = |set: *const u64, old: *mut u64| {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                c_long::from(libc::SIG_SETMASK),
                set,
                old,
                size_of::<u64>(),
            )
        };
        mask(all.as_ptr(), before.as_mut_ptr());
        let stack = (memory + bytes) as *mut c_void;
        let none = std::ptr::null_mut::<c_void>();
        let thread = libc::clone(
            begin,
            stack,
            flags,
            body as *mut c_void,
            none,
            pointer as *mut c_void,
            none,
        );
        let why = *libc::__errno_location();
        mask(before.as_ptr(), std::ptr::null_mut());
        if thread < 0 { Err(why) } else { Ok(()) }
    }
}

extern "C" fn begin(body: *mut c_void) -> c_int {
    // SAFETY: the table of descriptors is a copy, of this thread alone; `spawn` passed a function of this type.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            0 as c_long,
            LAST_DESCRIPTOR,
            0 as c_long,
        );
        std::mem::transmute::<*mut c_void, extern "C" fn()>(body)();
    }
    0
}

/// Keeps this thread on the processor of the one that faults most lately: woken on another it comes ten times as late.
pub(super) struct Follower {
    count: u32,
    processor: usize,
}

impl Follower {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            processor: usize::MAX,
        }
    }

    /// A thread's fault was served.
    pub(super) fn follow(&mut self, thread: u32) {
        if self.count == 0
            && let Some(processor) = processor_of(thread)
            && processor != self.processor
        {
            self.processor = processor;
            go_to(processor);
        }
        self.count = (self.count + 1) % FOLLOW_EVERY;
    }
}

fn go_to(processor: usize) {
    // SAFETY: all zeros is an empty set; the number is below the set's size; this thread.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        if processor < 8 * size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(processor, &mut set);
            libc::syscall(
                libc::SYS_sched_setaffinity,
                0 as c_long,
                size_of_val(&set),
                &raw const set,
            );
        }
    }
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
    // SAFETY: the path ends with a zero, the buffer has that length, and the descriptor is closed once.
    let bytes = unsafe {
        let file = libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            path.as_ptr(),
            c_long::from(libc::O_RDONLY | libc::O_CLOEXEC),
        );
        if file < 0 {
            return None;
        }
        let bytes = libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, file);
        bytes
    };
    let text = text.get(..usize::try_from(bytes).ok()?)?;
    processor_in(text)
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
