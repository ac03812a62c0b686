//! Where the running thread's stack is, and a copy of its top for unwinding outside.

use std::cell::Cell;

use crate::silence::reader;

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

/// What the running thread's own variables lie at fixed distances from.
#[cfg(target_arch = "x86_64")]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the thread's control block begins with its own address (psABI, "Thread-Local Storage").
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// What the running thread's own variables lie at fixed distances from.
#[cfg(target_arch = "aarch64")]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// No main stack is longer: below it, the kernel leaves at least 128 MiB free (mmap_base(), arch/x86/mm/mmap.c).
const LONGEST_MAIN: usize = 64 << 20;
/// Pages of a thread's stack that are looked at before it is read.
const MOST_PAGES: usize = 64;
const PAGE: usize = 4096;
/// As many bytes as a coroutine's stack usually has at most.
const FOREIGN: usize = 16 << 10;

/// Where a stack is readable.
#[derive(Clone, Copy)]
struct Bounds {
    low: usize,
    high: usize,
}

impl Bounds {
    const NONE: Self = Self { low: 0, high: 0 };

    fn hold(self, address: usize) -> bool {
        (self.low..self.high).contains(&address)
    }
}

thread_local!(static STACK: Cell<Bounds> = const { Cell::new(Bounds::NONE) });

/// How many bytes of stack there may be from this address upwards; on a stack that is not the thread's own, as many
/// as a coroutine's usually has at most.
pub fn stack_bytes_above(from: usize) -> usize {
    stack_of(from).map_or(FOREIGN, |stack| stack.high - from)
}

/// Copies the stack from `from` upwards and returns how many bytes there were. Reads no byte outside the thread's
/// stack; on a stack that is not the thread's own (a coroutine's, a signal's) the kernel does the reading, and stops
/// where the memory ends.
pub fn copy_stack(from: usize, place: &mut [u8]) -> usize {
    let Some(stack) = stack_of(from) else {
        return copy_by_kernel(from, place);
    };
    let bytes = place.len().min(stack.high - from);
    // SAFETY: [from, from + bytes) lies within this thread's stack, which is readable; the copy may see words that
    // change meanwhile (none above the stack pointer do while this thread is here).
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, place.as_mut_ptr(), bytes) };
    bytes
}

/// The thread's stack, if this address is on it. `pthread_getattr_np` would tell, but allocates.
fn stack_of(address: usize) -> Option<Bounds> {
    let main = main_stack();
    if main.hold(address) {
        return Some(main);
    }
    STACK
        .try_with(|known| {
            if !known.get().hold(address) {
                known.set(look_at_thread_stack(address));
            }
            Some(known.get()).filter(|stack| stack.hold(address))
        })
        .ok()
        .flatten()
}

fn main_stack() -> Bounds {
    unsafe extern "C" {
        /// Set by the loader (elf/rtld.c): the stack pointer as the process began.
        static __libc_stack_end: *const libc::c_void;
    }
    // SAFETY: written once, before any other code ran.
    let high = unsafe { __libc_stack_end } as usize;
    Bounds {
        low: high.saturating_sub(LONGEST_MAIN),
        high,
    }
}

/// A thread's control block lies at the upper end of its stack (nptl/allocatestack.c). What lies in between belongs to
/// the stack if all of it can be read: stacks have a page below that cannot.
fn look_at_thread_stack(address: usize) -> Bounds {
    // SAFETY: no preconditions.
    let high = unsafe { libc::pthread_self() } as usize;
    let low = address / PAGE * PAGE;
    let pages = high.saturating_sub(low).div_ceil(PAGE);
    if pages == 0 || pages > MOST_PAGES || !are_readable(low, pages) {
        return Bounds::NONE;
    }
    Bounds { low, high }
}

/// Asks the kernel, if it may be, a byte of each page.
fn are_readable(start: usize, pages: usize) -> bool {
    if let Some(read) = reader() {
        return (0..pages).all(|page| read(&mut [0], start + page * PAGE) == 1);
    }
    let mut bytes = [0u8; MOST_PAGES];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: pages,
    };
    let remote: [libc::iovec; MOST_PAGES] = std::array::from_fn(|page| libc::iovec {
        iov_base: (start + page * PAGE) as *mut libc::c_void,
        iov_len: 1,
    });
    // SAFETY: the local buffer has room for a byte of each page; the kernel checks the others.
    let read = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const local,
            1,
            remote.as_ptr(),
            pages as libc::c_ulong,
            0,
        )
    };
    read == pages as isize
}

fn copy_by_kernel(from: usize, place: &mut [u8]) -> usize {
    if let Some(read) = reader() {
        return read(place, from);
    }
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
    fn deep_frames_of_a_thread_are_copied_up_to_its_end() {
        fn deeper(calls: usize) -> usize {
            let room = std::hint::black_box([calls as u8; 4000]);
            if calls > 0 {
                return deeper(calls - 1) + usize::from(room[0] == 255);
            }
            let mut copy = vec![0u8; 1 << 20];
            let registers = capture();
            assert_eq!(
                copy_stack(registers.stack, &mut copy),
                stack_bytes_above(registers.stack)
            );
            stack_bytes_above(registers.stack)
        }
        let thread = std::thread::spawn(|| (deeper(0), deeper(20), deeper(2)));
        let (shallow, deep, again) = thread.join().expect("joined");
        assert!(deep > shallow + 20 * 4000 && again < deep && again > shallow);
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
