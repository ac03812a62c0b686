//! System calls that a program makes by their numbers, through the C library's `syscall`: buffers are looked at as those of the
//! functions of the same names, and a filter of seccomp(2) is the begin of a sandbox. What is written in assembler, or by a library
//! that is linked statically, is not seen.
//!
//! Our own calls come this way, too: what they pass is on stacks.

use std::ffi::c_int;
use std::ffi::c_long;
use std::ffi::c_uint;
use std::ffi::c_ulong;

use libc::iovec;
use libc::socklen_t;
use pagewise_interpose::begins_sandbox;

use crate::buffers::bytes_of;
use crate::buffers::check_either;
use crate::buffers::check_list;
use crate::buffers::check_message;
use crate::buffers::check_messages;
use crate::buffers::check_sets;
use crate::buffers::check_told;
use crate::sandbox;

/// The arguments of a call, as many as any has.
type Arguments = [usize; 6];

/// The kernel's errors are the last so many numbers.
const MOST_ERRORS: isize = 4095;
/// `operation` of seccomp(2), and what makes it return a descriptor (`include/uapi/linux/seccomp.h`).
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 1 << 3;

/// A jump, so that it is seen as the function that it stands for, which takes any number of arguments.
///
/// # Safety
/// As syscall(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {}", sym call);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {}", sym call);
}

