//! Threads that are to be cancelled (pthread_cancel(3)): not while they are at work of ours, which opens files and waits, and would
//! end there, untold and with what others wait for.

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`, which the libc crate does not have.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Does something during which this thread is not cancelled. It may be afterwards.
pub(crate) fn hold_off<T>(act: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: a valid place for the state before.
    let is_held = unsafe { pthread_setcancelstate(DISABLE, &raw mut before) } == 0;
    let done = act();
    if is_held {
        // SAFETY: the state that it had; the one now is not asked for.
        unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    }
    done
}
