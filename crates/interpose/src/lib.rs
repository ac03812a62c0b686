//! The dangerous part of preloading, written once: code that runs inside other people's programs, in their
//! `malloc`, before their `main`, after their `fork`.
//!
//! Rules for everything here: never allocate (nor call what does, such as `pthread_getattr_np`), never panic, never print, keep `errno`, take no lock that a
//! signal handler or a forked child could find taken. What cannot be recorded is counted as lost.

mod address_set;
mod backtrace;
mod cfi;
mod connect;
mod early;
mod faults;
mod guard;
mod loader;
mod lookup;
mod maps;
mod open;
pub mod page_cache;
mod process;
pub mod processors;
mod ring;
mod sampler;
mod silence;
mod spin;
mod stack;
pub mod system;
mod thread;
pub mod unwind;

pub use address_set::AddressSet;
pub use backtrace::backtrace;
pub use connect::request_file;
pub use connect::request_precedence;
pub use early::EarlyPool;
pub use faults::Fault;
pub use faults::FaultEvents;
pub use guard::Entered;
pub use loader::LoadedModule;
pub use loader::Segment;
pub use loader::libraries_ever_loaded;
pub use loader::visit_modules;
pub use loader::visit_segments;
pub use lookup::Symbol;
pub use maps::write_maps;
pub use maps::write_modules;
pub use open::visit_open;
pub use process::process_generation;
pub use process::process_id;
pub use process::thread_id;
pub use ring::Producer;
pub use ring::RingCell;
pub use ring::pause;
pub use sampler::Sampler;
pub use silence::Read;
pub use silence::be_silent;
pub use silence::begins_sandbox;
pub use silence::let_others;
pub use spin::Held;
pub use spin::Spin;
pub use stack::Registers;
pub use stack::capture;
pub use stack::copy_stack;
pub use stack::stack_bytes_above;
pub use thread::Leftover;
pub use thread::forget_threads;
pub use thread::name_thread;
pub use thread::spawn;
pub use thread::spawn_here;

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
