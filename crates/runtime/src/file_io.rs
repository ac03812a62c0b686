//! `read`, `write` and their family: what a plan says about I/O is done before and after the program's own call, and a recorder that
//! wants it is told of the call.
//!
//! Calls go on to the C library, as they are points at which threads may be cancelled. The C library then unwinds the thread's stack, through
//! the hook's frame: nothing there is to be cleaned up. The next function is called as one of the ABI `C`, not `C-unwind`, as around the latter a library
//! that aborts on panics has pads that end the program; and by the hook itself, with no function of ours in between.

use std::ffi::c_void;

use libc::iovec;
use pagewise_abi::file_calls::CallKind;
use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::file_calls;
use crate::file_calls::Begun;
use crate::file_calls::Call;
use crate::plan::io;
use crate::plan::io::At;
use crate::plan::io::Request;
use crate::settings;

/// Leaves nothing in the page cache that was not there before (Linux 6.14).
const RWF_DONTCACHE: i32 = 0x80;

/// What is done for a call besides making it.
struct Looked {
    call: Call,
    planned: Option<io::Call>,
    told: Option<Begun>,
}

#[cold]
fn before(call: Call, bytes: u64, registers: Registers) -> Looked {
    let planned = request(call, bytes).and_then(|request| io::before(request, registers));
    let told = file_calls::begin(call, registers);
    Looked {
        call,
        planned,
        told,
    }
}

/// Makes a call that is to leave nothing in the page cache, by `number`. `None`: it is not to; `Err`: that was refused, with this errno.
///
/// `vector`: the program's own, or one of its buffer; `flags`: the call's own.
fn leave_nothing(
    looked: &Looked,
    number: libc::c_long,
    vector: (*const iovec, i32),
    flags: i32,
) -> Option<Result<isize, i32>> {
    looked.planned.as_ref().filter(|call| call.leaves_nothing)?;
    let result = without_cache(number, looked.call, vector, flags);
    // SAFETY: this thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let is_refused = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS].contains(&errno);
    Some(match result < 0 && is_refused {
        true => Err(errno),
        false => Ok(result),
    })
}

/// The call is over; `refused`: it was first tried in another way, in vain.
#[cold]
fn after(looked: Looked, refused: Option<i32>, result: isize) {
    if let Some(begun) = &looked.told {
        file_calls::end(begun, result as i64);
    }
    let Some(mut call) = looked.planned else {
        return;
    };
    // Else the program's own arguments may be what is refused.
    if let Some(errno) = refused.filter(|_| result >= 0) {
        io::cannot_leave_nothing(&mut call, errno);
    }
    io::after(&call, u64::try_from(result).unwrap_or(0));
}

/// `preadv2` or `pwritev2` with the flag; at -1 the descriptor's own position counts.
fn without_cache(
    number: libc::c_long,
    call: Call,
    (vector, count): (*const iovec, i32),
    flags: i32,
) -> isize {
    let offset = match call.at {
        Some(At::Offset(offset)) => offset as i64,
        _ => -1,
    };
    // SAFETY: the program's own buffers, as it handed them over; the kernel checks them.
    let done = unsafe {
        libc::syscall(
            number,
            libc::c_long::from(call.descriptor),
            vector,
            libc::c_long::from(count),
            offset,
            // The upper half of the offset, which 64-bit kernels do not look at.
            0 as libc::c_long,
            libc::c_long::from(flags | RWF_DONTCACHE),
        )
    };
    done as isize
}

/// Whether a call is anything but the program's own.
#[inline(always)]
fn is_looked_at() -> bool {
    io::is_any() || settings::wants_file_calls()
}

/// A function's name, as a C string.
macro_rules! name_of {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!(),
        }
    };
}

/// A hook of a call on one buffer: the further arguments, which call it is, where, and by which call it leaves nothing in the page cache.
macro_rules! on_buffer {
    ($name:ident($($more:ident: $kind:ty),*), $call:ident, $at:expr, $other:expr) => {
        /// # Safety
        /// As the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            descriptor: i32,
            buffer: *mut c_void,
            bytes: usize,
            $($more: $kind),*
        ) -> isize {
            type Function = unsafe extern "C" fn(i32, *mut c_void, usize, $($kind),*) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new(name_of!($name)) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            if !is_looked_at() {
                // SAFETY: our caller's promise.
                return unsafe { next(descriptor, buffer, bytes, $($more),*) };
            }
            let call = call(CallKind::$call, descriptor, $at);
            let looked = before(call, bytes as u64, capture());
            let vector = [iovec { iov_base: buffer, iov_len: bytes }];
            let (refused, result) = match leave_nothing(&looked, $other, (vector.as_ptr(), 1), 0) {
                Some(Ok(result)) => (None, result),
                refused => {
                    // SAFETY: our caller's promise.
                    let result = unsafe { next(descriptor, buffer, bytes, $($more),*) };
                    (refused.and_then(Result::err), result)
                }
            };
            after(looked, refused, result);
            result
        }
    };
}

