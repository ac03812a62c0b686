//! `close`, `dup` and kin, and the program's own advice about files: what is known of a descriptor ends there.
//!
//! The next functions are called as of the ABI `C`, as in `file_io`: threads may be cancelled there.

use std::ffi::c_void;

use pagewise_interpose::Symbol;

use crate::plan::io;
use crate::plan::io::Own;

/// Include/uapi/linux/close_range.h.
const CLOSE_RANGE_UNSHARE: u32 = 2;

/// No library has the function: what the kernel says of calls that it does not have.
pub(crate) fn missing() -> i32 {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// # Safety
/// As close(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn close(descriptor: i32) -> i32 {
    // SAFETY: close(2) has this type.
    static NEXT: Symbol<unsafe extern "C" fn(i32) -> i32> = unsafe { Symbol::new(c"close") };
    io::closing(descriptor);
    match NEXT.look_up() {
        // SAFETY: our caller's promise.
        Some(next) => unsafe { next(descriptor) },
        None => missing(),
    }
}

/// # Safety
/// As close_range(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close_range(first: u32, last: u32, flags: i32) -> i32 {
    // SAFETY: close_range(2) has this type.
    static NEXT: Symbol<unsafe extern "C" fn(u32, u32, i32) -> i32> =
        unsafe { Symbol::new(c"close_range") };
    match flags as u32 {
        0 => io::closing_all(first, last),
        // Others who shared the table go on with theirs.
        CLOSE_RANGE_UNSHARE => io::leaving_all(first, last),
        // They are open as before, but for programs that are started; or all is refused.
        _ => {}
    }
    match NEXT.look_up() {
        // SAFETY: our caller's promise.
        Some(next) => unsafe { next(first, last, flags) },
        None => missing(),
    }
}

/// # Safety
/// As closefrom(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn closefrom(first: i32) {
    // SAFETY: closefrom(3) has this type.
    static NEXT: Symbol<unsafe extern "C" fn(i32)> = unsafe { Symbol::new(c"closefrom") };
    io::closing_all(first.max(0).unsigned_abs(), u32::MAX);
    if let Some(next) = NEXT.look_up() {
        // SAFETY: our caller's promise.
        unsafe { next(first) };
    }
}

/// The file of a stream is about to be closed.
///
/// # Safety
/// `stream` must be open, or null.
unsafe fn closing_stream(stream: *mut libc::FILE) {
    if io::is_any() && !stream.is_null() {
        // SAFETY: an open stream, as our caller promises. It may have no descriptor.
        io::closing(unsafe { libc::fileno(stream) });
    }
}

/// The functions that close a stream.
macro_rules! closes {
    ($($symbol:literal: fn $name:ident;)+) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(stream: *mut libc::FILE) -> i32 {
            // SAFETY: the C library's type for the function of this name.
            static NEXT: Symbol<unsafe extern "C" fn(*mut libc::FILE) -> i32> = unsafe { Symbol::new($symbol) };
            // SAFETY: our caller's promise.
            unsafe { closing_stream(stream) };
            match NEXT.look_up() {
                // SAFETY: our caller's promise.
                Some(next) => unsafe { next(stream) },
                None => missing(),
            }
        }
    )+};
}

closes! {
    c"fclose": fn fclose;
    c"pclose": fn pclose;
}

/// The functions that close a stream's file and open another one for it.
macro_rules! reopens {
    ($($symbol:literal: fn $name:ident;)+) => {$(
        /// # Safety
        /// As freopen(3).
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            path: *const libc::c_char,
            mode: *const libc::c_char,
            stream: *mut libc::FILE,
        ) -> *mut libc::FILE {
            type Function = unsafe extern "C" fn(
                *const libc::c_char,
                *const libc::c_char,
                *mut libc::FILE,
            ) -> *mut libc::FILE;
            // SAFETY: freopen(3) has this type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            // SAFETY: our caller's promise.
            unsafe { closing_stream(stream) };
            match NEXT.look_up() {
                // SAFETY: our caller's promise.
                Some(next) => unsafe { next(path, mode, stream) },
                None => {
                    missing();
                    std::ptr::null_mut()
                }
            }
        }
    )+};
}

reopens! {
    c"freopen": fn freopen;
    c"freopen64": fn freopen64;
}

/// The functions by which a program starts others without the handlers of `fork`.
macro_rules! starts_another {
    ($($symbol:literal: extern $abi:literal fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $failed:expr;)+) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern $abi fn $name($($argument: $type),*) -> $result {
            // SAFETY: the C library's type for the function of this name.
            static NEXT: Symbol<unsafe extern "C" fn($($type),*) -> $result> = unsafe { Symbol::new($symbol) };
            io::forking();
            match NEXT.look_up() {
                // SAFETY: our caller's promise.
                Some(next) => unsafe { next($($argument),*) },
                None => $failed,
            }
        }
    )+};
}

