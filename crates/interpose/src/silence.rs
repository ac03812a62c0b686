//! Programs that forbid themselves system calls: none is made there that other libraries do not make, too.

use std::ffi::c_int;
use std::ffi::c_ulong;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// Reads memory that may not be there from an address on, and returns how many bytes there were.
pub type Read = fn(&mut [u8], usize) -> usize;

/// How such memory is read without the kernel's help; null: the kernel may be asked.
static READ: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Looks while others are waited for in silence.
const SPINS: u32 = 64;
/// After so many looks of all threads the one that waits sleeps: it may be scheduled before the one that it waits for, which
/// never runs on this processor else (`SCHED_FIFO`).
const LOOKS_BEFORE_SLEEP: u32 = 1000;
/// That long, ns.
const SLEEP_NS: i64 = 50_000;
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// From now on the kernel is not asked for what can be done without, with what reads instead of it; `None`: it is again.
pub fn be_silent(read: Option<Read>) {
    let read = read.map_or(std::ptr::null_mut(), |read| read as *mut ());
    READ.store(read, Ordering::Release);
}

/// Whether a prctl(2) with these first arguments begins a sandbox. Programs find out by a filter at no address whether the
/// kernel has any: nothing comes of that.
pub fn begins_sandbox(option: c_int, mode: c_ulong, filter: c_ulong) -> bool {
    let is_probe = mode == c_ulong::from(libc::SECCOMP_MODE_FILTER) && filter == 0;
    option == libc::PR_SET_SECCOMP && !is_probe
}

/// What reads in place of the kernel; `None`: it may be asked.
pub(crate) fn reader() -> Option<Read> {
    let read = READ.load(Ordering::Acquire);
    // SAFETY: null, or a function of this type, stored above.
    (!read.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), Read>(read) })
}

/// Lets others run, of which one is waited for. In silence the kernel lets them when it will.
pub fn let_others() {
    if reader().is_some() {
        (0..SPINS).for_each(|_| std::hint::spin_loop());
    } else if (LOOKS.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(LOOKS_BEFORE_SLEEP) {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: SLEEP_NS,
        };
        // SAFETY: a valid time; the rest is not asked for.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
    } else {
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
    }
}
