//! Copies of bytes and strings: arguments that go beyond an object, above all before its begin, where no guard is, are told
//! before the call.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;

use libc::size_t;
use libc::wchar_t;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::plain;
use crate::report;
use crate::settings;
use crate::wrap::check;
use crate::wrap::wrappers;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> *mut c_void;
type Fill = unsafe extern "C" fn(*mut c_void, c_int, size_t) -> *mut c_void;

// SAFETY: the C library's type for the function of this name.
static MEMCPY: Symbol<Copy> = unsafe { Symbol::new(c"memcpy") };
// SAFETY: as above.
static MEMMOVE: Symbol<Copy> = unsafe { Symbol::new(c"memmove") };
// SAFETY: as above.
static MEMSET: Symbol<Fill> = unsafe { Symbol::new(c"memset") };

/// Looks all of them up, while that may take a lock.
pub(crate) fn prepare_all() {
    MEMCPY.look_up();
    MEMMOVE.look_up();
    MEMSET.look_up();
    prepare();
}

/// Looks at the arguments of a copy.
macro_rules! check_copy {
    ($name:literal, $to:expr, $from:expr, $bytes:expr) => {
        check!($name, $from, $bytes, Read);
        check!($name, $to, $bytes, Write);
    };
}

/// Tells of a copy onto itself, if that is wanted.
macro_rules! check_overlap {
    ($name:literal, $to:expr, $from:expr, $bytes:expr) => {
        let (to, from) = ($to as usize, $from as usize);
        if settings::wants_overlap() && to != from {
            let bytes: usize = $bytes;
            if to.abs_diff(from) < bytes {
                report::overlap($name, to, bytes, capture());
            }
        }
    };
}

/// # Safety
/// As memcpy. What the loader and this library copy before the C library's own is known is copied here.
unsafe fn copy(
    real: &Symbol<Copy>,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> *mut c_void {
    match real.known() {
        // SAFETY: the same call as our caller's.
        Some(real) => unsafe { real(to, from, bytes) },
        None => {
            // SAFETY: as above; the direction is that in which nothing is lost.
            unsafe {
                if (to as usize) <= from as usize {
                    plain::copy(to.cast(), from.cast(), bytes);
                } else {
                    plain::copy_backward(to.cast(), from.cast(), bytes);
                }
            }
            to
        }
    }
}

/// # Safety
/// As memset.
unsafe fn fill(to: *mut c_void, value: c_int, bytes: usize) -> *mut c_void {
    match MEMSET.known() {
        // SAFETY: the same call as our caller's.
        Some(real) => unsafe { real(to, value, bytes) },
        None => {
            // SAFETY: as above.
            unsafe { plain::fill(to.cast(), value as u8, bytes) };
            to
        }
    }
}

/// # Safety
/// As memcpy(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(
    to: *mut c_void,
    from: *const c_void,
    bytes: size_t,
) -> *mut c_void {
    check_copy!("memcpy", to, from, bytes);
    check_overlap!("memcpy", to, from, bytes);
    // SAFETY: the same call as our caller's.
    unsafe { copy(&MEMCPY, to, from, bytes) }
}

/// # Safety
/// As memmove(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memmove(
    to: *mut c_void,
    from: *const c_void,
    bytes: size_t,
) -> *mut c_void {
    check_copy!("memmove", to, from, bytes);
    // SAFETY: the same call as our caller's.
    unsafe { copy(&MEMMOVE, to, from, bytes) }
}

/// # Safety
/// As memset(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut c_void, value: c_int, bytes: size_t) -> *mut c_void {
    check!("memset", to, bytes, Write);
    // SAFETY: the same call as our caller's.
    unsafe { fill(to, value, bytes) }
}

/// Bytes of wide characters.
fn wide(count: size_t) -> size_t {
    count.saturating_mul(size_of::<wchar_t>())
}

/// Bytes of a string, its end included.
fn text(from: *const c_char) -> size_t {
    // SAFETY: a string, as our caller's caller says: it is about to be copied.
    1 + unsafe { libc::strlen(from) }
}

