//! Copies of memory that others may take away meanwhile, or that may never have been there: what faults ends the copy and not
//! the program. No system call is needed, so that it works in every sandbox.

use libc::siginfo_t;
use libc::ucontext_t;

use crate::context::instruction;

// Two instructions of it are known by name: the only one that may fault, and the one where it goes on then.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.pagewise_guard_copy, \"ax\", @progbits",
    ".hidden pagewise_guard_copy",
    ".hidden pagewise_guard_copy_touch",
    ".hidden pagewise_guard_copy_end",
    ".globl pagewise_guard_copy",
    ".globl pagewise_guard_copy_touch",
    ".globl pagewise_guard_copy_end",
    "pagewise_guard_copy:",
    "mov rcx, rdx",
    "pagewise_guard_copy_touch:",
    "rep movsb",
    "pagewise_guard_copy_end:",
    "mov rax, rcx",
    "ret",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.pagewise_guard_copy, \"ax\", @progbits",
    ".hidden pagewise_guard_copy",
    ".hidden pagewise_guard_copy_touch",
    ".hidden pagewise_guard_copy_end",
    ".globl pagewise_guard_copy",
    ".globl pagewise_guard_copy_touch",
    ".globl pagewise_guard_copy_end",
    "pagewise_guard_copy:",
    "cbz x2, pagewise_guard_copy_end",
    "pagewise_guard_copy_touch:",
    "ldrb w3, [x1], #1",
    "strb w3, [x0], #1",
    "sub x2, x2, #1",
    "cbnz x2, pagewise_guard_copy_touch",
    "pagewise_guard_copy_end:",
    "mov x0, x2",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    /// Returns how many bytes are left.
    fn pagewise_guard_copy(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    static pagewise_guard_copy_touch: u8;
    static pagewise_guard_copy_end: u8;
}

/// Copies as many bytes from an address on as can be read, and returns how many.
pub(crate) fn read(to: &mut [u8], from: usize) -> usize {
    // SAFETY: the place is that long; a fault of the other is cured by `leave`.
    to.len() - unsafe { pagewise_guard_copy(to.as_mut_ptr(), from as *const u8, to.len()) }
}

/// The value of plain data at an address, if it can be read.
///
/// # Safety
/// Any bytes must be a value of the type.
pub(crate) unsafe fn value<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the place is that long; a fault of the other is cured by `leave`.
    let left =
        unsafe { pagewise_guard_copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    // SAFETY: filled, with a value by our caller.
    (left == 0).then(|| unsafe { value.assume_init() })
}

/// Writes a byte where it may be forbidden. False: it is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn write(to: usize, byte: u8) -> bool {
    // SAFETY: callers know what is there; a fault is cured by `leave`.
    unsafe { pagewise_guard_copy(to as *mut u8, &raw const byte, 1) == 0 }
}

/// Of a fault of such a copy: the copy ends. False: it is another's.
///
/// # Safety
/// The arguments must be those of a handler.
pub(crate) unsafe fn leave(info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    // SAFETY: by our caller; names of instructions, of which only the addresses are taken.
    unsafe {
        let place = instruction(&mut *context);
        let is_ours = (*info).si_code > 0 && *place == (&raw const pagewise_guard_copy_touch) as _;
        if is_ours {
            *place = (&raw const pagewise_guard_copy_end) as _;
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn handle(_: libc::c_int, info: *mut siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's arguments.
        if !unsafe { leave(info, context.cast()) } {
            std::process::abort();
        }
    }

    #[test]
    fn what_can_be_read_is_and_the_rest_is_left() {
        // SAFETY: a valid action, for faults of this test's; reserved addresses.
        let page = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
            crate::system::reserve(2 * crate::page::bytes()).expect("addresses")
        };
        assert!(crate::system::set_usable(page, crate::page::bytes(), true));
        let end = page + crate::page::bytes();
        // SAFETY: the last bytes of a page that is writable.
        unsafe { ((end - 4) as *mut [u8; 4]).write([1, 2, 3, 4]) };
        let mut bytes = [9; 6];
        assert_eq!(read(&mut bytes, end - 4), 4);
        assert_eq!(bytes[..4], [1, 2, 3, 4]);
        assert_eq!(read(&mut bytes[..3], end - 4), 3);
        assert_eq!(read(&mut bytes, 8), 0);
        assert_eq!(read(&mut [], 8), 0);
        // SAFETY: any bytes are a number.
        unsafe {
            assert_eq!(value((end - 4) as *const [u8; 2]), Some([1, 2]));
            assert_eq!(value((end - 2) as *const u32), None);
            assert_eq!(value(std::ptr::null::<u32>()), None);
        }
        #[cfg(target_arch = "x86_64")]
        assert!(write(end - 1, 7) && !write(end, 7));
    }
}
