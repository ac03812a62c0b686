//! Calls of the C library that fill or read buffers. The kernel meets a guard and ends short, in silence; the library itself
//! faults far from the mistake. So arguments that go beyond an object are told before the call, which is made all the same.
//! What the library does without the kernel (`snprintf`, `strlcpy`) meets guards by itself, and is as good as the program's own code.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_long;
use std::ffi::c_uint;
use std::ffi::c_void;

use libc::iovec;
use libc::off_t;
use libc::size_t;
use libc::socklen_t;
use libc::ssize_t;
use libc::wchar_t;
use pagewise_abi::guard::Access;
use pagewise_interpose::Registers;
use pagewise_interpose::capture;

use crate::careful;
use crate::heap;
use crate::report;
use crate::system;
use crate::wrap::check;
use crate::wrap::wrappers;

// What looks at several buffers is told the registers of the wrapper that asks for it: the path of an error begins at that one's
// callers.

/// What the kernel takes in a list, at most (`UIO_MAXIOV`); longer ones it refuses.
const MOST_PARTS: usize = 1024;

/// Descriptors of a `fd_set`.
const USUAL_SET: usize = libc::FD_SETSIZE;

/// The buffers of a list, as far as it can be read: the kernel refuses what cannot.
pub(crate) fn check_list(
    name: &'static str,
    list: *const iovec,
    count: usize,
    is_filled: bool,
    registers: Registers,
) {
    for index in 0..if count <= MOST_PARTS { count } else { 0 } {
        // SAFETY: any bytes are an address and a number.
        let Some(part) = (unsafe { careful::value(list.wrapping_add(index)) }) else {
            return;
        };
        check_either(
            name,
            part.iov_base as usize,
            part.iov_len,
            is_filled,
            registers,
        );
    }
}

#[inline(always)]
pub(crate) fn check_either(
    name: &'static str,
    buffer: usize,
    bytes: usize,
    is_filled: bool,
    registers: Registers,
) {
    if bytes != 0 && heap::is_suspect(buffer, bytes) {
        let access = match is_filled {
            true => Access::Write,
            false => Access::Read,
        };
        report::argument(name, buffer, bytes, access, registers);
    }
}

/// As [`check_list`], of a message's.
pub(crate) fn check_message(
    name: &'static str,
    message: *const libc::msghdr,
    is_filled: bool,
    registers: Registers,
) {
    // SAFETY: any bytes are addresses and numbers.
    if let Some(message) = unsafe { careful::value(message) } {
        for (part, bytes) in [
            (message.msg_name, message.msg_namelen as usize),
            (message.msg_control, message.msg_controllen),
        ] {
            check_either(name, part as usize, bytes, is_filled, registers);
        }
        let (list, count) = (message.msg_iov, message.msg_iovlen);
        check_list(name, list, count, is_filled, registers);
    }
}

/// As [`check_message`], of many.
pub(crate) fn check_messages(
    name: &'static str,
    list: *const libc::mmsghdr,
    count: c_uint,
    is_filled: bool,
    registers: Registers,
) {
    for index in 0..MOST_PARTS.min(count as usize) {
        let message = list.wrapping_add(index).cast::<libc::msghdr>();
        check_message(name, message, is_filled, registers);
    }
}

/// A buffer to be filled as far as a number elsewhere says.
pub(crate) fn check_told(
    name: &'static str,
    buffer: *const c_void,
    bytes: *const socklen_t,
    registers: Registers,
) {
    // SAFETY: any bytes are a number.
    if let Some(bytes) = unsafe { careful::value(bytes) } {
        check!(name, buffer, bytes as usize, Write, registers);
    }
}

/// Sets of so many descriptors.
pub(crate) fn check_sets(
    name: &'static str,
    count: c_int,
    sets: [*const libc::fd_set; 3],
    registers: Registers,
) {
    for set in sets {
        let count = usize::try_from(count).unwrap_or(0);
        let bytes = match heap::is_suspect(set as usize, bytes_of_set(count)) {
            true => bytes_of_set(count.min(most_descriptors(count))),
            false => 0,
        };
        check!(name, set, bytes, Write, registers);
    }
}

