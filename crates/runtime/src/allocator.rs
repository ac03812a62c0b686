//! `malloc` and its family. Each hook calls the next allocator and does no more for most small allocations.
//!
//! Releases are told before they happen, allocations after: in between, nobody else can own the address.

use std::ffi::c_void;

use pagewise_abi::AllocationKind;
use pagewise_interpose::EarlyPool;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::blocks;
use crate::plan;
use crate::plan::Hook;
use crate::stream::Made;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> i32;
type Free = unsafe extern "C" fn(*mut c_void);
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

// SAFETY: the C library's type for the function of this name.
static MALLOC: Symbol<Malloc> = unsafe { Symbol::new(c"malloc") };
// SAFETY: as above.
static CALLOC: Symbol<Calloc> = unsafe { Symbol::new(c"calloc") };
// SAFETY: as above.
static REALLOC: Symbol<Realloc> = unsafe { Symbol::new(c"realloc") };
// SAFETY: as above.
static MEMALIGN: Symbol<Aligned> = unsafe { Symbol::new(c"memalign") };
// SAFETY: as above.
static ALIGNED_ALLOC: Symbol<Aligned> = unsafe { Symbol::new(c"aligned_alloc") };
// SAFETY: as above.
static POSIX_MEMALIGN: Symbol<PosixMemalign> = unsafe { Symbol::new(c"posix_memalign") };
// SAFETY: as above.
static VALLOC: Symbol<Malloc> = unsafe { Symbol::new(c"valloc") };
// SAFETY: as above.
static PVALLOC: Symbol<Malloc> = unsafe { Symbol::new(c"pvalloc") };
// SAFETY: as above.
static FREE: Symbol<Free> = unsafe { Symbol::new(c"free") };
// SAFETY: as above.
static USABLE_SIZE: Symbol<UsableSize> = unsafe { Symbol::new(c"malloc_usable_size") };

/// Serves the linker while it looks up the functions above.
static EARLY: EarlyPool = EarlyPool::new();

/// Looks a function up; while the linker is at it, its own requests find `None` and take the early pool.
fn real<F: Copy>(symbol: &'static Symbol<F>) -> Option<F> {
    thread_local!(static LOOKING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if let Some(function) = symbol.known() {
        return Some(function);
    }
    LOOKING
        .try_with(|looking| {
            if looking.replace(true) {
                return None;
            }
            let function = symbol.look_up();
            looking.set(false);
            function
        })
        .ok()
        .flatten()
}

#[cold]
fn made(
    address: *mut c_void,
    bytes: usize,
    kind: AllocationKind,
    registers: pagewise_interpose::Registers,
) {
    blocks::made(Made {
        address: address as usize,
        bytes,
        kind,
        registers,
    });
}

/// What follows each successful allocation, but for its being recorded.
#[inline(always)]
fn plan(address: *mut c_void, bytes: usize) {
    if plan::wants(bytes) {
        plan::allocated(address as usize, bytes, Hook::Allocator, None);
    }
    look_at_heap(address, bytes);
}

/// The same, of a block that grew, too.
#[inline(always)]
fn look_at_heap(address: *mut c_void, bytes: usize) {
    if plan::is_heap_grown((address as usize).wrapping_add(bytes)) {
        plan::heap_grew();
    } else if plan::is_thread_heap_grown(address as usize, bytes) {
        plan::thread_heap_grew(address as usize);
    }
}

fn out_of_memory() -> *mut c_void {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    std::ptr::null_mut()
}

/// # Safety
/// As malloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    let Some(real) = real(&MALLOC) else {
        return EARLY.allocate(bytes, 1).cast();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(bytes) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Malloc, capture());
    }
    plan(address, bytes);
    address
}

/// # Safety
/// As calloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    let bytes = count.saturating_mul(each);
    let Some(real) = real(&CALLOC) else {
        return EARLY.allocate(bytes, 1).cast();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(count, each) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Calloc, capture());
    }
    plan(address, bytes);
    address
}

/// # Safety
/// As realloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the same call as our caller's.
    unsafe { resize(old, bytes, capture()) }
}

/// # Safety
/// As reallocarray(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn reallocarray(old: *mut c_void, count: usize, each: usize) -> *mut c_void {
    match count.checked_mul(each) {
        // SAFETY: the same call as our caller's.
        Some(bytes) => unsafe { resize(old, bytes, capture()) },
        None => out_of_memory(),
    }
}

