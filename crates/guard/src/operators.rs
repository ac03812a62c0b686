//! C++: `new` and `delete` in all their forms, by their names in the Itanium C++ ABI. `new` that finds no memory calls the
//! handler that the program set; where there is none the C++ library throws for it, as this one cannot.

use std::ffi::c_void;

use pagewise_abi::guard::Family;
use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;

use crate::ending;
use crate::heap;
use crate::heap::Request;
use crate::release::Told;
use crate::release::release;
use crate::signals;

type Handler = unsafe extern "C" fn();
/// `std::get_new_handler`.
type GetHandler = unsafe extern "C" fn() -> Option<Handler>;
// SAFETY: the C++ library's type for the function of this name.
static GET_HANDLER: Symbol<GetHandler> = unsafe { Symbol::new(c"_ZSt15get_new_handlerv") };

fn make(bytes: usize, alignment: Option<usize>, family: Family, registers: Registers) -> *mut u8 {
    let request = Request {
        bytes,
        alignment,
        family,
        is_zeroed: false,
        registers,
    };
    loop {
        let made = heap::allocate(&request);
        if !made.is_null() {
            return made;
        }
        let handler = GET_HANDLER.look_up().and_then(|get| {
            // SAFETY: no preconditions.
            unsafe { get() }
        });
        match handler {
            // SAFETY: the program set it to be called now.
            Some(handler) => unsafe { handler() },
            None => return made,
        }
    }
}

type Throw = unsafe extern "C" fn() -> !;
/// `std::__throw_bad_alloc`, which the C++ library's containers call.
// SAFETY: the C++ library's type for the function of this name.
static THROW: Symbol<Throw> = unsafe { Symbol::new(c"_ZSt17__throw_bad_allocv") };

/// Where there is no memory the program gets its exception. One without the GNU C++ library ends.
fn or_throw(made: *mut u8) -> *mut c_void {
    if made.is_null() {
        if let Some(function) = THROW.look_up() {
            // SAFETY: no preconditions.
            unsafe { throw(function) }
        }
        ending::summarize();
        signals::abort();
    }
    made.cast()
}

/// Calls what throws. Not as a call that the compiler knows: it would have the program end where an exception passes code that
/// aborts on panics.
///
/// # Safety
/// As the function. In all frames up to the program's nothing may be left to be dropped.
#[inline(always)]
unsafe fn throw(function: Throw) -> ! {
    // SAFETY: by our caller; the stack is aligned as its caller made calls from here.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("call {}", in(reg) function, options(noreturn));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("blr {}", in(reg) function, options(noreturn));
    }
}

/// `new` of a family: plain, without exceptions, aligned, aligned without exceptions.
macro_rules! new {
    ($family:ident, $plain:ident, $nothrow:ident, $aligned:ident, $aligned_nothrow:ident) => {
        /// # Safety
        /// As the C++ operator of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $plain(bytes: usize) -> *mut c_void {
            or_throw(make(bytes, None, Family::$family, capture()))
        }

        /// # Safety
        /// As the C++ operator of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $nothrow(bytes: usize, _: *const c_void) -> *mut c_void {
            make(bytes, None, Family::$family, capture()).cast()
        }

        /// # Safety
        /// As the C++ operator of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $aligned(bytes: usize, alignment: usize) -> *mut c_void {
            or_throw(make(bytes, Some(alignment), Family::$family, capture()))
        }

        /// # Safety
        /// As the C++ operator of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $aligned_nothrow(
            bytes: usize,
            alignment: usize,
            _: *const c_void,
        ) -> *mut c_void {
            make(bytes, Some(alignment), Family::$family, capture()).cast()
        }
    };
}

/// What `delete` is told of size and alignment: an object of another alignment than the usual one is told with it.
fn told(family: Family, bytes: Option<usize>, alignment: usize) -> Told {
    Told {
        family,
        bytes,
        alignment: Some(alignment),
    }
}

/// `delete` of a family: plain, with a size, without exceptions, aligned, aligned with a size, aligned without exceptions.
macro_rules! delete {
    ($family:ident, $plain:ident, $sized:ident, $nothrow:ident, $aligned:ident, $both:ident, $aligned_nothrow:ident) => {
        delete!(@one $family, $plain(), None, 0);
        delete!(@one $family, $sized(bytes: usize), Some(bytes), 0);
        delete!(@one $family, $nothrow(_nothrow: *const c_void), None, 0);
        delete!(@one $family, $aligned(alignment: usize), None, alignment);
        delete!(@one $family, $both(bytes: usize, alignment: usize), Some(bytes), alignment);
        delete!(@one $family, $aligned_nothrow(alignment: usize, _nothrow: *const c_void), None, alignment);
    };
    (@one $family:ident, $name:ident($($more:ident: $type:ty),*), $bytes:expr, $alignment:expr) => {
        /// # Safety
        /// As the C++ operator of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(address: *mut c_void $(, $more: $type)*) {
            release(address.cast(), told(Family::$family, $bytes, $alignment), capture());
        }
    };
}

new!(
    New,
    _Znwm,
    _ZnwmRKSt9nothrow_t,
    _ZnwmSt11align_val_t,
    _ZnwmSt11align_val_tRKSt9nothrow_t
);
new!(
    NewArray,
    _Znam,
    _ZnamRKSt9nothrow_t,
    _ZnamSt11align_val_t,
    _ZnamSt11align_val_tRKSt9nothrow_t
);
delete!(
    New,
    _ZdlPv,
    _ZdlPvm,
    _ZdlPvRKSt9nothrow_t,
    _ZdlPvSt11align_val_t,
    _ZdlPvmSt11align_val_t,
    _ZdlPvSt11align_val_tRKSt9nothrow_t
);
delete!(
    NewArray,
    _ZdaPv,
    _ZdaPvm,
    _ZdaPvRKSt9nothrow_t,
    _ZdaPvSt11align_val_t,
    _ZdaPvmSt11align_val_t,
    _ZdaPvSt11align_val_tRKSt9nothrow_t
);
