//! The dangerous part of preloading, written once: code that runs inside other people's programs, in their
//! `malloc`, before their `main`, after their `fork`.
//!
//! Rules for everything here: never allocate, never panic, never print, keep `errno`, take no lock that a
//! signal handler or a forked child could find taken. What cannot be recorded is counted as lost.

mod connect;
mod early;
mod guard;
mod lookup;
mod maps;
mod ring;
mod stack;

pub use early::EarlyPool;
pub use guard::Entered;
pub use lookup::Symbol;
pub use maps::write_maps;
pub use ring::Producer;
pub use stack::Registers;
pub use stack::capture;
pub use stack::copy_stack;
pub use stack::stack_bytes_above;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// CLOCK_MONOTONIC in ns, without a system call.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread's number.
pub fn thread_id() -> u32 {
    thread_local!(static THREAD: std::cell::Cell<(u32, u32)> = const { std::cell::Cell::new((0, 0)) });
    let pid = process_id();
    THREAD
        .try_with(|cached| {
            if cached.get().0 != pid {
                cached.set((pid, raw_thread_id()));
            }
            cached.get().1
        })
        .unwrap_or_else(|_| raw_thread_id())
}

fn raw_thread_id() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// This process's number, asked of the kernel each time: a child of a bare `clone` must not pass for its parent.
pub fn process_id() -> u32 {
    // SAFETY: getpid has no arguments and cannot fail.
    unsafe { libc::getpid() as u32 }
}

/// Runs `body` with `errno` as it was before.
pub fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: __errno_location is this thread's own, always valid.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let before = unsafe { *place };
    let result = body();
    // SAFETY: see above.
    unsafe { *place = before };
    result
}

/// A number that a forked child knows not to be its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// True the first time a process asks, and again in each forked child.
pub fn is_new_process() -> bool {
    let pid = process_id();
    OWNER.swap(pid, Ordering::AcqRel) != pid
}
