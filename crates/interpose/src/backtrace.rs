//! The call path of a hook, walked in the process itself by the unwinder of the compiler's library.
//!
//! It does not allocate; from glibc 2.35 and gcc 12 on it takes no lock either (`_dl_find_object`), before that the
//! linker's, which a thread may take again.

use std::ffi::c_void;

type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;

const GO_ON: i32 = 0;
/// `_URC_END_OF_STACK`: any other than 0 ends the walk.
const STOP: i32 = 5;
/// A stack that goes on beyond this is not walked to its end.
const MOST_FRAMES: usize = 256;

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(callback: Callback, argument: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Walk<'a> {
    visit: &'a mut dyn FnMut(usize) -> bool,
    frames: usize,
}

unsafe extern "C" fn step(context: *mut c_void, argument: *mut c_void) -> i32 {
    // SAFETY: `argument` is the walk of `backtrace`, which lives until the unwinder returns.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    // SAFETY: the unwinder's own context.
    let address = unsafe { _Unwind_GetIP(context) };
    walk.frames += 1;
    if address == 0 || walk.frames > MOST_FRAMES || !(walk.visit)(address) {
        return STOP;
    }
    GO_ON
}

/// Visits return addresses, innermost first, until `visit` is false or the stack ends.
pub fn backtrace(visit: &mut dyn FnMut(usize) -> bool) {
    let mut walk = Walk { visit, frames: 0 };
    // SAFETY: the callback has the type that the unwinder wants, and `walk` lives across the call.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deeper_call_has_more_frames_and_a_visit_ends_it() {
        #[inline(never)]
        fn count(deeper: usize) -> usize {
            if deeper > 0 {
                return std::hint::black_box(count(deeper - 1));
            }
            let mut frames = 0;
            backtrace(&mut |_| {
                frames += 1;
                true
            });
            frames
        }
        let shallow = count(0);
        assert!(shallow > 2);
        assert_eq!(count(5), shallow + 5);
        let mut frames = 0;
        backtrace(&mut |_| {
            frames += 1;
            frames < 3
        });
        assert_eq!(frames, 3);
    }
}
