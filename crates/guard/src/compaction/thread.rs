//! A thread that the program's C library does not know of, and that shares nothing with it but memory.

use std::ffi::c_int;
use std::ffi::c_void;
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

/// Memory of such a thread: thread-local variables, then its stack. A forked child uses it again.
pub(super) struct Memory {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Its addresses: what the thread is at may point to any object.
    pub(super) fn place(&self) -> std::ops::Range<usize> {
        let start = self.start.load(Ordering::Relaxed);
        start..start + self.bytes.load(Ordering::Relaxed)
    }

    /// Where it begins, reserved if it was not. The error is errno.
    fn reserve(&self, bytes: usize) -> Result<usize, c_int> {
        if self.start.load(Ordering::Relaxed) == 0 {
            let memory = system::reserve(bytes).ok_or(libc::ENOMEM)?;
            if !system::set_usable(memory, bytes, true) {
                return Err(libc::ENOMEM);
            }
            self.bytes.store(bytes, Ordering::Relaxed);
            self.start.store(memory, Ordering::Relaxed);
        }
        Ok(self.start.load(Ordering::Relaxed))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the word at the thread pointer is the pointer itself (System V ABI).
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    };
    pointer
}

#[cfg(target_arch = "aarch64")]
pub(super) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack));
    };
    pointer
}

/// Starts one. No signal reaches it. The error is errno.
pub(super) fn spawn(memory: &Memory, body: extern "C" fn()) -> Result<(), c_int> {
    let here = thread_pointer();
    // SAFETY: this thread's own errno; only its address is looked at.
    let errno = unsafe { libc::__errno_location() as usize };
    // errno is as far from the thread pointer there as it is here.
    let room = page::floor(here.abs_diff(errno) + SLACK) + page::bytes();
    let bytes = 2 * room + STACK;
    let memory = memory.reserve(bytes)?;
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
