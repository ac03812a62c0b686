//! Objects of the next allocator, where a guarded one cannot be had: no address space or mapping is left, or a signal handler
//! interrupted the heap. The program goes on; they are counted and told.

use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_interpose::AddressSet;
use pagewise_interpose::Symbol;

use crate::heap;
use crate::release::USUAL_ALIGNMENT;
use crate::settings;

type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Zeroed = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

// SAFETY: the C library's type for the function of this name.
static MEMALIGN: Symbol<Aligned> = unsafe { Symbol::new(c"memalign") };
// SAFETY: as above.
static CALLOC: Symbol<Zeroed> = unsafe { Symbol::new(c"calloc") };
// SAFETY: as above.
static FREE: Symbol<Free> = unsafe { Symbol::new(c"free") };
// SAFETY: as above.
static USABLE_SIZE: Symbol<UsableSize> = unsafe { Symbol::new(c"malloc_usable_size") };

static OURS: AddressSet = AddressSet::new();
/// There was no room for one in it: what is not known may be one, too.
static ARE_TOO_MANY: AtomicBool = AtomicBool::new(false);
/// Objects that should have had a guard.
pub(crate) static COUNT: AtomicU64 = AtomicU64::new(0);
/// Objects that were to have none.
pub(crate) static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Looks the next allocator's functions up, while that may allocate.
pub(crate) fn prepare() {
    MEMALIGN.look_up();
    CALLOC.look_up();
    FREE.look_up();
    USABLE_SIZE.look_up();
}

/// Whether there is an allocator to turn to.
pub(crate) fn is_ready() -> bool {
    MEMALIGN.known().is_some()
}

/// Memory for an object that is to have no guard; null: there is none. These are too many to remember.
pub(crate) fn leave_out(bytes: usize, alignment: usize, is_zeroed: bool) -> *mut u8 {
    LEFT_OUT.fetch_add(1, Ordering::Relaxed);
    make(bytes, alignment, is_zeroed)
}

/// As the C library makes it: zeros, where they are asked for, are the system's if it is much, and cost no memory.
fn make(bytes: usize, alignment: usize, is_zeroed: bool) -> *mut u8 {
    let alignment = alignment.max(USUAL_ALIGNMENT);
    if is_zeroed
        && alignment == USUAL_ALIGNMENT
        && let Some(real) = CALLOC.known()
    {
        // SAFETY: two sizes.
        return unsafe { real(1, bytes) }.cast();
    }
    let Some(real) = MEMALIGN.known() else {
        return std::ptr::null_mut();
    };
    // SAFETY: a power of two and a size.
    let address = unsafe { real(alignment, bytes) };
    if is_zeroed && !address.is_null() {
        // SAFETY: so many bytes were just handed out.
        unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, bytes) };
    }
    address.cast()
}

/// Memory without a guard; null: there is none.
pub(crate) fn allocate(bytes: usize, alignment: usize, is_zeroed: bool) -> *mut u8 {
    let address = make(bytes, alignment, is_zeroed);
    if address.is_null() {
        return address;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    if !settings::is_choosy() && !OURS.insert(address as usize) {
        ARE_TOO_MANY.store(true, Ordering::Relaxed);
    }
    address
}

/// Whether what is not known, and no address of the guard's own, is taken for an object of the next allocator's.
fn may_be(address: usize) -> bool {
    settings::is_choosy() || ARE_TOO_MANY.load(Ordering::Relaxed) && !heap::is_of_arena(address)
}

/// Gives it back; false: it is none of these. Where objects are left out, or too many to be remembered, that is the next
/// allocator's to judge.
pub(crate) fn release(address: usize) -> bool {
    let is_known = OURS.may_hold(address) && OURS.remove(address);
    if !is_known && !may_be(address) {
        return false;
    }
    if let Some(free) = FREE.known() {
        // SAFETY: made by the same allocator, given back once.
        unsafe { free(address as *mut c_void) };
    }
    true
}

/// Bytes of one of these; `None`: it is none.
pub(crate) fn usable_size(address: usize) -> Option<usize> {
    if OURS.may_hold(address) && OURS.remove(address) {
        OURS.insert(address);
    } else if !may_be(address) {
        return None;
    }
    let real = USABLE_SIZE.known()?;
    // SAFETY: an allocation of that allocator.
    Some(unsafe { real(address as *mut c_void) })
}
