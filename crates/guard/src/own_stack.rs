//! A stack of our own for reports: the thread's may be all but used up, as a thread may have 16 KiB in all.

use std::cell::UnsafeCell;
use std::ffi::c_void;

/// Naming nothing and reading what lies where takes 16 KiB at most; what is not touched takes no memory.
const BYTES: usize = 128 << 10;

#[repr(C, align(64))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: used as a stack by one thread at a time, as `run` demands.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));

/// Runs a function on it and returns what it returns. The function must not unwind.
///
/// # Safety
/// One thread at a time, and not from within itself.
pub(crate) unsafe fn run<T>(function: impl FnOnce() -> T) -> T {
    let (mut function, mut returned) = (Some(function), None);
    let mut call: &mut dyn FnMut() = &mut || returned = function.take().map(|function| function());
    let top = MEMORY.0.get().cast::<u8>().wrapping_add(BYTES);
    // SAFETY: the stack is ours alone by the caller's promise, and `enter` gets what it expects.
    unsafe { call_on(top, enter, (&raw mut call).cast()) };
    match returned {
        Some(returned) => returned,
        None => unreachable!("the function has run"),
    }
}

unsafe extern "C" fn enter(call: *mut c_void) {
    // SAFETY: `run` passes its own, which outlives this.
    let call = unsafe { &mut *call.cast::<&mut dyn FnMut()>() };
    call();
}

/// # Safety
/// `top` must be the end of memory that nothing else uses, aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: *mut u8, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: r12 keeps the stack pointer, as the called function preserves it; it finds a stack aligned as calls want it.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") data,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

/// # Safety
/// `top` must be the end of memory that nothing else uses, aligned to 16 bytes.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: *mut u8, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: x20 keeps the stack pointer, as the called function preserves it.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {function}",
            "mov sp, x20",
            top = in(reg) top,
            function = in(reg) function,
            in("x0") data,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

/// Whether this thread is on its signals' stack. A signal that came while we are elsewhere would begin that one anew, over what is there.
pub(crate) fn is_on_that_of_signals() -> bool {
    let mut own = std::mem::MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: a valid place for the answer; nothing is changed.
    let told = unsafe { libc::sigaltstack(std::ptr::null(), own.as_mut_ptr()) };
    // SAFETY: zeroed, which is a valid value, or filled in.
    let flags = unsafe { own.assume_init() }.ss_flags;
    told != 0 || flags & libc::SS_ONSTACK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_there_has_its_locals_there_and_returns_here() {
        let here = 0u8;
        let mut seen = 0;
        // SAFETY: only this test runs anything there.
        let sum = unsafe {
            run(|| {
                let numbers: [u64; 512] =
                    std::array::from_fn(|index| std::hint::black_box(index as u64));
                seen = numbers.as_ptr() as usize;
                numbers.iter().sum::<u64>()
            })
        };
        assert_eq!(sum, 511 * 512 / 2);
        let memory = MEMORY.0.get() as usize;
        assert!((memory..memory + BYTES).contains(&seen));
        assert!(!(memory..memory + BYTES).contains(&(&raw const here as usize)));
    }
}
