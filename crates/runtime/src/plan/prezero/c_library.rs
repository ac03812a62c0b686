//! Whether the program's allocator is the C library's. That one maps its memory without the hooks, so a mapping that they see
//! is made by nobody who holds its lock.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

static IS_ALLOCATOR: AtomicBool = AtomicBool::new(false);

pub(super) fn is_allocator() -> bool {
    IS_ALLOCATOR.load(Ordering::Relaxed)
}

/// Looks it up: when this library is loaded, since that takes the linker's lock.
pub(super) fn look() {
    let name = c"malloc".as_ptr();
    // SAFETY: the name is a C string.
    let (first, next) = unsafe {
        (
            libc::dlsym(libc::RTLD_DEFAULT, name),
            libc::dlsym(libc::RTLD_NEXT, name),
        )
    };
    let ours = module(look as *const c_void);
    let c_library = module(libc::gnu_get_libc_version as *const c_void);
    let is = ours.is_some() && module(first) == ours && module(next) == c_library;
    IS_ALLOCATOR.store(is, Ordering::Relaxed);
}

/// Where the module is loaded that has this address.
fn module(address: *const c_void) -> Option<usize> {
    let mut told = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a valid place for the answer; any address may be asked for.
    let is_told = unsafe { libc::dladdr(address, told.as_mut_ptr()) } != 0;
    // SAFETY: zeros are valid, and so is what was told.
    let base = unsafe { told.assume_init() }.dli_fbase as usize;
    is_told.then_some(base)
}
