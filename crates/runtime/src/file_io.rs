//! `read`, `write` and their family: what a plan says about I/O is done before and after the program's own call.
//!
//! Calls go on to the C library, as they are points at which threads may be cancelled.

use std::ffi::c_void;

use libc::iovec;
use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::plan::io;
use crate::plan::io::At;
use crate::plan::io::Request;

/// Leaves nothing in the page cache that was not there before (Linux 6.14).
const RWF_DONTCACHE: i32 = 0x80;

/// Makes a call between `before` and `after`. `leaving_nothing` is the same call with `RWF_DONTCACHE`.
#[cold]
fn around(
    request: Request,
    registers: Registers,
    plain: &dyn Fn() -> isize,
    leaving_nothing: &dyn Fn() -> isize,
) -> isize {
    let Some(mut call) = io::before(request, registers) else {
        return plain();
    };
    let mut result = -1;
    if call.leaves_nothing {
        result = leaving_nothing();
        // SAFETY: this thread's own errno.
        let errno = unsafe { *libc::__errno_location() };
        let is_refused = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS].contains(&errno);
        if result < 0 && is_refused {
            result = plain();
            // Else the program's own arguments may be what is refused.
            if result >= 0 {
                io::cannot_leave_nothing(&mut call, errno);
            }
        }
    } else {
        result = plain().max(result);
    }
    io::after(&call, u64::try_from(result).unwrap_or(0));
    result
}

/// `preadv2` or `pwritev2` with the flag; at -1 the descriptor's own position counts.
///
/// `flags`: the call's own.
fn without_cache(
    number: libc::c_long,
    request: Request,
    (vector, count): (*const iovec, i32),
    flags: i32,
) -> isize {
    let offset = match request.at {
        At::Offset(offset) => offset as i64,
        At::Cursor | At::Buffer => -1,
    };
    // SAFETY: the program's own buffers, as it handed them over; the kernel checks them.
    let done = unsafe {
        libc::syscall(
            number,
            libc::c_long::from(request.descriptor),
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

/// A function's name, as a C string.
macro_rules! name_of {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!(),
        }
    };
}

/// A hook of a call on one buffer: the further arguments, where it is, and by which call it leaves nothing in the page cache.
macro_rules! on_buffer {
    ($name:ident($($more:ident: $kind:ty),*), $at:expr, $is_write:literal, $other:expr) => {
        /// # Safety
        /// As the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            descriptor: i32,
            buffer: *mut c_void,
            bytes: usize,
            $($more: $kind),*
        ) -> isize {
            type Function = unsafe extern "C-unwind" fn(i32, *mut c_void, usize, $($kind),*) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new(name_of!($name)) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            let Some(at) = $at.filter(|_| io::is_any()) else {
                // SAFETY: our caller's promise.
                return unsafe { next(descriptor, buffer, bytes, $($more),*) };
            };
            let request = Request {
                descriptor,
                at,
                bytes: bytes as u64,
                is_write: $is_write,
            };
            let vector = [iovec { iov_base: buffer, iov_len: bytes }];
            around(
                request,
                capture(),
                // SAFETY: our caller's promise.
                &|| unsafe { next(descriptor, buffer, bytes, $($more),*) },
                &|| without_cache($other, request, (vector.as_ptr(), 1), 0),
            )
        }
    };
}

/// A hook of a call on several buffers: the same, and with which flags of its own.
macro_rules! on_vector {
    ($name:ident($($more:ident: $kind:ty),*), $at:expr, $is_write:literal, $other:expr, $flags:expr) => {
        /// # Safety
        /// As the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            descriptor: i32,
            vector: *const iovec,
            count: i32,
            $($more: $kind),*
        ) -> isize {
            type Function = unsafe extern "C-unwind" fn(i32, *const iovec, i32, $($kind),*) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new(name_of!($name)) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            let Some(at) = $at.filter(|_| io::is_any()) else {
                // SAFETY: our caller's promise.
                return unsafe { next(descriptor, vector, count, $($more),*) };
            };
            let request = Request {
                descriptor,
                at,
                // The buffers are the kernel's to look at: they need not be readable.
                bytes: 0,
                is_write: $is_write,
            };
            // SAFETY: our caller's promise.
            let plain = || unsafe { next(descriptor, vector, count, $($more),*) };
            let leaving_nothing = || without_cache($other, request, (vector, count), $flags);
            around(request, capture(), &plain, &leaving_nothing)
        }
    };
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

on_buffer!(read(), CURSOR, false, READ);
on_buffer!(pread(offset: i64), at(offset), false, READ);
on_buffer!(pread64(offset: i64), at(offset), false, READ);
on_buffer!(__read_chk(room: usize), CURSOR, false, READ);
on_buffer!(__pread_chk(offset: i64, room: usize), at(offset), false, READ);
on_buffer!(__pread64_chk(offset: i64, room: usize), at(offset), false, READ);
on_buffer!(write(), CURSOR, true, WRITE);
on_buffer!(pwrite(offset: i64), at(offset), true, WRITE);
on_buffer!(pwrite64(offset: i64), at(offset), true, WRITE);
on_vector!(readv(), CURSOR, false, READ, 0);
on_vector!(preadv(offset: i64), at(offset), false, READ, 0);
on_vector!(preadv64(offset: i64), at(offset), false, READ, 0);
on_vector!(preadv2(offset: i64, flags: i32), at_or_cursor(offset), false, READ, flags);
on_vector!(preadv64v2(offset: i64, flags: i32), at_or_cursor(offset), false, READ, flags);
on_vector!(writev(), CURSOR, true, WRITE, 0);
on_vector!(pwritev(offset: i64), at(offset), true, WRITE, 0);
on_vector!(pwritev64(offset: i64), at(offset), true, WRITE, 0);
on_vector!(pwritev2(offset: i64, flags: i32), at_or_cursor(offset), true, WRITE, flags);
on_vector!(pwritev64v2(offset: i64, flags: i32), at_or_cursor(offset), true, WRITE, flags);

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