/// # Safety
/// As realloc(3).
unsafe fn resize(
    old: *mut c_void,
    bytes: usize,
    registers: pagewise_interpose::Registers,
) -> *mut c_void {
    let Some(real) = real(&REALLOC) else {
        return EARLY.allocate(bytes, 1).cast();
    };
    if EARLY.owns(old.cast()) {
        // SAFETY: as malloc; `old` is early memory, which is never given back.
        return unsafe { leave_early_pool(old, bytes) };
    }
    let was_recorded = blocks::releasing(old as usize);
    let old_bytes = if was_recorded {
        // SAFETY: `old` is an allocation of the real allocator.
        unsafe { usable_size(old) }
    } else {
        0
    };
    // SAFETY: as above.
    let inherited = plan::resizing(old as usize, bytes, || unsafe { usable_size(old) });
    let planned_bytes = match inherited {
        // SAFETY: as above.
        Some(_) => unsafe { usable_size(old) },
        None => 0,
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(old, bytes) };
    let failed = address.is_null() && bytes != 0;
    if inherited.is_some() || plan::wants(bytes) {
        // An object that grows at a place that no rule names is still the same.
        let (address, bytes) = if failed {
            (old, planned_bytes)
        } else {
            (address, bytes)
        };
        plan::allocated(address as usize, bytes, Hook::Allocator, inherited);
    }
    look_at_heap(address, bytes);
    if failed {
        if was_recorded && blocks::is_due(old_bytes) {
            // It failed: the old allocation lives on.
            made(old, old_bytes, AllocationKind::Realloc, registers);
        }
    } else if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Realloc, registers);
    }
    address
}

/// # Safety
/// `old` must be memory of the early pool.
unsafe fn leave_early_pool(old: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: as malloc(3).
    let address = unsafe { malloc(bytes) };
    if !address.is_null() {
        // The pool does not know how long an allocation is; what follows it in the pool is readable up to its end.
        let readable =
            (0..bytes).take_while(|&offset| EARLY.owns(old.cast::<u8>().wrapping_add(offset)));
        // SAFETY: `readable` bytes lie within the pool, `address` has `bytes` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(old.cast::<u8>(), address.cast(), readable.count())
        };
    }
    address
}

/// # Safety
/// As free(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free(address: *mut c_void) {
    if address.is_null() || EARLY.owns(address.cast()) {
        return;
    }
    blocks::releasing(address as usize);
    // SAFETY: `address` is an allocation of the real allocator.
    plan::releasing(address as usize, || unsafe { usable_size(address) });
    if let Some(real) = real(&FREE) {
        // SAFETY: the same call as our caller's.
        unsafe { real(address) };
    }
}

/// Bytes of an allocation, 0 for null or an allocator that does not tell.
///
/// # Safety
/// `address` must be null or an allocation of the real allocator.
unsafe fn usable_size(address: *mut c_void) -> usize {
    if address.is_null() {
        return 0;
    }
    match real(&USABLE_SIZE) {
        // SAFETY: see above.
        Some(usable_size) => unsafe { usable_size(address) },
        None => 0,
    }
}

/// The same of a block that is known to be alive.
pub(crate) fn usable_bytes(address: usize) -> usize {
    // SAFETY: the plan asks of blocks only that the program has just been given, or gives back.
    unsafe { usable_size(address as *mut c_void) }
}

/// # Safety
/// As memalign(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(real) = real(&MEMALIGN) else {
        return EARLY.allocate(bytes, alignment).cast();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(alignment, bytes) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Aligned, capture());
    }
    plan(address, bytes);
    address
}

/// # Safety
/// As aligned_alloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(real) = real(&ALIGNED_ALLOC) else {
        return EARLY.allocate(bytes, alignment).cast();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(alignment, bytes) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Aligned, capture());
    }
    plan(address, bytes);
    address
}

/// # Safety
/// As posix_memalign(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> i32 {
    let Some(real) = real(&POSIX_MEMALIGN) else {
        return libc::ENOMEM;
    };
    // SAFETY: the same call as our caller's.
    let error = unsafe { real(place, alignment, bytes) };
    if error == 0 {
        // SAFETY: on success the place holds the address.
        let address = unsafe { *place };
        if blocks::is_due(bytes) {
            made(address, bytes, AllocationKind::Aligned, capture());
        }
        plan(address, bytes);
    }
    error
}

/// # Safety
/// As valloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    let Some(real) = real(&VALLOC) else {
        return out_of_memory();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(bytes) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Aligned, capture());
    }
    plan(address, bytes);
    address
}

/// # Safety
/// As pvalloc(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    let Some(real) = real(&PVALLOC) else {
        return out_of_memory();
    };
    // SAFETY: the same call as our caller's.
    let address = unsafe { real(bytes) };
    if blocks::is_due(bytes) {
        made(address, bytes, AllocationKind::Aligned, capture());
    }
    plan(address, bytes);
    address
}
