//! System calls that a program makes by their numbers, through the C library's `syscall`: buffers are looked at as those of the
//! functions of the same names, and a filter of seccomp(2) is the begin of a sandbox. What is written in assembler, or by a library
//! that is linked statically, is not seen.
//!
//! Our own calls come this way, too: what they pass is on stacks.

mod calls;
mod entry;

use std::ffi::c_int;
use std::ffi::c_long;
use std::ffi::c_ulong;

use pagewise_interpose::Registers;
use pagewise_interpose::begins_sandbox;
use pagewise_interpose::capture;

use crate::buffers::check_either;
use crate::buffers::check_list;
use crate::buffers::check_message;
use crate::buffers::check_messages;
use crate::buffers::check_sets;
use crate::buffers::check_told;
use crate::sandbox;
use calls::Arguments;
use calls::Call;
use calls::Look;
pub use entry::syscall;

/// The kernel's errors are the last so many numbers.
const MOST_ERRORS: isize = 4095;
/// `operation` of seccomp(2), and what makes it return a descriptor (`include/uapi/linux/seccomp.h`).
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 1 << 3;

/// A call of which nothing is looked at. What the program did not pass is whatever is there, as with the C library's.
///
/// # Safety
/// As syscall(2).
unsafe extern "C" fn plain(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    // SAFETY: the same call as our caller's.
    unsafe { make(number, &[first, second, third, fourth, fifth, sixth]) }
}

/// As [`plain`], once its arguments were looked at.
///
/// # Safety
/// As syscall(2).
unsafe extern "C" fn looked_at(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let arguments = [first, second, third, fourth, fifth, sixth];
    if let Some(call) = calls::of(number) {
        look_at(call, &arguments, capture());
    }
    // SAFETY: the same call as our caller's.
    let make = || unsafe { make(number, &arguments) };
    match begins(number, &arguments) {
        None => make(),
        Some(is_refused) => sandbox::enter(make, |&result| is_refused(&arguments, result)),
    }
}

/// Tells of buffers that the kernel is about to fill or to read and that are not all of one live object.
fn look_at(call: &Call, arguments: &Arguments, registers: Registers) {
    let &Call(_, name, looks) = call;
    for look in looks {
        let (buffer, length, is_filled) = match look {
            Look::Filled(place, length) => (arguments[*place], length, true),
            Look::Read(place, length) => (arguments[*place], length, false),
            other => {
                look_at_several(name, other, arguments, registers);
                continue;
            }
        };
        let bytes = length.of(arguments);
        check_either(name, buffer, bytes, is_filled, registers);
    }
}

/// As [`look_at`], of lists of buffers, or with lengths elsewhere.
#[inline(never)]
fn look_at_several(name: &'static str, look: &Look, arguments: &Arguments, registers: Registers) {
    let of = |place: usize| arguments[place];
    match *look {
        Look::Filled(..) | Look::Read(..) => {}
        Look::FilledList(list, count) => {
            check_list(name, of(list) as *const _, of(count), true, registers);
        }
        Look::ReadList(list, count) => {
            check_list(name, of(list) as *const _, of(count), false, registers);
        }
        Look::FilledMessage(message) => {
            check_message(name, of(message) as *const _, true, registers);
        }
        Look::ReadMessage(message) => {
            check_message(name, of(message) as *const _, false, registers);
        }
        Look::FilledMessages(list, count) => {
            check_messages(name, of(list) as *const _, of(count) as _, true, registers);
        }
        Look::ReadMessages(list, count) => {
            check_messages(name, of(list) as *const _, of(count) as _, false, registers);
        }
        Look::Told(buffer, length) => {
            let length = of(length) as *const _;
            check_told(name, of(buffer) as *const _, length, registers);
        }
        Look::Sets => {
            let sets = [1, 2, 3].map(|which| of(which) as *const _);
            check_sets(name, of(0) as c_int, sets, registers);
        }
    }
}

