//! What `pagewise.h` finds by name: requests of programs that know this library.

use std::ffi::CStr;
use std::ffi::c_char;
use std::ffi::c_void;

use pagewise_interpose::capture;

use crate::blocks;
use crate::handover;
use crate::handover::Handover;
use crate::plan::calls;

/// Locks a range as far as the budget goes; how many bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_lock(start: *const c_void, bytes: usize) -> usize {
    calls::lock(start as usize, bytes)
}

/// Ends the lock of a range.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_unlock(start: *const c_void, bytes: usize) {
    calls::unlock(start as usize, bytes);
}

/// Reads a range in without waiting for it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_prefetch(start: *const c_void, bytes: usize) {
    calls::prefetch(start as usize, bytes);
}

/// Pages a range out.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_release(start: *const c_void, bytes: usize) {
    calls::release(start as usize, bytes);
}

/// A range is swept again and again: keeps at most so many bytes of it and reads the rest ahead of the sweep.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_stream(start: *const c_void, bytes: usize, keep: usize) {
    calls::stream(start as usize, bytes, keep);
}

/// Says what the allocation that `start` points into is called.
///
/// # Safety
/// `name` is a C string.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pagewise_runtime_name(start: *const c_void, name: *const c_char) {
    if start.is_null() || name.is_null() {
        return;
    }
    // SAFETY: the caller's word.
    let name = unsafe { CStr::from_ptr(name) };
    blocks::named(start as usize, name.to_bytes());
}

/// A phase begins: what did not help before may help now. Its name is for people who read the source.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_phase_begin(_name: *const c_char) {
    calls::begin_phase();
}

/// A phase ends.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_phase_end(_name: *const c_char) {
    calls::end_phase();
}

/// Work is about to be handed over to another thread: what [`pagewise_runtime_on_behalf_of`] wants there.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_handover() -> Handover {
    handover::hand_over(capture())
}

/// This thread begins work that was handed over to it, in place of what it did before.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_on_behalf_of(handover: Handover) {
    handover::work_for(handover);
}

/// This thread has done work that was handed over to it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pagewise_runtime_done() {
    handover::work_for(Handover::default());
}
