//! Objects of the next allocator, where a guarded one cannot be had: no address space or mapping is left, or a signal handler
//! interrupted the heap. The program goes on; they are counted and told.

use std::ffi::c_void;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_interpose::AddressSet;
use pagewise_interpose::Symbol;

type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

// SAFETY: the C library's type for the function of this name.
static MEMALIGN: Symbol<Aligned> = unsafe { Symbol::new(c"memalign") };
// SAFETY: as above.
static FREE: Symbol<Free> = unsafe { Symbol::new(c"free") };
// SAFETY: as above.
static USABLE_SIZE: Symbol<UsableSize> = unsafe { Symbol::new(c"malloc_usable_size") };

static OURS: AddressSet = AddressSet::new();
pub(crate) static COUNT: AtomicU64 = AtomicU64::new(0);

/// Looks the next allocator's functions up, while that may allocate.
pub(crate) fn prepare() {
    MEMALIGN.look_up();
    FREE.look_up();
    USABLE_SIZE.look_up();
}

/// Zeroed memory; null: there is none.
pub(crate) fn allocate(bytes: usize, alignment: usize) -> *mut u8 {
    let Some(real) = MEMALIGN.known() else {
        return std::ptr::null_mut();
    };
    // SAFETY: a power of two and a size.
    let address = unsafe { real(alignment.max(16), bytes) };
    if address.is_null() {
        return std::ptr::null_mut();
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    if !OURS.insert(address as usize) {
        // It could not be given back by the right allocator: better none.
        if let Some(free) = FREE.known() {
            // SAFETY: made above.
            unsafe { free(address) };
        }
        return std::ptr::null_mut();
    }
    // SAFETY: so many bytes were just handed out.
    unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, bytes) };
    address.cast()
}

/// Gives it back; false: it is none of these.
pub(crate) fn release(address: usize) -> bool {
    if !OURS.may_hold(address) || !OURS.remove(address) {
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
    if !OURS.may_hold(address) || !OURS.remove(address) {
        return None;
    }
    OURS.insert(address);
    let real = USABLE_SIZE.known()?;
    // SAFETY: an allocation of that allocator.
    Some(unsafe { real(address as *mut c_void) })
}
