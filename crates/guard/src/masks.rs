//! Masks of signals, without the two whose faults are ours: blocked, such a fault would end the program untold.

use std::ffi::c_int;

use libc::sigset_t;
use pagewise_interpose::Symbol;

use crate::signals::OURS;

type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

// SAFETY: the C library's type for the function of this name.
static SIGPROCMASK: Symbol<Mask> = unsafe { Symbol::new(c"sigprocmask") };
// SAFETY: as above.
static PTHREAD_SIGMASK: Symbol<Mask> = unsafe { Symbol::new(c"pthread_sigmask") };

pub(crate) fn prepare() {
    SIGPROCMASK.look_up();
    PTHREAD_SIGMASK.look_up();
}

/// Changes this thread's mask as asked for, also in the two.
pub(crate) fn change(how: c_int, set: &sigset_t) {
    if let Some(real) = PTHREAD_SIGMASK.known() {
        // SAFETY: a valid set.
        unsafe { real(how, set, std::ptr::null_mut()) };
    }
}

/// A set without the two that are never blocked; `None`: nothing is asked for.
///
/// # Safety
/// `set` must be null or valid.
unsafe fn without_ours(how: c_int, set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: by our caller.
    let mut set = *unsafe { set.as_ref() }?;
    if how != libc::SIG_UNBLOCK {
        for signal in OURS {
            // SAFETY: a valid set.
            unsafe { libc::sigdelset(&raw mut set, signal) };
        }
    }
    Some(set)
}

/// # Safety
/// As sigprocmask(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the same call as our caller's, but for the two signals.
    unsafe {
        let changed = without_ours(how, set);
        let set = changed
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        SIGPROCMASK
            .look_up()
            .map_or(-1, |real| real(how, set, before))
    }
}

/// # Safety
/// As pthread_sigmask(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the same call as our caller's, but for the two signals.
    unsafe {
        let changed = without_ours(how, set);
        let set = changed
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        PTHREAD_SIGMASK
            .look_up()
            .map_or(libc::ENOSYS, |real| real(how, set, before))
    }
}