// Of strings whose lengths are not known the first byte is looked at; their ends meet guards.
wrappers! {
    fn __memcpy_chk(to: *mut c_void, from: *const c_void, bytes: size_t, room: size_t) -> *mut c_void = std::ptr::null_mut(), {
        check_copy!("memcpy", to, from, bytes);
        check_overlap!("memcpy", to, from, bytes);
    }
    fn __memmove_chk(to: *mut c_void, from: *const c_void, bytes: size_t, room: size_t) -> *mut c_void = std::ptr::null_mut(), {
        check_copy!("memmove", to, from, bytes);
    }
    fn __memset_chk(to: *mut c_void, value: c_int, bytes: size_t, room: size_t) -> *mut c_void = std::ptr::null_mut(), {
        check!("memset", to, bytes, Write);
    }
    fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("strcpy", to, from, 1);
        check_overlap!("strcpy", to, from, text(from));
    }
    fn strncpy(to: *mut c_char, from: *const c_char, count: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("strncpy", from, count.min(1), Read);
        check!("strncpy", to, count, Write);
    }
    fn __strcpy_chk(to: *mut c_char, from: *const c_char, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("strcpy", to, from, 1);
        check_overlap!("strcpy", to, from, text(from));
    }
    fn __strncpy_chk(to: *mut c_char, from: *const c_char, count: size_t, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("strncpy", from, count.min(1), Read);
        check!("strncpy", to, count, Write);
    }
    fn strcat(to: *mut c_char, from: *const c_char) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("strcat", to, from, 1);
    }
    fn strncat(to: *mut c_char, from: *const c_char, count: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("strncat", from, count.min(1), Read);
        check!("strncat", to, count.min(1), Write);
    }
    fn __strcat_chk(to: *mut c_char, from: *const c_char, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("strcat", to, from, 1);
    }
    fn __strncat_chk(to: *mut c_char, from: *const c_char, count: size_t, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("strncat", from, count.min(1), Read);
        check!("strncat", to, count.min(1), Write);
    }
    fn wcscpy(to: *mut wchar_t, from: *const wchar_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wcscpy", to, from, wide(1));
    }
    fn wcsncpy(to: *mut wchar_t, from: *const wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wcsncpy", from, count.min(1).saturating_mul(wide(1)), Read);
        check!("wcsncpy", to, wide(count), Write);
    }
    fn __wcscpy_chk(to: *mut wchar_t, from: *const wchar_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wcscpy", to, from, wide(1));
    }
    fn __wcsncpy_chk(to: *mut wchar_t, from: *const wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wcsncpy", from, count.min(1).saturating_mul(wide(1)), Read);
        check!("wcsncpy", to, wide(count), Write);
    }
    fn wcscat(to: *mut wchar_t, from: *const wchar_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wcscat", to, from, wide(1));
    }
    fn wcsncat(to: *mut wchar_t, from: *const wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wcsncat", from, count.min(1).saturating_mul(wide(1)), Read);
        check!("wcsncat", to, count.min(1).saturating_mul(wide(1)), Write);
    }
    fn __wcscat_chk(to: *mut wchar_t, from: *const wchar_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wcscat", to, from, wide(1));
    }
    fn __wcsncat_chk(to: *mut wchar_t, from: *const wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wcsncat", from, count.min(1).saturating_mul(wide(1)), Read);
        check!("wcsncat", to, count.min(1).saturating_mul(wide(1)), Write);
    }
    fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("stpcpy", to, from, 1);
        check_overlap!("stpcpy", to, from, text(from));
    }
    fn mempcpy(to: *mut c_void, from: *const c_void, bytes: size_t) -> *mut c_void = std::ptr::null_mut(), {
        check_copy!("mempcpy", to, from, bytes);
        check_overlap!("mempcpy", to, from, bytes);
    }
    fn wmemcpy(to: *mut wchar_t, from: *const wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmemcpy", to, from, wide(count));
        check_overlap!("wmemcpy", to, from, wide(count));
    }
    fn __wmemcpy_chk(to: *mut wchar_t, from: *const wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmemcpy", to, from, wide(count));
        check_overlap!("wmemcpy", to, from, wide(count));
    }
    fn wmemmove(to: *mut wchar_t, from: *const wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmemmove", to, from, wide(count));
    }
    fn __wmemmove_chk(to: *mut wchar_t, from: *const wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmemmove", to, from, wide(count));
    }
    fn wmemset(to: *mut wchar_t, value: wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wmemset", to, wide(count), Write);
    }
    fn puts(text: *const c_char) -> c_int = -1, {
        check!("puts", text, 1, Read);
    }
    fn fputs(text: *const c_char, file: *mut libc::FILE) -> c_int = -1, {
        check!("fputs", text, 1, Read);
    }
    fn stpncpy(to: *mut c_char, from: *const c_char, count: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("stpncpy", from, count.min(1), Read);
        check!("stpncpy", to, count, Write);
    }
    fn __stpncpy_chk(to: *mut c_char, from: *const c_char, count: size_t, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check!("stpncpy", from, count.min(1), Read);
        check!("stpncpy", to, count, Write);
    }
    fn __stpcpy_chk(to: *mut c_char, from: *const c_char, room: size_t) -> *mut c_char = std::ptr::null_mut(), {
        check_copy!("stpcpy", to, from, 1);
        check_overlap!("stpcpy", to, from, text(from));
    }
    fn __mempcpy_chk(to: *mut c_void, from: *const c_void, bytes: size_t, room: size_t) -> *mut c_void = std::ptr::null_mut(), {
        check_copy!("mempcpy", to, from, bytes);
        check_overlap!("mempcpy", to, from, bytes);
    }
    fn wmempcpy(to: *mut wchar_t, from: *const wchar_t, count: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmempcpy", to, from, wide(count));
        check_overlap!("wmempcpy", to, from, wide(count));
    }
    fn __wmempcpy_chk(to: *mut wchar_t, from: *const wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check_copy!("wmempcpy", to, from, wide(count));
        check_overlap!("wmempcpy", to, from, wide(count));
    }
    fn __wmemset_chk(to: *mut wchar_t, value: wchar_t, count: size_t, room: size_t) -> *mut wchar_t = std::ptr::null_mut(), {
        check!("wmemset", to, wide(count), Write);
    }
}
