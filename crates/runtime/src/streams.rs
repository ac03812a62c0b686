//! `fread`, `fgets` and kin. Inside, the C library calls a `read` of its own, which cannot be hooked: calls that find the
//! stream's buffer used up are taken for the read. (`getc`, `fscanf` and output by `fwrite` are not seen.)

use std::ffi::c_char;
use std::ffi::c_void;

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

/// Whether a call is anything but the program's own.
#[inline(always)]
fn is_looked_at() -> bool {
    io::is_any() || settings::wants_file_calls()
}

/// What is done for a call besides making it, which the hook itself does: see `file_io`.
struct Looked {
    planned: Option<io::Call>,
    told: Option<Begun>,
}

/// A call is about to be made that may read; `bytes`: how many are wanted. `None`: the stream has them.
///
/// # Safety
/// `stream` must be open, or null.
#[cold]
unsafe fn before(stream: *mut libc::FILE, bytes: usize, registers: Registers) -> Option<Looked> {
    // SAFETY: our caller's promise.
    let fills = !stream.is_null() && unsafe { buffered(stream) } < bytes;
    if !fills {
        return None;
    }
    // SAFETY: our caller's promise.
    let descriptor = unsafe { libc::fileno(stream) };
    let request = Request {
        descriptor,
        at: At::Buffer,
        bytes: bytes as u64,
        is_write: false,
    };
    let call = Call {
        kind: CallKind::Read,
        descriptor,
        at: Some(At::Buffer),
    };
    let planned = io::is_any().then(|| io::before(request, registers));
    Some(Looked {
        planned: planned.flatten(),
        told: file_calls::begin(call, registers),
    })
}

/// It is over, and has handed out so many bytes.
#[cold]
fn after(looked: Option<Looked>, bytes: u64) {
    let Some(looked) = looked else {
        return;
    };
    if let Some(begun) = &looked.told {
        file_calls::end_of_stream(begun);
    }
    if let Some(call) = &looked.planned {
        io::after(call, bytes);
    }
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
                unsafe extern "C" fn(*mut c_void, usize, usize, *mut libc::FILE) -> usize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                crate::descriptors::missing();
                return 0;
            };
            if !is_looked_at() {
                // SAFETY: our caller's promise.
                return unsafe { next(buffer, bytes, count, stream) };
            }
            // SAFETY: our caller's promise.
            let looked = unsafe { before(stream, bytes.saturating_mul(count), capture()) };
            // SAFETY: as above.
            let items = unsafe { next(buffer, bytes, count, stream) };
            after(looked, (items as u64).saturating_mul(bytes as u64));
            items
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
            type Function =
                unsafe extern "C" fn(*mut c_void, usize, usize, usize, *mut libc::FILE) -> usize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                crate::descriptors::missing();
                return 0;
            };
            if !is_looked_at() {
                // SAFETY: our caller's promise.
                return unsafe { next(buffer, room, bytes, count, stream) };
            }
            // SAFETY: our caller's promise.
            let looked = unsafe { before(stream, bytes.saturating_mul(count), capture()) };
            // SAFETY: as above.
            let items = unsafe { next(buffer, room, bytes, count, stream) };
            after(looked, (items as u64).saturating_mul(bytes as u64));
            items
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
    type Function = unsafe extern "C" fn(*mut c_char, i32, *mut libc::FILE) -> *mut c_char;
    // SAFETY: fgets(3) has this type.
    static NEXT: Symbol<Function> = unsafe { Symbol::new(c"fgets") };
    let Some(next) = NEXT.look_up() else {
        crate::descriptors::missing();
        return std::ptr::null_mut();
    };
    if !is_looked_at() {
        // SAFETY: our caller's promise.
        return unsafe { next(buffer, room, stream) };
    }
    // How long the line is, is not worth a look: the descriptor's position tells where the stream is.
    // SAFETY: our caller's promise.
    let looked = unsafe { before(stream, 1, capture()) };
    // SAFETY: as above.
    let line = unsafe { next(buffer, room, stream) };
    after(looked, u64::from(!line.is_null()));
    line
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
                unsafe extern "C" fn(*mut *mut c_char, *mut usize, $($kind,)* *mut libc::FILE) -> isize;
            // SAFETY: the function's type.
            static NEXT: Symbol<Function> = unsafe { Symbol::new($symbol) };
            let Some(next) = NEXT.look_up() else {
                return crate::descriptors::missing() as isize;
            };
            if !is_looked_at() {
                // SAFETY: our caller's promise.
                return unsafe { next(line, room, $($more,)* stream) };
            }
            // SAFETY: our caller's promise.
            let looked = unsafe { before(stream, 1, capture()) };
            // SAFETY: as above.
            let bytes = unsafe { next(line, room, $($more,)* stream) };
            after(looked, u64::try_from(bytes).unwrap_or(0));
            bytes
        }
    };
}

reads_line!(getline(), c"getline");
reads_line!(getdelim(delimiter: i32), c"getdelim");
reads_line!(__getdelim(delimiter: i32), c"__getdelim");
