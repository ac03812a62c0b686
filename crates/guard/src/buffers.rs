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
use libc::wchar_t;

use crate::careful;
use crate::wrap::check;
use crate::wrap::wrappers;

/// What the kernel takes in a list, at most (`UIO_MAXIOV`); longer ones it refuses.
const MOST_PARTS: usize = 1024;

/// The buffers of a list, as far as it can be read: the kernel refuses what cannot.
fn check_list(name: &'static str, list: *const iovec, count: usize, is_filled: bool) {
    for index in 0..if count <= MOST_PARTS { count } else { 0 } {
        // SAFETY: any bytes are an address and a number.
        let Some(part) = (unsafe { careful::value(list.wrapping_add(index)) }) else {
            return;
        };
        if is_filled {
            check!(name, part.iov_base, part.iov_len, Write);
        } else {
            check!(name, part.iov_base, part.iov_len, Read);
        }
    }
}

/// As [`check_list`], of a message's.
fn check_message(name: &'static str, message: *const libc::msghdr, is_filled: bool) {
    // SAFETY: any bytes are addresses and numbers.
    if let Some(message) = unsafe { careful::value(message) } {
        check_list(
            name,
            message.msg_iov,
            message.msg_iovlen as usize,
            is_filled,
        );
    }
}

/// A line's buffer is as long as it is said to be.
///
/// # Safety
/// As getline(3).
unsafe fn check_line(name: &'static str, line: *const *mut c_char, bytes: *const size_t) {
    // SAFETY: by our caller.
    if let (Some(line), Some(bytes)) = unsafe { (line.as_ref(), bytes.as_ref()) }
        && !line.is_null()
    {
        check!(name, *line, *bytes, Write);
    }
}

/// Bytes of wide characters.
fn wide(count: usize) -> usize {
    count.saturating_mul(size_of::<wchar_t>())
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
        check_list("readv", list, usize::try_from(count).unwrap_or(0), true);
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
        check_list("writev", list, usize::try_from(count).unwrap_or(0), false);
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
    fn preadv(file: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t = -1, {
        check_list("preadv", list, usize::try_from(count).unwrap_or(0), true);
    }
    fn pwritev(file: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t = -1, {
        check_list("pwritev", list, usize::try_from(count).unwrap_or(0), false);
    }
    fn recvmsg(socket: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t = -1, {
        check_message("recvmsg", message, true);
    }
    fn sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t = -1, {
        check_message("sendmsg", message, false);
    }
    fn readlinkat(folder: c_int, path: *const c_char, buffer: *mut c_char, bytes: size_t) -> ssize_t = -1, {
        check!("readlinkat", buffer, bytes, Write);
    }
    fn fgetws(buffer: *mut wchar_t, count: c_int, file: *mut libc::FILE) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("fgetws", buffer, wide(usize::try_from(count).unwrap_or(0)), Write);
    }
    fn getline(line: *mut *mut c_char, bytes: *mut size_t, file: *mut libc::FILE) -> ssize_t = -1, {
        // SAFETY: our caller's arguments.
        unsafe { check_line("getline", line, bytes) };
    }
    fn getdelim(line: *mut *mut c_char, bytes: *mut size_t, end: c_int, file: *mut libc::FILE) -> ssize_t = -1, {
        // SAFETY: our caller's arguments.
        unsafe { check_line("getdelim", line, bytes) };
    }
    fn __read_chk(file: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t = -1, {
        check!("read", buffer, bytes, Write);
    }
    fn __pread_chk(file: c_int, buffer: *mut c_void, bytes: size_t, at: off_t, room: size_t) -> ssize_t = -1, {
        check!("pread", buffer, bytes, Write);
    }
    fn __recv_chk(socket: c_int, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int) -> ssize_t = -1, {
        check!("recv", buffer, bytes, Write);
    }
    fn __fread_chk(buffer: *mut c_void, room: size_t, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fread", buffer, each.saturating_mul(count), Write);
    }
    fn __fgets_chk(buffer: *mut c_char, room: size_t, bytes: c_int, file: *mut libc::FILE) -> *mut c_char = std::ptr::null_mut(), {
        check!("fgets", buffer, usize::try_from(bytes).unwrap_or(0), Write);
    }
}
