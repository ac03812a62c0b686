//! Where the running thread's stack is, and a copy of its top for unwinding outside.

use std::cell::Cell;

/// Instruction, stack and frame pointer: what unwinding starts from.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// An address inside the function that captured them.
    pub instruction: usize,
    /// Stack pointer.
    pub stack: usize,
    /// Frame pointer, or whatever the register of that role holds.
    pub frame: usize,
}

/// This function's caller's registers, as they are now.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn capture() -> Registers {
    let (instruction, stack, frame): (usize, usize, usize);
    // SAFETY: reads three registers, writes only the outputs.
    unsafe {
        std::arch::asm!(
            "lea {}, [rip]",
            "mov {}, rsp",
            "mov {}, rbp",
            out(reg) instruction,
            out(reg) stack,
            out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    Registers {
        instruction,
        stack,
        frame,
    }
}

/// This function's caller's registers, as they are now.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub fn capture() -> Registers {
    let (instruction, stack, frame): (usize, usize, usize);
    // SAFETY: reads three registers, writes only the outputs.
    unsafe {
        std::arch::asm!(
            "adr {}, .",
            "mov {}, sp",
            "mov {}, x29",
            out(reg) instruction,
            out(reg) stack,
            out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    Registers {
        instruction,
        stack,
        frame,
    }
}

thread_local!(static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) });

/// How many bytes of stack there may be from this address upwards; on a stack that is not the thread's own, as many
/// as a coroutine's usually has at most.
pub fn stack_bytes_above(from: usize) -> usize {
    const FOREIGN: usize = 16 << 10;
    let (low, high) = thread_stack();
    if from < low || from >= high {
        FOREIGN
    } else {
        high - from
    }
}

/// Copies the stack from `from` upwards and returns how many bytes there were. Reads no byte outside the thread's
/// stack; on a stack that is not the thread's own (a coroutine's, a signal's) the kernel does the reading, and stops
/// where the memory ends.
pub fn copy_stack(from: usize, place: &mut [u8]) -> usize {
    let (low, high) = thread_stack();
    if from < low || from >= high {
        return copy_by_kernel(from, place);
    }
    let bytes = place.len().min(high - from);
    // SAFETY: [from, from + bytes) lies within this thread's stack, which is readable; the copy may see words that
    // change meanwhile (none above the stack pointer do while this thread is here).
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, place.as_mut_ptr(), bytes) };
    bytes
}

/// Bounds of this thread's stack; (0, 0) if the C library does not know.
fn thread_stack() -> (usize, usize) {
    STACK
        .try_with(|cached| {
            if cached.get().1 == 0 {
                cached.set(ask_bounds().unwrap_or((1, 1)));
            }
            cached.get()
        })
        .unwrap_or((1, 1))
}

fn ask_bounds() -> Option<(usize, usize)> {
    // SAFETY: all zeros is a valid pthread_attr_t to be filled in.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: pthread_self is this thread; attributes is a valid place.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return None;
    }
    let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: attributes was filled in above; the outputs are valid places.
    let known =
        unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut bytes) };
    // SAFETY: filled in above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    (known == 0).then_some((low as usize, low as usize + bytes))
}

fn copy_by_kernel(from: usize, place: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: place.as_mut_ptr().cast(),
        iov_len: place.len(),
    };
    let remote = libc::iovec {
        iov_base: from as *mut libc::c_void,
        iov_len: place.len(),
    };
    // SAFETY: the local buffer is valid for its length; the kernel checks the other.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_holds_what_is_on_the_stack() {
        let marker = std::hint::black_box([0x5eed_u64; 4]);
        let registers = capture();
        let mut copy = vec![0u8; 64 << 10];
        let bytes = copy_stack(registers.stack, &mut copy);
        let offset = &raw const marker as usize - registers.stack;
        assert!(offset + 32 <= bytes, "the marker lies within the copy");
        assert_eq!(&copy[offset..offset + 8], &0x5eed_u64.to_ne_bytes());
        assert!(registers.instruction != 0 && registers.frame != 1);
    }

    #[test]
    fn a_foreign_stack_is_read_as_far_as_it_goes() {
        let page = 4096;
        // SAFETY: a fresh mapping of two pages, the second made inaccessible.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(page), page, libc::PROT_NONE), 0);
            start as usize
        };
        let mut copy = vec![1u8; 2 * page];
        assert_eq!(copy_stack(start + page - 100, &mut copy), 100);
        assert_eq!(copy_stack(start + page, &mut copy), 0);
    }
}
