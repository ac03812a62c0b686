//! Call paths walked inside the process by its unwind tables, fast enough for every allocation: what to do at an address
//! of code is found once (`cfi`) and remembered, so that a frame costs a look at a table and two at the stack.
//!
//! No allocation; the loader's lock is taken only when code of an unknown module is met. Exact: a rule that is not
//! understood ends the path, and is said to.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use crate::Registers;
use crate::cfi::Base;
use crate::cfi::Rule;
use crate::stack_bytes_above;

mod fingerprint;
mod memo;
mod rules;
#[cfg(test)]
mod test_calls;

pub use fingerprint::Fingerprint;
pub use fingerprint::Fingerprints;
pub use fingerprint::MOST_CALLERS;
pub use memo::MOST as MOST_REMEMBERED;
pub use memo::Memo;
pub use memo::walk_again;

/// Bytes of a stack that is not the thread's own that are looked at.
const FOREIGN: usize = 16 << 10;
/// Words of it that are read at once.
const PIECE: usize = 32;

/// How often modules have gone.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Modules have gone: what was remembered of them is forgotten, with the rest.
pub fn forget() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    rules::forget();
}

/// To be called in a forked child, whose only thread is not walking.
pub fn after_fork() {
    rules::after_fork();
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Addresses found.
    pub frames: usize,
    /// The path ends there, or the place for it was full; else something was not understood.
    pub is_whole: bool,
}

/// Fills `path` with the instruction itself and the return addresses of its callers.
pub fn walk(from: Registers, path: &mut [usize]) -> Walked {
    match own_stack(from) {
        Some(stack) => walk_on(from, &word_of(from.stack, stack), path),
        None => walk_foreign(from, path),
    }
}

/// Walks a coroutine's or a signal's stack: nobody knows where it ends, but the kernel. Such stacks are small: it is read in
/// pieces.
#[cold]
#[inline(never)]
fn walk_foreign(from: Registers, path: &mut [usize]) -> Walked {
    let held = Cell::new((0, 0));
    let piece = [const { Cell::new(0usize) }; PIECE];
    let word = |address: usize| {
        let is_within = address.wrapping_sub(from.stack) < FOREIGN && address.is_multiple_of(WORD);
        if !is_within {
            return None;
        }
        let (begin, words) = held.get();
        if address.wrapping_sub(begin) / WORD >= words {
            let mut fresh = [0u8; PIECE * WORD];
            let there = crate::copy_stack(address, &mut fresh) / WORD;
            for (place, bytes) in piece.iter().zip(fresh.chunks_exact(WORD)) {
                place.set(usize::from_ne_bytes(bytes.try_into().unwrap_or_default()));
            }
            held.set((address, there));
        }
        let (begin, words) = held.get();
        let at = address.wrapping_sub(begin) / WORD;
        (at < words).then(|| piece[at].get())
    };
    walk_on(from, &word, path)
}

/// The running thread's own stack, from its stack pointer to its end.
fn own_stack<'stack>(from: Registers) -> Option<&'stack [usize]> {
    let above = stack_bytes_above(from.stack);
    // SAFETY: the callers' frames, which stay while the walk goes on; it may read what they change, as words.
    (above != FOREIGN)
        .then(|| unsafe { std::slice::from_raw_parts(from.stack as *const usize, above / WORD) })
}

const WORD: usize = size_of::<usize>();

/// Reads words of a stack by address.
fn word_of(begin: usize, stack: &[usize]) -> impl Fn(usize) -> Option<usize> {
    move |address| {
        let at = address.wrapping_sub(begin);
        (at.is_multiple_of(WORD)).then(|| stack.get(at / WORD).copied())?
    }
}

/// A frame: where its code is, and its two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    instruction: usize,
    pointer: usize,
    frame: usize,
    /// 1: the instruction is the one to return to, which may belong to the next function: what counts is the call before it.
    /// 0: it is the one that ran.
    before: usize,
}

impl Place {
    fn of(registers: Registers) -> Self {
        Self {
            instruction: registers.instruction,
            pointer: registers.stack,
            frame: registers.frame,
            before: 0,
        }
    }

    /// Whether it is the same but for the frame pointer.
    fn meets(&self, other: &Self) -> bool {
        (self.pointer, self.instruction, self.before)
            == (other.pointer, other.instruction, other.before)
    }
}

/// What a frame was called from.
enum Above {
    End,
    Caller {
        place: Place,
        /// Where its instruction and its frame pointer were found; 0: elsewhere, and not at all.
        return_slot: usize,
        frame_slot: usize,
        /// The frame pointer was needed to find these.
        by_frame: bool,
        /// Where the word is that says where the caller's frame begins; 0: it is reckoned.
        base_slot: usize,
    },
}

