//! Programs that forbid themselves system calls (seccomp(2)): a filter that knows nothing of us may end the program at one that
//! only we make. What we need is asked for before; from then on, what needs a further call is left out.
//!
//! A filter that is set by a bare system call is not seen.

use std::cell::Cell;
use std::ffi::c_int;
use std::ffi::c_ulong;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pagewise_interpose as interpose;
use pagewise_interpose::Symbol;

use crate::stream;

type SeccompLoad = unsafe extern "C" fn(*mut c_void) -> c_int;

// SAFETY: libseccomp's type for the function of this name.
static SECCOMP_LOAD: Symbol<SeccompLoad> = unsafe { Symbol::new(c"seccomp_load") };

/// Children are in it, too.
static IS_IN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The process as [`interpose::process_generation`] has it, and this thread's number in it.
    static THREAD: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Whether this process has, or is about to have, a filter of its own making.
#[inline(always)]
pub(crate) fn is_in() -> bool {
    IS_IN.load(Ordering::Relaxed)
}

/// This thread's number, asked of the kernel once; 0 for threads that begin in a sandbox, where it is not asked.
pub(crate) fn thread_id() -> u32 {
    let process = interpose::process_generation();
    let ask = || if is_in() { 0 } else { interpose::thread_id() };
    let known = THREAD.try_with(|known| {
        // A forked child's only thread has another one.
        if known.get().0 != process || known.get().1 == 0 {
            known.set((process, ask()));
        }
        known.get().1
    });
    known.unwrap_or_else(|_| ask())
}

/// Memory that may not be there is not looked at: the kernel would have to be asked.
fn read_nothing(_: &mut [u8], _: usize) -> usize {
    0
}

/// Does what may be the begin of a sandbox, prepared. Where that fails there is none.
fn enter(begin: impl FnOnce() -> c_int) -> c_int {
    if !is_in() {
        thread_id();
        stream::prepare();
    }
    let was_in = IS_IN.swap(true, Ordering::Relaxed);
    interpose::be_silent(Some(read_nothing));
    let status = begin();
    if !was_in && status != 0 {
        IS_IN.store(false, Ordering::Relaxed);
        interpose::be_silent(None);
    }
    status
}

/// # Safety
/// As prctl(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    // SAFETY: the same call as our caller's; registers that it did not set are passed on as they are.
    let call = || unsafe {
        let option = libc::c_long::from(option);
        libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int
    };
    if !interpose::begins_sandbox(option, second, third) {
        return call();
    }
    enter(call)
}

/// # Safety
/// As seccomp_load(3) of libseccomp, whose own system call is not seen here.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn seccomp_load(filter: *mut c_void) -> c_int {
    let Some(real) = SECCOMP_LOAD.look_up() else {
        return -libc::ENOSYS;
    };
    // SAFETY: the same call as our caller's.
    enter(|| unsafe { real(filter) })
}