/// What the program did not pass is whatever is there, as with the C library's.
///
/// # Safety
/// As syscall(2).
unsafe extern "C" fn call(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let arguments = [first, second, third, fourth, fifth, sixth];
    look_at(number, &arguments);
    // SAFETY: the same call as our caller's.
    let make = || unsafe { make(number, &arguments) };
    match begins(number, &arguments) {
        None => make(),
        Some(is_refused) => sandbox::enter(make, |&result| is_refused(&arguments, result)),
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

/// A buffer with its length.
struct Buffer {
    name: &'static str,
    start: usize,
    bytes: usize,
    is_filled: bool,
}

/// The buffer of a call that has one with a length beside it.
#[inline(always)]
fn buffer_of(number: c_long, arguments: &Arguments) -> Option<Buffer> {
    let &[first, second, third, fourth, ..] = arguments;
    let filled = |name, start, bytes| (name, start, bytes, true);
    let read = |name, start, bytes| (name, start, bytes, false);
    let (name, start, bytes, is_filled) = match number {
        libc::SYS_read => filled("read", second, third),
        libc::SYS_pread64 => filled("pread", second, third),
        libc::SYS_recvfrom => filled("recvfrom", second, third),
        libc::SYS_getrandom => filled("getrandom", first, second),
        libc::SYS_getdents64 => filled("getdents64", second, third),
        libc::SYS_getcwd => filled("getcwd", first, second),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_readlink => filled("readlink", second, third),
        libc::SYS_readlinkat => filled("readlinkat", third, fourth),
        libc::SYS_getxattr => filled("getxattr", third, fourth),
        libc::SYS_lgetxattr => filled("lgetxattr", third, fourth),
        libc::SYS_fgetxattr => filled("fgetxattr", third, fourth),
        libc::SYS_listxattr => filled("listxattr", second, third),
        libc::SYS_llistxattr => filled("llistxattr", second, third),
        libc::SYS_flistxattr => filled("flistxattr", second, third),
        libc::SYS_mq_timedreceive => filled("mq_timedreceive", second, third),
        libc::SYS_write => read("write", second, third),
        libc::SYS_pwrite64 => read("pwrite", second, third),
        libc::SYS_sendto => read("sendto", second, third),
        libc::SYS_setsockopt => read("setsockopt", fourth, arguments[4] as socklen_t as usize),
        libc::SYS_bind => read("bind", second, third as socklen_t as usize),
        libc::SYS_connect => read("connect", second, third as socklen_t as usize),
        libc::SYS_setxattr => read("setxattr", third, fourth),
        libc::SYS_lsetxattr => read("lsetxattr", third, fourth),
        libc::SYS_fsetxattr => read("fsetxattr", third, fourth),
        libc::SYS_mq_timedsend => read("mq_timedsend", second, third),
        libc::SYS_getgroups => {
            let bytes = bytes_of::<libc::gid_t>(first as c_int);
            filled("getgroups", second, bytes)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => filled("poll", first, polls(second as c_uint)),
        libc::SYS_ppoll => filled("ppoll", first, polls(second as c_uint)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => filled("epoll_wait", second, events(third)),
        libc::SYS_epoll_pwait => filled("epoll_pwait", second, events(third)),
        libc::SYS_epoll_pwait2 => filled("epoll_pwait2", second, events(third)),
        _ => return None,
    };
    Some(Buffer {
        name,
        start,
        bytes,
        is_filled,
    })
}

fn polls(count: c_uint) -> usize {
    (count as usize).saturating_mul(size_of::<libc::pollfd>())
}

fn events(count: usize) -> usize {
    bytes_of::<libc::epoll_event>(count as c_int)
}

/// Tells if a buffer that the kernel is about to fill or to read is not all of one live object.
#[inline(always)]
fn look_at(number: c_long, arguments: &Arguments) {
    if let Some(buffer) = buffer_of(number, arguments) {
        check_either(buffer.name, buffer.start, buffer.bytes, buffer.is_filled);
    } else {
        look_at_lists(number, arguments);
    }
}

/// As [`look_at`], of calls with lists of buffers, or with lengths elsewhere. Nothing of it is a function of its own, closures
/// included: see `buffers`.
#[inline(always)]
fn look_at_lists(number: c_long, arguments: &Arguments) {
    let &[first, second, third, fourth, fifth, _] = arguments;
    if let Some((name, is_filled)) = list_of(number) {
        check_list(name, second as *const iovec, third, is_filled);
    } else if let Some(name) = address_of(number) {
        check_told(name, second as *const _, third as *const socklen_t);
    } else if let Some(name) = sets_of(number) {
        let sets = [second as *const _, third as *const _, fourth as *const _];
        check_sets(name, first as c_int, sets);
    } else if number == libc::SYS_recvmsg {
        check_message("recvmsg", second as *const _, true);
    } else if number == libc::SYS_sendmsg {
        check_message("sendmsg", second as *const _, false);
    } else if number == libc::SYS_recvmmsg {
        check_messages("recvmmsg", second as *const _, third as c_uint, true);
    } else if number == libc::SYS_sendmmsg {
        check_messages("sendmmsg", second as *const _, third as c_uint, false);
    } else if number == libc::SYS_getsockopt {
        check_told("getsockopt", fourth as *const _, fifth as *const socklen_t);
    }
}

/// Calls with a list of buffers, and whether these are filled.
fn list_of(number: c_long) -> Option<(&'static str, bool)> {
    Some(match number {
        libc::SYS_readv => ("readv", true),
        libc::SYS_preadv => ("preadv", true),
        libc::SYS_preadv2 => ("preadv2", true),
        libc::SYS_writev => ("writev", false),
        libc::SYS_pwritev => ("pwritev", false),
        libc::SYS_pwritev2 => ("pwritev2", false),
        libc::SYS_vmsplice => ("vmsplice", false),
        _ => return None,
    })
}

/// Calls that fill in an address, as long as a number elsewhere says.
fn address_of(number: c_long) -> Option<&'static str> {
    Some(match number {
        libc::SYS_accept => "accept",
        libc::SYS_accept4 => "accept4",
        libc::SYS_getsockname => "getsockname",
        libc::SYS_getpeername => "getpeername",
        _ => return None,
    })
}

/// Calls with sets of descriptors.
fn sets_of(number: c_long) -> Option<&'static str> {
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => Some("select"),
        libc::SYS_pselect6 => Some("pselect"),
        _ => None,
    }
}

/// The call itself. What the kernel says of errors is errno's.
///
/// # Safety
/// As syscall(2).
unsafe fn make(number: c_long, arguments: &Arguments) -> c_long {
    // SAFETY: by our caller.
    let result = unsafe { enter_kernel(number, arguments) };
    if (-MOST_ERRORS..0).contains(&result) {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_long
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn enter_kernel(number: c_long, arguments: &Arguments) -> isize {
    let mut result = number as isize;
    // SAFETY: by our caller; the kernel keeps all registers but these three.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn enter_kernel(number: c_long, arguments: &Arguments) -> isize {
    let mut result = arguments[0] as isize;
    // SAFETY: by our caller; the kernel keeps all registers but the first.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
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
