//! `malloc` and its family, and what the library does when it is loaded.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;

use pagewise_abi::guard::Family;
use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;
use pagewise_interpose::unwind;

use crate::buffers;
use crate::compaction;
use crate::ending;
use crate::heap;
use crate::heap::Request;
use crate::own_memory;
use crate::page;
use crate::release::Told;
use crate::release::release;
use crate::report;
use crate::settings;
use crate::signals;
use crate::strings;
use crate::system;
use crate::unguarded;

#[used]
#[unsafe(link_section = ".init_array")]
#[cfg(not(test))]
static AT_START: extern "C" fn(c_int, Arguments, Arguments) = start;

#[used]
#[unsafe(link_section = ".fini_array")]
#[cfg(not(test))]
static AT_END: extern "C" fn() = ending::at_end;

type Arguments = *const *const c_char;

/// Before all other code but the loader's, constructors of the C library too (see `build.rs`): the environment is what the
/// loader passes.
#[cfg_attr(test, expect(dead_code, reason = "tests are not preloaded"))]
extern "C" fn start(_count: c_int, _arguments: Arguments, environment: Arguments) {
    own_memory::take_small_pages();
    settings::set_environment(environment);
    settings::read();
    heap::prepare_locks();
    if settings::wants_core() {
        system::allow_core();
    }
    unguarded::prepare();
    buffers::prepare();
    strings::prepare_all();
    ending::prepare();
    signals::install();
    compaction::prepare();
    report::connect();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(heap::before_fork),
            Some(heap::after_fork),
            Some(in_child),
        )
    };
}

extern "C" fn in_child() {
    heap::in_child();
    ending::after_fork();
}

fn make(bytes: usize, alignment: Option<usize>, registers: Registers) -> *mut c_void {
    heap::allocate(&request(bytes, alignment, registers)).cast()
}

fn request(bytes: usize, alignment: Option<usize>, registers: Registers) -> Request {
    Request {
        bytes,
        alignment,
        family: Family::Malloc,
        is_zeroed: false,
        registers,
    }
}

fn errno(value: c_int) -> *mut c_void {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = value };
    std::ptr::null_mut()
}

/// # Safety
/// As malloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    make(bytes, None, capture())
}

/// # Safety
/// As calloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    match count.checked_mul(each) {
        Some(bytes) => {
            let request = Request {
                is_zeroed: true,
                ..request(bytes, None, capture())
            };
            heap::allocate(&request).cast()
        }
        None => errno(libc::ENOMEM),
    }
}

/// # Safety
/// As free(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free(address: *mut c_void) {
    release(address.cast(), Told::of(Family::Malloc), capture());
}

/// # Safety
/// As free(3); C23.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free_sized(address: *mut c_void, bytes: usize) {
    let told = Told {
        bytes: Some(bytes),
        ..Told::of(Family::Malloc)
    };
    release(address.cast(), told, capture());
}

/// # Safety
/// As free(3); C23.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free_aligned_sized(address: *mut c_void, alignment: usize, bytes: usize) {
    let told = Told {
        family: Family::Malloc,
        bytes: Some(bytes),
        alignment: Some(alignment),
    };
    release(address.cast(), told, capture());
}

/// # Safety
/// As realloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    resize(old, bytes, capture())
}

/// # Safety
/// As reallocarray(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn reallocarray(old: *mut c_void, count: usize, each: usize) -> *mut c_void {
    match count.checked_mul(each) {
        Some(bytes) => resize(old, bytes, capture()),
        None => errno(libc::ENOMEM),
    }
}

fn resize(old: *mut c_void, bytes: usize, registers: Registers) -> *mut c_void {
    let request = request(bytes, None, registers);
    if old.is_null() {
        return heap::allocate(&request).cast();
    }
    if bytes == 0 {
        // As the GNU C library does.
        release(old.cast(), Told::of(Family::Malloc), registers);
        return std::ptr::null_mut();
    }
    heap::resize(old.cast(), &request).cast()
}

/// # Safety
/// As memalign(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    match alignment.checked_next_power_of_two() {
        Some(alignment) => make(bytes, Some(alignment), capture()),
        None => errno(libc::EINVAL),
    }
}

/// # Safety
/// As aligned_alloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return errno(libc::EINVAL);
    }
    make(bytes, Some(alignment), capture())
}

/// # Safety
/// As posix_memalign(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let made = make(bytes, Some(alignment), capture());
    if made.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: a place for the address, by our caller.
    unsafe { *place = made };
    0
}

/// # Safety
/// As valloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    make(bytes, Some(page::bytes()), capture())
}

/// # Safety
/// As pvalloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(page::bytes()) {
        Some(bytes) => make(bytes, Some(page::bytes()), capture()),
        None => errno(libc::ENOMEM),
    }
}

/// # Safety
/// As malloc_usable_size(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_usable_size(address: *mut c_void) -> usize {
    heap::usable_size(address.cast())
}

/// Code goes: what was remembered of its unwind tables goes first.
///
/// # Safety
/// As dlclose(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    // SAFETY: the C library's type for the function of this name.
    static REAL: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int> =
        unsafe { Symbol::new(c"dlclose") };
    let Some(real) = REAL.look_up() else {
        return -1;
    };
    // SAFETY: the same call as our caller's.
    let result = unsafe { real(handle) };
    unwind::forget();
    result
}
