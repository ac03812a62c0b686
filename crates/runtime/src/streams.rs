//! `fread`, `fgets` and kin. Inside, the C library calls a `read` of its own, which cannot be hooked: calls that find the
//! stream's buffer used up are taken for the read. (`getc`, `fscanf` and output by `fwrite` are not seen.)

use std::ffi::c_char;
use std::ffi::c_void;

use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::plan::io;
use crate::plan::io::At;
use crate::plan::io::Request;

/// The start of glibc's `struct _IO_FILE` (libio/bits/types/struct_FILE.h), which macros compiled into programs relied on and which
/// therefore stays.
#[repr(C)]
struct Beginning {
    flags: i32,
    read_at: *const c_char,
    read_end: *const c_char,
}

/// Bytes in the stream's buffer that have not been handed out.
///
/// # Safety
/// `stream` must be open.
unsafe fn buffered(stream: *mut libc::FILE) -> usize {
    // SAFETY: our caller's promise; see `Beginning`. Another thread that uses the stream makes the answer old, no more.
    let beginning = unsafe { std::ptr::read_volatile(stream.cast::<Beginning>()) };
    (beginning.read_end as usize).saturating_sub(beginning.read_at as usize)
}

/// Makes a call that may read, between `before` and `after`. `bytes`: how many are wanted; `read`: how many its result means.
///
/// # Safety
/// `stream` must be open.
unsafe fn around<R: Copy>(
    stream: *mut libc::FILE,
    bytes: usize,
    registers: Registers,
    body: &dyn Fn() -> R,
    read: &dyn Fn(R) -> u64,
) -> R {
    // SAFETY: our caller's promise.
    let fills = !stream.is_null() && unsafe { buffered(stream) } < bytes;
    if !fills {
        return body();
    }
    let request = Request {
        // SAFETY: our caller's promise.
        descriptor: unsafe { libc::fileno(stream) },
        at: At::Buffer,
        bytes: bytes as u64,
        is_write: false,
    };
    let call = io::before(request, registers);
    let result = body();
    if let Some(call) = call {
        io::after(&call, read(result));
    }
    result
}

macro_rules! reads_items {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As fread(3).
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            buffer: *mut c_void,
            bytes: usize,
            count: usize,
            stream: *mut libc::FILE,
        ) -> usize {
            type Function =
                unsafe extern "C-unwind" fn(*mut c_void, usize, usize, *mut libc::FILE) -> usize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                crate::descriptors::missing();
                return 0;
            };
            if !io::is_any() {
                // SAFETY: our caller's promise.
                return unsafe { next(buffer, bytes, count, stream) };
            }
            // SAFETY: our caller's promise.
            unsafe {
                around(
                    stream,
                    bytes.saturating_mul(count),
                    capture(),
                    &|| next(buffer, bytes, count, stream),
                    &|items| (items as u64).saturating_mul(bytes as u64),
                )
            }
        }
    };
}

reads_items!(fread, c"fread");
reads_items!(fread_unlocked, c"fread_unlocked");

macro_rules! reads_items_checked {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As fread(3).
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            buffer: *mut c_void,
            room: usize,
            bytes: usize,
            count: usize,
            stream: *mut libc::FILE,
        ) -> usize {
            type Function = unsafe extern "C-unwind" fn(
                *mut c_void,
                usize,
                usize,
                usize,
                *mut libc::FILE,
            ) -> usize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                crate::descriptors::missing();
                return 0;
            };
            if !io::is_any() {
                // SAFETY: our caller's promise.
                return unsafe { next(buffer, room, bytes, count, stream) };
            }
            // SAFETY: our caller's promise.
            unsafe {
                around(
                    stream,
                    bytes.saturating_mul(count),
                    capture(),
                    &|| next(buffer, room, bytes, count, stream),
                    &|items| (items as u64).saturating_mul(bytes as u64),
                )
            }
        }
    };
}

reads_items_checked!(__fread_chk, c"__fread_chk");
reads_items_checked!(__fread_unlocked_chk, c"__fread_unlocked_chk");

/// # Safety
/// As fgets(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fgets(
    buffer: *mut c_char,
    room: i32,
    stream: *mut libc::FILE,
) -> *mut c_char {
    type Function = unsafe extern "C-unwind" fn(*mut c_char, i32, *mut libc::FILE) -> *mut c_char;
    // SAFETY: fgets(3) has this type.
    static NEXT: Symbol<Function> = unsafe { Symbol::new(c"fgets") };
    let Some(next) = NEXT.look_up() else {
        crate::descriptors::missing();
        return std::ptr::null_mut();
    };
    if !io::is_any() {
        // SAFETY: our caller's promise.
        return unsafe { next(buffer, room, stream) };
    }
    // How long the line is, is not worth a look: the descriptor's position tells where the stream is.
    // SAFETY: our caller's promise.
    unsafe {
        around(
            stream,
            1,
            capture(),
            &|| next(buffer, room, stream),
            &|line| u64::from(!line.is_null()),
        )
    }
}

macro_rules! reads_line {
    ($name:ident($($more:ident: $kind:ty),*), $symbol:literal) => {
        /// # Safety
        /// As getdelim(3).
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            line: *mut *mut c_char,
            room: *mut usize,
            $($more: $kind,)*
            stream: *mut libc::FILE,
        ) -> isize {
            type Function =
                unsafe extern "C-unwind" fn(*mut *mut c_char, *mut usize, $($kind,)* *mut libc::FILE) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            if !io::is_any() {
                // SAFETY: our caller's promise.
                return unsafe { next(line, room, $($more,)* stream) };
            }
            // SAFETY: our caller's promise.
            unsafe {
                around(
                    stream,
                    1,
                    capture(),
                    &|| next(line, room, $($more,)* stream),
                    &|bytes| u64::try_from(bytes).unwrap_or(0),
                )
            }
        }
    };
}

reads_line!(getline(), c"getline");
reads_line!(getdelim(delimiter: i32), c"getdelim");
reads_line!(__getdelim(delimiter: i32), c"__getdelim");
