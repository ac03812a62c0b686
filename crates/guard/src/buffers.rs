//! Calls of the C library that fill or read buffers. The kernel meets a guard and ends short, in silence; the library itself
//! faults far from the mistake. So arguments that go beyond an object are told before the call, which is made all the same.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;

use libc::iovec;
use libc::off_t;
use libc::size_t;
use libc::socklen_t;
use libc::ssize_t;
use pagewise_abi::guard::Access;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::heap;
use crate::report;

/// Tells if `bytes` from `buffer` on are not all of one live object; buffers elsewhere are none of ours.
macro_rules! check {
    ($name:expr, $buffer:expr, $bytes:expr, $access:ident) => {
        let (buffer, bytes): (usize, usize) = ($buffer as usize, $bytes);
        if bytes != 0 && heap::is_suspect(buffer, bytes) {
            report::argument($name, buffer, bytes, Access::$access, capture());
        }
    };
}

/// Functions that are called as they are once their buffers were looked at.
macro_rules! wrappers {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $failed:expr, $check:block)+) => {
        $(
            /// # Safety
            /// As the C library's function of this name.
            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                $check
                let Some(real) = real::$name.look_up() else {
                    return $failed;
                };
                // SAFETY: the same call as our caller's.
                unsafe { real($($argument),*) }
            }
        )+

        /// The C library's own.
        #[expect(non_upper_case_globals, reason = "the C library's names")]
        mod real {
            use super::*;
            $(
                // SAFETY: the C library's type for the function of this name.
                pub(super) static $name: Symbol<unsafe extern "C" fn($($type),*) -> $result> = unsafe {
                    Symbol::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without zeros"),
                    })
                };
            )+
        }

        /// Looks all of them up, while that may take a lock.
        pub(crate) fn prepare() {
            $(real::$name.look_up();)+
        }
    };
}

/// The buffers of a list.
///
/// # Safety
/// `list` must be an array of so many, or the call is wrong anyway.
unsafe fn check_list(name: &'static str, list: *const iovec, count: c_int, is_filled: bool) {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by our caller.
        let part = unsafe { *list.add(index) };
        if is_filled {
            check!(name, part.iov_base, part.iov_len, Write);
        } else {
            check!(name, part.iov_base, part.iov_len, Read);
        }
    }
}

wrappers! {
    fn read(file: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t = -1, {
        check!("read", buffer, bytes, Write);
    }
    fn pread(file: c_int, buffer: *mut c_void, bytes: size_t, at: off_t) -> ssize_t = -1, {
        check!("pread", buffer, bytes, Write);
    }
    fn pread64(file: c_int, buffer: *mut c_void, bytes: size_t, at: off_t) -> ssize_t = -1, {
        check!("pread", buffer, bytes, Write);
    }
    fn readv(file: c_int, list: *const iovec, count: c_int) -> ssize_t = -1, {
        // SAFETY: our caller's arguments.
        unsafe { check_list("readv", list, count, true) };
    }
    fn recv(socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t = -1, {
        check!("recv", buffer, bytes, Write);
    }
    fn recvfrom(socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int, from: *mut libc::sockaddr, length: *mut socklen_t) -> ssize_t = -1, {
        check!("recvfrom", buffer, bytes, Write);
    }
    fn write(file: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t = -1, {
        check!("write", buffer, bytes, Read);
    }
    fn pwrite(file: c_int, buffer: *const c_void, bytes: size_t, at: off_t) -> ssize_t = -1, {
        check!("pwrite", buffer, bytes, Read);
    }
    fn pwrite64(file: c_int, buffer: *const c_void, bytes: size_t, at: off_t) -> ssize_t = -1, {
        check!("pwrite", buffer, bytes, Read);
    }
    fn writev(file: c_int, list: *const iovec, count: c_int) -> ssize_t = -1, {
        // SAFETY: our caller's arguments.
        unsafe { check_list("writev", list, count, false) };
    }
    fn send(socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t = -1, {
        check!("send", buffer, bytes, Read);
    }
    fn sendto(socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int, to: *const libc::sockaddr, length: socklen_t) -> ssize_t = -1, {
        check!("sendto", buffer, bytes, Read);
    }
    fn fread(buffer: *mut c_void, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fread", buffer, each.saturating_mul(count), Write);
    }
    fn fwrite(buffer: *const c_void, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fwrite", buffer, each.saturating_mul(count), Read);
    }
    fn fgets(buffer: *mut c_char, bytes: c_int, file: *mut libc::FILE) -> *mut c_char = std::ptr::null_mut(), {
        check!("fgets", buffer, usize::try_from(bytes).unwrap_or(0), Write);
    }
    fn getcwd(buffer: *mut c_char, bytes: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("getcwd", buffer, bytes, Write);
    }
    fn readlink(path: *const c_char, buffer: *mut c_char, bytes: size_t) -> ssize_t = -1, {
        check!("readlink", buffer, bytes, Write);
    }
    fn getrandom(buffer: *mut c_void, bytes: size_t, flags: libc::c_uint) -> ssize_t = -1, {
        check!("getrandom", buffer, bytes, Write);
    }
}