/// A hook of a call on several buffers: the same, and with which flags of its own.
macro_rules! on_vector {
    ($name:ident($($more:ident: $kind:ty),*), $call:ident, $at:expr, $other:expr, $flags:expr) => {
        /// # Safety
        /// As the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            descriptor: i32,
            vector: *const iovec,
            count: i32,
            $($more: $kind),*
        ) -> isize {
            type Function = unsafe extern "C" fn(i32, *const iovec, i32, $($kind),*) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new(name_of!($name)) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            if !is_looked_at() {
                // SAFETY: our caller's promise.
                return unsafe { next(descriptor, vector, count, $($more),*) };
            }
            let call = call(CallKind::$call, descriptor, $at);
            // The buffers are the kernel's to look at: they need not be readable.
            let looked = before(call, 0, capture());
            let (refused, result) = match leave_nothing(&looked, $other, (vector, count), $flags) {
                Some(Ok(result)) => (None, result),
                refused => {
                    // SAFETY: our caller's promise.
                    let result = unsafe { next(descriptor, vector, count, $($more),*) };
                    (refused.and_then(Result::err), result)
                }
            };
            after(looked, refused, result);
            result
        }
    };
}

/// A hook of a call that has a file written back.
macro_rules! on_file {
    ($name:ident, $call:ident) => {
        /// # Safety
        /// As the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(descriptor: i32) -> i32 {
            type Function = unsafe extern "C" fn(i32) -> i32;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new(name_of!($name)) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing();
            };
            if !settings::wants_file_calls() {
                // SAFETY: our caller's promise.
                return unsafe { next(descriptor) };
            }
            let begun = file_calls::begin(call(CallKind::$call, descriptor, None), capture());
            // SAFETY: our caller's promise.
            let result = unsafe { next(descriptor) };
            if let Some(begun) = begun {
                file_calls::end(&begun, result.into());
            }
            result
        }
    };
}

fn call(kind: CallKind, descriptor: i32, at: Option<At>) -> Call {
    Call {
        kind,
        descriptor,
        at,
    }
}

/// What a plan may have something to say about.
fn request(call: Call, bytes: u64) -> Option<Request> {
    use CallKind::Pwrite;
    use CallKind::Pwritev;
    use CallKind::Write;
    use CallKind::Writev;
    let at = call.at.filter(|_| io::is_any())?;
    Some(Request {
        descriptor: call.descriptor,
        at,
        bytes,
        is_write: matches!(call.kind, Write | Pwrite | Writev | Pwritev),
    })
}

/// Where a call begins that states it. `None`: nowhere, so that the kernel refuses it, with `RWF_DONTCACHE` as without: by other calls
/// -1 would mean the descriptor's own position.
fn at(offset: i64) -> Option<At> {
    u64::try_from(offset).ok().map(At::Offset)
}

/// The same of `preadv2` and `pwritev2`, to which -1 means the descriptor's own position.
fn at_or_cursor(offset: i64) -> Option<At> {
    match offset {
        -1 => CURSOR,
        _ => at(offset),
    }
}

const CURSOR: Option<At> = Some(At::Cursor);

const READ: libc::c_long = libc::SYS_preadv2;
const WRITE: libc::c_long = libc::SYS_pwritev2;

on_buffer!(read(), Read, CURSOR, READ);
on_buffer!(pread(offset: i64), Pread, at(offset), READ);
on_buffer!(pread64(offset: i64), Pread, at(offset), READ);
on_buffer!(__read_chk(room: usize), Read, CURSOR, READ);
on_buffer!(__pread_chk(offset: i64, room: usize), Pread, at(offset), READ);
on_buffer!(__pread64_chk(offset: i64, room: usize), Pread, at(offset), READ);
on_buffer!(write(), Write, CURSOR, WRITE);
on_buffer!(pwrite(offset: i64), Pwrite, at(offset), WRITE);
on_buffer!(pwrite64(offset: i64), Pwrite, at(offset), WRITE);
on_vector!(readv(), Readv, CURSOR, READ, 0);
on_vector!(preadv(offset: i64), Preadv, at(offset), READ, 0);
on_vector!(preadv64(offset: i64), Preadv, at(offset), READ, 0);
on_vector!(preadv2(offset: i64, flags: i32), Preadv, at_or_cursor(offset), READ, flags);
on_vector!(preadv64v2(offset: i64, flags: i32), Preadv, at_or_cursor(offset), READ, flags);
on_vector!(writev(), Writev, CURSOR, WRITE, 0);
on_vector!(pwritev(offset: i64), Pwritev, at(offset), WRITE, 0);
on_vector!(pwritev64(offset: i64), Pwritev, at(offset), WRITE, 0);
on_vector!(pwritev2(offset: i64, flags: i32), Pwritev, at_or_cursor(offset), WRITE, flags);
on_vector!(pwritev64v2(offset: i64, flags: i32), Pwritev, at_or_cursor(offset), WRITE, flags);
on_file!(fsync, Fsync);
on_file!(fdatasync, Fdatasync);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_before_the_file_is_no_place() {
        assert!(at(0) == Some(At::Offset(0)) && at(i64::MAX) == Some(At::Offset(i64::MAX as u64)));
        assert!(at(-1).is_none() && at(i64::MIN).is_none());
        assert!(at_or_cursor(-1) == CURSOR && at_or_cursor(-2).is_none());
    }
}