/// What the kernel reads and writes of a set: whole words.
fn bytes_of_set(count: usize) -> usize {
    count.div_ceil(64) * size_of::<u64>()
}

/// Programs pass as many descriptors as they might open; the kernel looks at no more than its table has room for
/// (`core_sys_select`, fs/select.c).
#[cold]
fn most_descriptors(count: usize) -> usize {
    match count {
        ..=USUAL_SET => USUAL_SET,
        _ => system::descriptors().unwrap_or(USUAL_SET),
    }
}

/// Bytes of so many of a kind; of less than none, 0.
pub(crate) fn bytes_of<T>(count: c_int) -> usize {
    usize::try_from(count)
        .unwrap_or(0)
        .saturating_mul(size_of::<T>())
}

/// A line's buffer is as long as it is said to be.
///
/// # Safety
/// As getline(3).
#[inline(always)]
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
        check_list("readv", list, usize::try_from(count).unwrap_or(0), true, capture());
    }
    fn recv(socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t = -1, {
        check!("recv", buffer, bytes, Write);
    }
    fn recvfrom(socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int, from: *mut libc::sockaddr, length: *mut socklen_t) -> ssize_t = -1, {
        check!("recvfrom", buffer, bytes, Write);
        check_told("recvfrom", from.cast(), length, capture());
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
        check_list("writev", list, usize::try_from(count).unwrap_or(0), false, capture());
    }
    fn send(socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t = -1, {
        check!("send", buffer, bytes, Read);
    }
    fn sendto(socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int, to: *const libc::sockaddr, length: socklen_t) -> ssize_t = -1, {
        check!("sendto", buffer, bytes, Read);
        check!("sendto", to, length as usize, Read);
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
        check_list("preadv", list, usize::try_from(count).unwrap_or(0), true, capture());
    }
    fn pwritev(file: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t = -1, {
        check_list("pwritev", list, usize::try_from(count).unwrap_or(0), false, capture());
    }
    fn recvmsg(socket: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t = -1, {
        check_message("recvmsg", message, true, capture());
    }
    fn sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t = -1, {
        check_message("sendmsg", message, false, capture());
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
    fn select(count: c_int, reads: *mut libc::fd_set, writes: *mut libc::fd_set, others: *mut libc::fd_set, time: *mut libc::timeval) -> c_int = -1, {
        check_sets("select", count, [reads, writes, others], capture());
    }
    fn bind(socket: c_int, address: *const libc::sockaddr, bytes: socklen_t) -> c_int = -1, {
        check!("bind", address, bytes as usize, Read);
    }
    fn connect(socket: c_int, address: *const libc::sockaddr, bytes: socklen_t) -> c_int = -1, {
        check!("connect", address, bytes as usize, Read);
    }
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int = -1, {
        check!("socketpair", pair, bytes_of::<c_int>(2), Write);
    }
    fn pipe(pair: *mut c_int) -> c_int = -1, {
        check!("pipe", pair, bytes_of::<c_int>(2), Write);
    }
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int = -1, {
        check!("pipe2", pair, bytes_of::<c_int>(2), Write);
    }
    fn epoll_ctl(epoll: c_int, what: c_int, file: c_int, event: *mut libc::epoll_event) -> c_int = -1, {
        check!("epoll_ctl", event, if what == libc::EPOLL_CTL_DEL { 0 } else { size_of::<libc::epoll_event>() }, Read);
    }
    fn stat(path: *const c_char, place: *mut libc::stat) -> c_int = -1, {
        check!("stat", path, 1, Read);
        check!("stat", place, size_of::<libc::stat>(), Write);
    }
    fn stat64(path: *const c_char, place: *mut libc::stat64) -> c_int = -1, {
        check!("stat", path, 1, Read);
        check!("stat", place, size_of::<libc::stat64>(), Write);
    }
    fn lstat(path: *const c_char, place: *mut libc::stat) -> c_int = -1, {
        check!("lstat", path, 1, Read);
        check!("lstat", place, size_of::<libc::stat>(), Write);
    }
    fn lstat64(path: *const c_char, place: *mut libc::stat64) -> c_int = -1, {
        check!("lstat", path, 1, Read);
        check!("lstat", place, size_of::<libc::stat64>(), Write);
    }
    fn fstat(file: c_int, place: *mut libc::stat) -> c_int = -1, {
        check!("fstat", place, size_of::<libc::stat>(), Write);
    }
    fn fstat64(file: c_int, place: *mut libc::stat64) -> c_int = -1, {
        check!("fstat", place, size_of::<libc::stat64>(), Write);
    }
    fn fstatat(folder: c_int, path: *const c_char, place: *mut libc::stat, flags: c_int) -> c_int = -1, {
        check!("fstatat", path, 1, Read);
        check!("fstatat", place, size_of::<libc::stat>(), Write);
    }
    fn fstatat64(folder: c_int, path: *const c_char, place: *mut libc::stat64, flags: c_int) -> c_int = -1, {
        check!("fstatat", path, 1, Read);
        check!("fstatat", place, size_of::<libc::stat64>(), Write);
    }
    fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = -1, {
        check!("open", path, 1, Read);
    }
    fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = -1, {
        check!("open", path, 1, Read);
    }
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = -1, {
        check!("openat", path, 1, Read);
    }
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int = -1, {
        check!("openat", path, 1, Read);
    }
    fn fopen(path: *const c_char, how: *const c_char) -> *mut libc::FILE = std::ptr::null_mut(), {
        check!("fopen", path, 1, Read);
    }
    fn fopen64(path: *const c_char, how: *const c_char) -> *mut libc::FILE = std::ptr::null_mut(), {
        check!("fopen", path, 1, Read);
    }
    fn access(path: *const c_char, mode: c_int) -> c_int = -1, {
        check!("access", path, 1, Read);
    }
    fn unlink(path: *const c_char) -> c_int = -1, {
        check!("unlink", path, 1, Read);
    }
    fn rename(from: *const c_char, to: *const c_char) -> c_int = -1, {
        check!("rename", from, 1, Read);
        check!("rename", to, 1, Read);
    }
    fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int = -1, {
        check!("mkdir", path, 1, Read);
    }
    fn chdir(path: *const c_char) -> c_int = -1, {
        check!("chdir", path, 1, Read);
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
    fn preadv64(file: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t = -1, {
        check_list("preadv", list, usize::try_from(count).unwrap_or(0), true, capture());
    }
    fn pwritev64(file: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t = -1, {
        check_list("pwritev", list, usize::try_from(count).unwrap_or(0), false, capture());
    }
    fn preadv2(file: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = -1, {
        check_list("preadv2", list, usize::try_from(count).unwrap_or(0), true, capture());
    }
    fn pwritev2(file: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = -1, {
        check_list("pwritev2", list, usize::try_from(count).unwrap_or(0), false, capture());
    }
    fn preadv64v2(file: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = -1, {
        check_list("preadv2", list, usize::try_from(count).unwrap_or(0), true, capture());
    }
    fn pwritev64v2(file: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t = -1, {
        check_list("pwritev2", list, usize::try_from(count).unwrap_or(0), false, capture());
    }
    fn recvmmsg(socket: c_int, list: *mut libc::mmsghdr, count: c_uint, flags: c_int, time: *mut libc::timespec) -> c_int = -1, {
        check_messages("recvmmsg", list, count, true, capture());
    }
    fn sendmmsg(socket: c_int, list: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int = -1, {
        check_messages("sendmmsg", list, count, false, capture());
    }
    fn fread_unlocked(buffer: *mut c_void, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fread", buffer, each.saturating_mul(count), Write);
    }
    fn fwrite_unlocked(buffer: *const c_void, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fwrite", buffer, each.saturating_mul(count), Read);
    }
    fn fgets_unlocked(buffer: *mut c_char, bytes: c_int, file: *mut libc::FILE) -> *mut c_char = std::ptr::null_mut(), {
        check!("fgets", buffer, bytes_of::<c_char>(bytes), Write);
    }
    fn getdents64(file: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t = -1, {
        check!("getdents64", buffer, bytes, Write);
    }
    fn getxattr(path: *const c_char, name: *const c_char, buffer: *mut c_void, bytes: size_t) -> ssize_t = -1, {
        check!("getxattr", buffer, bytes, Write);
    }
    fn lgetxattr(path: *const c_char, name: *const c_char, buffer: *mut c_void, bytes: size_t) -> ssize_t = -1, {
        check!("lgetxattr", buffer, bytes, Write);
    }
    fn fgetxattr(file: c_int, name: *const c_char, buffer: *mut c_void, bytes: size_t) -> ssize_t = -1, {
        check!("fgetxattr", buffer, bytes, Write);
    }
    fn listxattr(path: *const c_char, buffer: *mut c_char, bytes: size_t) -> ssize_t = -1, {
        check!("listxattr", buffer, bytes, Write);
    }
    fn llistxattr(path: *const c_char, buffer: *mut c_char, bytes: size_t) -> ssize_t = -1, {
        check!("llistxattr", buffer, bytes, Write);
    }
    fn flistxattr(file: c_int, buffer: *mut c_char, bytes: size_t) -> ssize_t = -1, {
        check!("flistxattr", buffer, bytes, Write);
    }
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = -1, {
        check!("setxattr", value, bytes, Read);
    }
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = -1, {
        check!("lsetxattr", value, bytes, Read);
    }
    fn fsetxattr(file: c_int, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = -1, {
        check!("fsetxattr", value, bytes, Read);
    }
    fn getgroups(count: c_int, list: *mut libc::gid_t) -> c_int = -1, {
        check!("getgroups", list, bytes_of::<libc::gid_t>(count), Write);
    }
    fn getentropy(buffer: *mut c_void, bytes: size_t) -> c_int = -1, {
        check!("getentropy", buffer, bytes, Write);
    }
    fn vmsplice(file: c_int, list: *const iovec, count: size_t, flags: c_uint) -> ssize_t = -1, {
        check_list("vmsplice", list, count, false, capture());
    }
    fn fgetws_unlocked(buffer: *mut wchar_t, count: c_int, file: *mut libc::FILE) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("fgetws", buffer, bytes_of::<wchar_t>(count), Write);
    }
    fn __fgetws_chk(buffer: *mut wchar_t, room: size_t, count: c_int, file: *mut libc::FILE) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("fgetws", buffer, bytes_of::<wchar_t>(count), Write);
    }
    fn mq_timedsend(queue: libc::mqd_t, buffer: *const c_char, bytes: size_t, priority: c_uint, time: *const libc::timespec) -> c_int = -1, {
        check!("mq_timedsend", buffer, bytes, Read);
    }
    fn poll(polls: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int = -1, {
        check!("poll", polls, (count as usize).saturating_mul(size_of::<libc::pollfd>()), Write);
    }
    fn epoll_wait(epoll: c_int, events: *mut libc::epoll_event, most: c_int, milliseconds: c_int) -> c_int = -1, {
        check!("epoll_wait", events, bytes_of::<libc::epoll_event>(most), Write);
    }
    fn mq_receive(queue: libc::mqd_t, buffer: *mut c_char, bytes: size_t, priority: *mut c_uint) -> ssize_t = -1, {
        check!("mq_receive", buffer, bytes, Write);
    }
    fn mq_timedreceive(queue: libc::mqd_t, buffer: *mut c_char, bytes: size_t, priority: *mut c_uint, time: *const libc::timespec) -> ssize_t = -1, {
        check!("mq_timedreceive", buffer, bytes, Write);
    }
    fn mq_send(queue: libc::mqd_t, buffer: *const c_char, bytes: size_t, priority: c_uint) -> c_int = -1, {
        check!("mq_send", buffer, bytes, Read);
    }
    fn msgrcv(queue: c_int, message: *mut c_void, bytes: size_t, kind: c_long, flags: c_int) -> ssize_t = -1, {
        check!("msgrcv", message, bytes.saturating_add(size_of::<c_long>()), Write);
    }
    fn msgsnd(queue: c_int, message: *const c_void, bytes: size_t, flags: c_int) -> c_int = -1, {
        check!("msgsnd", message, bytes.saturating_add(size_of::<c_long>()), Read);
    }
    fn getsockopt(socket: c_int, level: c_int, option: c_int, value: *mut c_void, bytes: *mut socklen_t) -> c_int = -1, {
        check_told("getsockopt", value, bytes, capture());
    }
    fn setsockopt(socket: c_int, level: c_int, option: c_int, value: *const c_void, bytes: socklen_t) -> c_int = -1, {
        check!("setsockopt", value, bytes as usize, Read);
    }
    fn accept(socket: c_int, from: *mut libc::sockaddr, bytes: *mut socklen_t) -> c_int = -1, {
        check_told("accept", from.cast(), bytes, capture());
    }
    fn accept4(socket: c_int, from: *mut libc::sockaddr, bytes: *mut socklen_t, flags: c_int) -> c_int = -1, {
        check_told("accept4", from.cast(), bytes, capture());
    }
    fn getsockname(socket: c_int, address: *mut libc::sockaddr, bytes: *mut socklen_t) -> c_int = -1, {
        check_told("getsockname", address.cast(), bytes, capture());
    }
    fn getpeername(socket: c_int, address: *mut libc::sockaddr, bytes: *mut socklen_t) -> c_int = -1, {
        check_told("getpeername", address.cast(), bytes, capture());
    }
    fn __pread64_chk(file: c_int, buffer: *mut c_void, bytes: size_t, at: off_t, room: size_t) -> ssize_t = -1, {
        check!("pread", buffer, bytes, Write);
    }
    fn __recvfrom_chk(socket: c_int, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int, from: *mut libc::sockaddr, length: *mut socklen_t) -> ssize_t = -1, {
        check!("recvfrom", buffer, bytes, Write);
        check_told("recvfrom", from.cast(), length, capture());
    }
    fn __readlink_chk(path: *const c_char, buffer: *mut c_char, bytes: size_t, room: size_t) -> ssize_t = -1, {
        check!("readlink", buffer, bytes, Write);
    }
    fn __readlinkat_chk(folder: c_int, path: *const c_char, buffer: *mut c_char, bytes: size_t, room: size_t) -> ssize_t = -1, {
        check!("readlinkat", buffer, bytes, Write);
    }
    fn __getcwd_chk(buffer: *mut c_char, bytes: size_t, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("getcwd", buffer, bytes, Write);
    }
    fn __poll_chk(polls: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int, room: size_t) -> c_int = -1, {
        check!("poll", polls, (count as usize).saturating_mul(size_of::<libc::pollfd>()), Write);
    }
    fn __fread_unlocked_chk(buffer: *mut c_void, room: size_t, each: size_t, count: size_t, file: *mut libc::FILE) -> size_t = 0, {
        check!("fread", buffer, each.saturating_mul(count), Write);
    }
    fn __fgets_unlocked_chk(buffer: *mut c_char, room: size_t, bytes: c_int, file: *mut libc::FILE) -> *mut c_char = std::ptr::null_mut(), {
        check!("fgets", buffer, bytes_of::<c_char>(bytes), Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_whole_words_and_as_long_as_the_kernel_looks_at() {
        let bytes = [0, 1, 64, 65, 1024].map(bytes_of_set);
        assert_eq!(bytes, [0, 8, 8, 16, 128]);
        assert_eq!(most_descriptors(3), USUAL_SET);
        let most = most_descriptors(1 << 30);
        assert!((64..1 << 30).contains(&most), "{most}");
    }
}
