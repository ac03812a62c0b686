//! `sbrk` and `brk`, for programs with allocators of their own. (The C library's allocator does not come this way.)

use std::ffi::c_void;

use pagewise_abi::AllocationKind;
use pagewise_interpose::Registers;
use pagewise_interpose::capture;

use crate::plan;
use crate::plan::Hook;
use crate::plan::Leaving;
use crate::settings::is_large;
use crate::stream::Made;
use crate::stream::allocated;
use crate::stream::releasing;

unsafe extern "C" {
    /// The C library's `sbrk` by its other name: looking up the next `sbrk` may allocate, and allocators call this.
    fn __sbrk(increment: isize) -> *mut c_void;
}

const FAILED: usize = usize::MAX;

/// # Safety
/// As sbrk(2).
unsafe fn move_end(increment: isize, registers: Registers) -> *mut c_void {
    let bytes = increment.unsigned_abs();
    let is_recorded = increment != 0 && is_large(bytes);
    if is_recorded && increment < 0 {
        // SAFETY: sbrk(0) changes nothing.
        let end = unsafe { __sbrk(0) } as usize;
        releasing(end.wrapping_sub(bytes), bytes);
    }
    if increment < 0 {
        // SAFETY: sbrk(0) changes nothing.
        let end = unsafe { __sbrk(0) } as usize;
        plan::leaving(end.wrapping_sub(bytes), bytes, Leaving::Unmapped);
    }
    // SAFETY: the same call as our caller's.
    let before = unsafe { __sbrk(increment) };
    if increment > 0 && before as usize != FAILED && plan::wants(bytes) {
        plan::allocated(before as usize, bytes, Hook::Mapping, None);
    }
    if is_recorded && increment > 0 && before as usize != FAILED {
        let made = Made {
            address: before as usize,
            bytes,
            kind: AllocationKind::Brk,
            registers,
        };
        allocated(made, 0);
    }
    before
}

/// # Safety
/// As sbrk(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sbrk(increment: isize) -> *mut c_void {
    // SAFETY: our caller's promise.
    unsafe { move_end(increment, capture()) }
}

/// # Safety
/// As brk(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn brk(end: *mut c_void) -> i32 {
    // SAFETY: sbrk(0) changes nothing.
    let now = unsafe { __sbrk(0) } as usize;
    let increment = (end as usize).wrapping_sub(now) as isize;
    // SAFETY: our caller's promise: moving the end by the distance moves it there.
    let before = unsafe { move_end(increment, capture()) };
    if before as usize == FAILED { -1 } else { 0 }
}