/// Whether a call that was to begin a sandbox was refused, by its arguments and what it returned.
type IsRefused = fn(&Arguments, c_long) -> bool;

/// Whether a call may be the begin of a sandbox.
fn begins(number: c_long, arguments: &Arguments) -> Option<IsRefused> {
    let &[first, second, third, ..] = arguments;
    let may_begin = match number {
        libc::SYS_prctl => begins_sandbox(first as c_int, second as c_ulong, third as c_ulong),
        // A filter at no address is how programs ask whether the kernel has any.
        libc::SYS_seccomp => {
            first == SECCOMP_SET_MODE_STRICT || first == SECCOMP_SET_MODE_FILTER && third != 0
        }
        _ => false,
    };
    may_begin.then_some(is_refused)
}

/// A thread that is in another sandbox is named by its number, which is no success; a descriptor is.
fn is_refused(arguments: &Arguments, result: c_long) -> bool {
    result < 0 || result > 0 && arguments[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER == 0
}

/// The call itself. What the kernel says of errors is errno's.
///
/// # Safety
/// As syscall(2).
#[inline(always)]
unsafe fn make(number: c_long, arguments: &Arguments) -> c_long {
    // SAFETY: by our caller.
    let result = unsafe { entry::enter_kernel(number, arguments) };
    if (-MOST_ERRORS..0).contains(&result) {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_long
}

#[cfg(test)]
mod tests {
    use super::*;

    type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

    #[test]
    fn calls_return_what_the_c_library_says() {
        // SAFETY: the function takes any number of arguments.
        let ours: Syscall = unsafe { std::mem::transmute(syscall as *const ()) };
        let mut bytes = [0u8; 4];
        // SAFETY: no pointers but to a buffer of that length; `mmap` has six arguments, and is undone.
        unsafe {
            assert_eq!(ours(libc::SYS_getpid), c_long::from(libc::getpid()));
            assert_eq!(ours(libc::SYS_close, -1 as c_long), -1);
            assert_eq!(*libc::__errno_location(), libc::EBADF);
            let zero = libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY);
            bytes.fill(1);
            let place = bytes.as_mut_ptr();
            let zero = c_long::from(zero);
            assert_eq!(ours(libc::SYS_read, zero, place, 3usize), 3);
            let (read, private) = (
                c_long::from(libc::PROT_READ),
                c_long::from(libc::MAP_PRIVATE),
            );
            let none = 0 as c_long;
            let page = ours(libc::SYS_mmap, none, 4096usize, read, private, zero, none);
            assert!(page > 0 && *(page as *const u8) == 0);
            assert_eq!(ours(libc::SYS_munmap, page, 4096usize), 0);
            assert_eq!(ours(libc::SYS_close, zero), 0);
        }
        assert_eq!(bytes, [0, 0, 0, 1]);
    }

    #[test]
    fn filters_begin_sandboxes_and_questions_do_not() {
        let filter = 0x1000;
        let of = |number, arguments| begins(number, &arguments).is_some();
        assert!(of(libc::SYS_seccomp, [1, 0, filter, 0, 0, 0]));
        assert!(of(libc::SYS_seccomp, [0, 0, 0, 0, 0, 0]));
        assert!(!of(libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]), "a probe");
        assert!(!of(libc::SYS_seccomp, [2, 0, filter, 0, 0, 0]));
        let option = libc::PR_SET_SECCOMP as usize;
        let mode = libc::SECCOMP_MODE_FILTER as usize;
        assert!(of(libc::SYS_prctl, [option, mode, filter, 0, 0, 0]));
        assert!(!of(libc::SYS_prctl, [option, mode, 0, 0, 0, 0]));
        assert!(!of(libc::SYS_read, [option, mode, filter, 0, 0, 0]));
        assert!(is_refused(&[1, 1, filter, 0, 0, 0], 77), "a thread");
        assert!(!is_refused(&[1, 8, filter, 0, 0, 0], 77), "a descriptor");
        assert!(is_refused(&[1, 8, filter, 0, 0, 0], -1));
    }
}
