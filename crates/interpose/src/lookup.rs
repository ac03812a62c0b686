//! The next function of the same name: what the program would have called without us.

use std::ffi::CStr;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

/// A function looked up once, by name. `F` is its type, an `unsafe extern "C" fn`.
pub struct Symbol<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// Names the function.
    ///
    /// # Safety
    /// `F` must be the type of the C function of that name.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Self {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            function: PhantomData,
        }
    }

    /// The function, if it is known already: never looks it up.
    pub fn known(&self) -> Option<F> {
        let address = self.address.load(Ordering::Relaxed);
        // SAFETY: a non-null address was stored by `look_up` for this name; `new`'s caller vouches for the type.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }

    /// The function; looks it up the first time. `None`: no library has one.
    pub fn look_up(&self) -> Option<F> {
        if let Some(function) = self.known() {
            return Some(function);
        }
        // SAFETY: the name is a C string; RTLD_NEXT searches the libraries behind this one.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        self.known()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_exists_and_says_what_does_not() {
        // SAFETY: getpid(2) has this type.
        let known = unsafe { Symbol::<unsafe extern "C" fn() -> i32>::new(c"getpid") };
        assert!(known.known().is_none());
        let getpid = known.look_up().expect("libc has getpid");
        // SAFETY: getpid has no preconditions.
        assert_eq!(unsafe { getpid() } as u32, std::process::id());
        // SAFETY: there is no such function, so no type can be wrong.
        let unknown = unsafe { Symbol::<unsafe extern "C" fn()>::new(c"no_such_function") };
        assert!(unknown.look_up().is_none());
    }
}