/// `None`: something is not understood.
#[inline(always)]
fn above(place: Place, word: &impl Fn(usize) -> Option<usize>) -> Option<Above> {
    let Place {
        instruction,
        pointer,
        frame,
        before,
    } = place;
    let (place, return_slot, frame_slot, (by_frame, base_slot)) =
        match rules::at(instruction - before)? {
            Rule::End => return Some(Above::End),
            Rule::Signal => {
                let (instruction, pointer, frame) = interrupted(pointer, word)?;
                let place = Place {
                    instruction,
                    pointer,
                    frame,
                    before: 0,
                };
                (place, 0, 0, (false, 0))
            }
            Rule::Frame {
                base,
                offset,
                return_address,
                frame_pointer,
            } => {
                let at = |from: usize, offset: i32| from.wrapping_add_signed(offset as isize);
                let (address, base_slot) = match base {
                    Base::Stack => (at(pointer, offset), 0),
                    Base::Frame => (at(frame, offset), 0),
                    Base::AtFrame => (word(at(frame, offset))?, at(frame, offset)),
                };
                // Callers are further up; else this would go on for ever.
                if address <= pointer {
                    return None;
                }
                let return_slot = at(address, return_address?);
                let frame_slot = frame_pointer.map_or(0, |offset| at(address, offset));
                let place = Place {
                    instruction: word(return_slot)?,
                    pointer: address,
                    frame: match frame_slot {
                        0 => frame,
                        slot => word(slot)?,
                    },
                    before: 1,
                };
                let by_frame = base != Base::Stack;
                (place, return_slot, frame_slot, (by_frame, base_slot))
            }
        };
    if place.instruction == 0 {
        return Some(Above::End);
    }
    Some(Above::Caller {
        place,
        return_slot,
        frame_slot,
        by_frame,
        base_slot,
    })
}

fn walk_on(from: Registers, word: &impl Fn(usize) -> Option<usize>, path: &mut [usize]) -> Walked {
    let mut place = Place::of(from);
    for frames in 1..=path.len() {
        path[frames - 1] = place.instruction;
        if frames == path.len() {
            break;
        }
        match above(place, word) {
            Some(Above::Caller { place: next, .. }) => place = next,
            end => {
                let is_whole = end.is_some();
                return Walked { frames, is_whole };
            }
        }
    }
    Walked {
        frames: path.len(),
        is_whole: true,
    }
}

/// Instruction, stack and frame pointer that a signal interrupted, from the kernel's record (`struct rt_sigframe`,
/// `arch/x86/include/asm/sigframe.h`, less the return address, which is popped).
#[cfg(target_arch = "x86_64")]
fn interrupted(
    pointer: usize,
    word: &impl Fn(usize) -> Option<usize>,
) -> Option<(usize, usize, usize)> {
    const REGISTERS: usize = std::mem::offset_of!(libc::ucontext_t, uc_mcontext);
    let register = |number: i32| word(pointer + REGISTERS + number as usize * WORD);
    let pointer = register(libc::REG_RSP)?;
    Some((register(libc::REG_RIP)?, pointer, register(libc::REG_RBP)?))
}

/// On this processor the frame holds more in front; paths end at signals.
#[cfg(target_arch = "aarch64")]
fn interrupted(
    _pointer: usize,
    _word: &impl Fn(usize) -> Option<usize>,
) -> Option<(usize, usize, usize)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtrace;
    use crate::capture;
    use std::sync::atomic::AtomicUsize;

    /// Return addresses as the compiler's own unwinder finds them, and ours, from the same place.
    #[inline(never)]
    fn compare(deeper: usize) -> usize {
        let room = std::hint::black_box([deeper; 30]);
        if deeper > 0 {
            return std::hint::black_box(compare(deeper - 1)) + usize::from(room[0] > 1000);
        }
        let mut path = [0; 200];
        let walked = walk(capture(), &mut path);
        assert!(walked.is_whole);
        let mut theirs = Vec::new();
        backtrace(&mut |address| {
            theirs.push(address);
            true
        });
        // Both begin inside; callers are the same.
        let ours = &path[1..walked.frames];
        let at = theirs.iter().position(|address| *address == ours[0]);
        let theirs = &theirs[at.expect("our caller is theirs")..];
        assert_eq!(ours, &theirs[..ours.len()]);
        assert!(theirs.len() - ours.len() <= 1, "but for the very last");
        walked.frames
    }

    #[test]
    fn the_path_is_the_one_that_the_compilers_unwinder_finds() {
        let shallow = compare(0);
        assert_eq!(compare(7), shallow + 7);
        let other = std::thread::spawn(|| compare(3));
        assert!(other.join().expect("joined") > 3);
    }

    #[test]
    fn a_call_back_from_the_c_library_is_walked_through() {
        unsafe extern "C" fn order(_: *const libc::c_void, _: *const libc::c_void) -> libc::c_int {
            compare(1);
            0
        }
        let mut numbers = [3u32, 1];
        // SAFETY: an array of two, and an order of its elements.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 2, 4, Some(order)) };
    }

    #[test]
    fn a_short_place_is_filled_and_whole() {
        let mut path = [0; 2];
        let walked = walk(capture(), &mut path);
        assert_eq!((walked.frames, walked.is_whole), (2, true));
        assert!(path[1] != 0);
    }

    #[test]
    fn a_handler_sees_who_was_interrupted() {
        static FRAMES: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handler(_: libc::c_int) {
            FRAMES.store(compare(0), Ordering::Relaxed);
        }
        // SAFETY: a signal of this test's own, raised in this thread.
        unsafe {
            libc::signal(libc::SIGUSR2, handler as *const () as usize);
            libc::raise(libc::SIGUSR2);
        }
        assert!(FRAMES.load(Ordering::Relaxed) > 4);
    }
}