starts_another! {
    c"posix_spawn": extern "C" fn posix_spawn(
        pid: *mut libc::pid_t, path: *const libc::c_char, actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t, arguments: *const *mut libc::c_char, environment: *const *mut libc::c_char
    ) -> i32 = libc::ENOSYS;
    c"posix_spawnp": extern "C" fn posix_spawnp(
        pid: *mut libc::pid_t, path: *const libc::c_char, actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t, arguments: *const *mut libc::c_char, environment: *const *mut libc::c_char
    ) -> i32 = libc::ENOSYS;
    c"system": extern "C-unwind" fn system(command: *const libc::c_char) -> i32 = missing();
    c"popen": extern "C" fn popen(command: *const libc::c_char, mode: *const libc::c_char) -> *mut libc::FILE = std::ptr::null_mut();
}

/// The functions that move a descriptor.
macro_rules! seeks {
    ($(fn $name:ident;)+) => {$(
        /// # Safety
        /// As lseek(2).
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(descriptor: i32, offset: i64, whence: i32) -> i64 {
            io::seeking(descriptor);
            // SAFETY: the same call as our caller's.
            unsafe {
                libc::syscall(libc::SYS_lseek, libc::c_long::from(descriptor), offset, libc::c_long::from(whence))
            }
        }
    )+};
}

seeks! {
    fn lseek;
    fn lseek64;
}

/// # Safety
/// As dup(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup(old: i32) -> i32 {
    // SAFETY: the same call as our caller's.
    let new = unsafe { libc::syscall(libc::SYS_dup, libc::c_long::from(old)) } as i32;
    shared(old, new)
}

/// # Safety
/// As dup2(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(old: i32, new: i32) -> i32 {
    // SAFETY: dup2(2) has this type.
    static NEXT: Symbol<unsafe extern "C" fn(i32, i32) -> i32> = unsafe { Symbol::new(c"dup2") };
    io::replacing(old, new);
    match NEXT.look_up() {
        // SAFETY: our caller's promise.
        Some(next) => shared(old, unsafe { next(old, new) }),
        None => missing(),
    }
}

/// # Safety
/// As dup3(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(old: i32, new: i32, flags: i32) -> i32 {
    if flags & !libc::O_CLOEXEC == 0 {
        io::replacing(old, new);
    }
    // SAFETY: the same call as our caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_dup3,
            libc::c_long::from(old),
            libc::c_long::from(new),
            libc::c_long::from(flags),
        )
    };
    shared(old, result as i32)
}

/// # Safety
/// As fcntl(2): of its further arguments only the first is looked at.
unsafe fn control(
    next: Option<unsafe extern "C" fn(i32, i32, *mut c_void) -> i32>,
    descriptor: i32,
    command: i32,
    argument: *mut c_void,
) -> i32 {
    let Some(next) = next else {
        return missing();
    };
    // SAFETY: our caller's promise.
    let result = unsafe { next(descriptor, command, argument) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return shared(descriptor, result);
    }
    result
}

/// # Safety
/// As fcntl(2). Variadic there: the argument is in the register that a third one has.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl(descriptor: i32, command: i32, argument: *mut c_void) -> i32 {
    // SAFETY: fcntl(2) as called with three arguments.
    static NEXT: Symbol<unsafe extern "C" fn(i32, i32, *mut c_void) -> i32> =
        unsafe { Symbol::new(c"fcntl") };
    // SAFETY: our caller's promise.
    unsafe { control(NEXT.look_up(), descriptor, command, argument) }
}

/// # Safety
/// As fcntl(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl64(
    descriptor: i32,
    command: i32,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: as above.
    static NEXT: Symbol<unsafe extern "C" fn(i32, i32, *mut c_void) -> i32> =
        unsafe { Symbol::new(c"fcntl64") };
    // SAFETY: our caller's promise.
    unsafe { control(NEXT.look_up(), descriptor, command, argument) }
}

fn shared(old: i32, new: i32) -> i32 {
    if new >= 0 && new != old {
        io::duplicated(old, new);
    }
    new
}

/// The error itself is returned, as posix_fadvise(3) does.
fn advise(descriptor: i32, offset: i64, bytes: i64, advice: i32) -> i32 {
    match advice {
        // These do something now, as readahead(2), and say nothing of what comes.
        libc::POSIX_FADV_WILLNEED => {}
        libc::POSIX_FADV_DONTNEED => io::drops_itself(descriptor),
        libc::POSIX_FADV_NOREUSE => io::advised(descriptor, Own::All),
        _ => io::advised(descriptor, Own::ReadingAhead),
    }
    pagewise_interpose::keeping_errno(|| {
        // SAFETY: numbers only.
        let result = unsafe {
            libc::syscall(
                libc::SYS_fadvise64,
                libc::c_long::from(descriptor),
                offset,
                bytes,
                libc::c_long::from(advice),
            )
        };
        if result == 0 {
            return 0;
        }
        // SAFETY: this thread's own errno.
        unsafe { *libc::__errno_location() }
    })
}

/// # Safety
/// As posix_fadvise(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_fadvise(
    descriptor: i32,
    offset: i64,
    bytes: i64,
    advice: i32,
) -> i32 {
    advise(descriptor, offset, bytes, advice)
}

/// # Safety
/// As posix_fadvise(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_fadvise64(
    descriptor: i32,
    offset: i64,
    bytes: i64,
    advice: i32,
) -> i32 {
    advise(descriptor, offset, bytes, advice)
}
