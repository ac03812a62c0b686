//! Call paths told again, by any thread, by what lies where on the stack: the return addresses of a path are at fixed distances from its stack
//! pointer as long as they are the same, so that to compare these words is to walk the path, without a look at a rule.
//!
//! Where a frame is found by its frame pointer, as behind an array of variable length, the distance of that pointer counts as well. What a path
//! whose words are all the same was found to be, it is still: nothing is guessed.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use super::Above;
use super::Place;
use super::WORD;
use super::above;
use super::own_stack;
use super::word_of;
use crate::Registers;
use crate::Spin;

/// Callers that are looked at, at most.
pub const MOST_CALLERS: usize = 32;
/// A caller takes two words if it is found by a frame pointer.
const MOST_WORDS: usize = 48;
/// Paths that are known at once, in sets of those that may be in each other's place.
const SETS: usize = 64;
const WAYS: usize = 4;
/// Places for where the callers of functions of ours are.
const BEGINNINGS: usize = 64;
/// No distance from a stack pointer.
const NOWHERE: usize = usize::MAX;

/// A word on the stack, by how far up it is, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    at: usize,
    /// It points into the stack: what counts is how far up.
    is_pointer: bool,
    is: usize,
}

impl Word {
    const NONE: Self = Self {
        at: 0,
        is_pointer: false,
        is: 0,
    };

    /// In two numbers.
    fn packed(self) -> (usize, usize) {
        (self.at << 1 | usize::from(self.is_pointer), self.is)
    }
}

/// What tells a call path from all others.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    /// Where the path begins, in this library.
    instruction: usize,
    /// How far up the frame pointer points, if that matters; else [`NOWHERE`].
    frame: usize,
    words: [Word; MOST_WORDS],
    count: usize,
    /// Return addresses of the callers, innermost first, and how many words tell each with those before.
    callers: [usize; MOST_CALLERS],
    told_by: [usize; MOST_CALLERS],
    depth: usize,
    is_whole: bool,
}

impl Fingerprint {
    /// Of the path that begins here, by so many callers at most. `None`: on a stack that is not the thread's own.
    pub fn of(from: Registers, callers: usize) -> Option<Self> {
        let stack = own_stack(from)?;
        let mut print = Self {
            instruction: from.instruction,
            frame: NOWHERE,
            words: [Word::NONE; MOST_WORDS],
            count: 0,
            callers: [0; MOST_CALLERS],
            told_by: [0; MOST_CALLERS],
            depth: 0,
            is_whole: false,
        };
        print.walk(from, callers.min(MOST_CALLERS), &word_of(from.stack, stack));
        Some(print)
    }

    fn walk(&mut self, from: Registers, callers: usize, word: &impl Fn(usize) -> Option<usize>) {
        let mut place = Place::of(from);
        // Where the frame pointer was saved that counts in this frame; 0: it is in the register.
        let mut saved_at = 0;
        while self.depth < callers {
            let (next, return_slot, frame_slot, by_frame, base_slot) = match above(place, word) {
                Some(Above::Caller {
                    place,
                    return_slot,
                    frame_slot,
                    by_frame,
                    base_slot,
                }) => (place, return_slot, frame_slot, by_frame, base_slot),
                Some(Above::End) => {
                    self.is_whole = true;
                    return;
                }
                None => return,
            };
            // What a signal interrupted is found elsewhere.
            if return_slot == 0 {
                return;
            }
            if by_frame {
                let up = place.frame.wrapping_sub(from.stack);
                let has_room = match saved_at {
                    0 => {
                        self.frame = up;
                        true
                    }
                    slot => self.push(slot - from.stack, true, up),
                };
                if !has_room {
                    return;
                }
            }
            if base_slot != 0 {
                let up = next.pointer.wrapping_sub(from.stack);
                if !self.push(base_slot.wrapping_sub(from.stack), true, up) {
                    return;
                }
            }
            if !self.push(return_slot - from.stack, false, next.instruction) {
                return;
            }
            self.callers[self.depth] = next.instruction;
            self.told_by[self.depth] = self.count;
            self.depth += 1;
            if frame_slot != 0 {
                saved_at = frame_slot;
            }
            place = next;
        }
    }

    /// False: there is no room.
    fn push(&mut self, at: usize, is_pointer: bool, is: usize) -> bool {
        let place = self.words.get_mut(self.count);
        let has_room = place.is_some();
        if let Some(place) = place {
            *place = Word { at, is_pointer, is };
            self.count += 1;
        }
        has_room
    }

    /// Return addresses of the callers, innermost first, as far as they can be told.
    pub fn callers(&self) -> &[usize] {
        &self.callers[..self.depth]
    }

    /// These are all callers; else there may be more.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// So many callers are enough to know the path again.
    pub fn cut(&mut self, callers: usize) {
        if callers < self.depth {
            self.depth = callers;
            self.count = callers.checked_sub(1).map_or(0, |last| self.told_by[last]);
            self.is_whole = false;
        }
    }
}

/// One that is known. The words are written under a lock and read without: the version is odd meanwhile, and another one after.
struct Known {
    version: AtomicU32,
    epoch: AtomicU64,
    value: AtomicU64,
    instruction: AtomicUsize,
    frame: AtomicUsize,
    count: AtomicUsize,
    words: [(AtomicUsize, AtomicUsize); MOST_WORDS],
}

impl Known {
    const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            value: AtomicU64::new(0),
            instruction: AtomicUsize::new(0),
            frame: AtomicUsize::new(NOWHERE),
            count: AtomicUsize::new(0),
            words: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST_WORDS],
        }
    }

    /// Its value, if the path that begins here is this one.
    #[inline(always)]
    fn value_of(&self, from: Registers, stack: &[usize], epoch: u64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        if self.instruction.load(Ordering::Relaxed) != from.instruction
            || self.epoch.load(Ordering::Relaxed) != epoch
        {
            return None;
        }
        let frame = self.frame.load(Ordering::Relaxed);
        if frame != NOWHERE && frame != from.frame.wrapping_sub(from.stack) {
            return None;
        }
        let count = self.count.load(Ordering::Relaxed).min(MOST_WORDS);
        for (at, is) in &self.words[..count] {
            let at = at.load(Ordering::Relaxed);
            let word = *stack.get((at >> 1) / WORD)?;
            let found = match at & 1 {
                0 => word,
                _ => word.wrapping_sub(from.stack),
            };
            if found != is.load(Ordering::Relaxed) {
                return None;
            }
        }
        let value = self.value.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_same = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        (is_same && count > 0).then_some(value)
    }

    /// To be called by one thread at a time.
    fn set(&self, print: &Fingerprint, epoch: u64, value: u64) {
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        self.epoch.store(epoch, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.instruction.store(print.instruction, Ordering::Relaxed);
        self.frame.store(print.frame, Ordering::Relaxed);
        self.count.store(print.count, Ordering::Relaxed);
        for ((at, is), word) in self.words.iter().zip(&print.words[..print.count]) {
            let (packed, expected) = word.packed();
            at.store(packed, Ordering::Relaxed);
            is.store(expected, Ordering::Relaxed);
        }
        self.version
            .store(version.wrapping_add(1), Ordering::Release);
    }
}

/// Where the caller's address is of a function of ours: of one, always as far up. Only a clue: what is found by it is compared.
struct Beginning {
    instruction: AtomicUsize,
    at: AtomicUsize,
}

/// Paths that are known, with a number for each. Of too many, those that came first are forgotten.
pub struct Fingerprints {
    sets: [[Known; WAYS]; SETS],
    beginnings: [Beginning; BEGINNINGS],
    /// Which one of a set is next to be forgotten.
    writing: Spin<u32>,
}

fn mixed(number: usize) -> usize {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Fingerprints {
    /// Of no path.
    pub const fn new() -> Self {
        Self {
            sets: [const { [const { Known::new() }; WAYS] }; SETS],
            beginnings: [const {
                Beginning {
                    instruction: AtomicUsize::new(0),
                    at: AtomicUsize::new(0),
                }
            }; BEGINNINGS],
            writing: Spin::new(0),
        }
    }

    fn beginning(&self, instruction: usize) -> &Beginning {
        &self.beginnings[mixed(instruction) >> (usize::BITS - BEGINNINGS.ilog2())]
    }

    fn set(&self, instruction: usize, caller: usize) -> &[Known; WAYS] {
        let number = instruction ^ caller.rotate_left(20);
        &self.sets[mixed(number) >> (usize::BITS - SETS.ilog2())]
    }

    /// The number of the path that begins here, if it is known since `epoch`.
    #[inline]
    pub fn find(&self, from: Registers, epoch: u64) -> Option<u64> {
        let beginning = self.beginning(from.instruction);
        if beginning.instruction.load(Ordering::Relaxed) != from.instruction {
            return None;
        }
        let stack = own_stack(from)?;
        let caller = *stack.get(beginning.at.load(Ordering::Relaxed) / WORD)?;
        let mut ways = self.set(from.instruction, caller).iter();
        ways.find_map(|known| known.value_of(from, stack, epoch))
    }

    /// A path has this number from now on, until the epoch is another.
    pub fn add(&self, print: &Fingerprint, epoch: u64, value: u64) {
        let Some(&caller) = print.callers().first() else {
            return;
        };
        if let Some(mut next) = self.writing.lock() {
            let beginning = self.beginning(print.instruction);
            beginning
                .at
                .store(print.words[print.told_by[0] - 1].at, Ordering::Relaxed);
            beginning
                .instruction
                .store(print.instruction, Ordering::Relaxed);
            let ways = self.set(print.instruction, caller);
            let is_old = |known: &&Known| known.epoch.load(Ordering::Relaxed) != epoch;
            let place = ways.iter().find(is_old);
            place
                .unwrap_or(&ways[*next as usize % WAYS])
                .set(print, epoch, value);
            *next = next.wrapping_add(1);
        }
    }

    /// In a forked child: another thread of the parent's may have been writing.
    pub fn break_open(&self) {
        self.writing.break_open();
    }
}

impl Default for Fingerprints {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture;
    use crate::unwind::test_calls::deeper;
    use crate::unwind::test_calls::other;
    use crate::unwind::walk;
    use std::hint::black_box;

    static ALL: Fingerprints = Fingerprints::new();

    fn number(path: &[usize]) -> u64 {
        let mix = |hash: u64, address: &usize| {
            (hash ^ *address as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(7)
        };
        path.iter().fold(1, mix)
    }

    /// What a full walk finds, and what is known of it; which is made known then.
    #[inline(never)]
    fn compare(known: &Fingerprints, epoch: u64) -> Option<bool> {
        let registers = capture();
        let mut path = [0; MOST_CALLERS + 1];
        let frames = walk(registers, &mut path).frames;
        let expected = number(&path[1..frames]);
        let found = known.find(registers, epoch);
        if found.is_none() {
            let print = Fingerprint::of(registers, MOST_CALLERS).expect("the thread's own stack");
            assert_eq!(print.callers(), &path[1..frames]);
            known.add(&print, epoch, expected);
        }
        found.map(|found| found == expected)
    }

    #[test]
    fn paths_are_known_again_by_all_threads_wherever_their_stacks_are() {
        let goes_through = || {
            let (mut known, mut unknown) = (0, 0);
            let mut state = 1u32;
            for _ in 0..4000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let mut inner = || match compare(&ALL, 7) {
                    Some(is_right) => {
                        assert!(is_right);
                        known += 1;
                    }
                    None => unknown += 1,
                };
                let calls = (state >> 8) as usize % 20;
                match state >> 31 {
                    0 => deeper(calls, &mut inner),
                    _ => other(calls, &mut inner),
                };
            }
            (known, unknown)
        };
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(goes_through)).collect();
            all.extend(
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("joined")),
            );
        });
        // 40 paths of one caller share the four places of a set.
        assert!(
            all.iter()
                .all(|&(known, unknown)| known > 100 && unknown > 0),
            "{all:?}"
        );
    }

    #[test]
    fn a_new_epoch_forgets_and_few_paths_stay_known() {
        static KNOWN: Fingerprints = Fingerprints::new();
        let at_depth = |epoch, calls| {
            let mut found = None;
            deeper(calls, &mut || found = compare(&KNOWN, epoch));
            found
        };
        // All from the same place.
        for (epoch, calls, expected) in black_box([
            (1, 2, None),
            (1, 2, Some(true)),
            (1, 5, None),
            (1, 2, Some(true)),
            (1, 5, Some(true)),
            (2, 2, None),
            (2, 2, Some(true)),
        ]) {
            assert_eq!(at_depth(epoch, calls), expected, "{epoch} {calls}");
        }
    }

    #[test]
    fn a_path_is_cut_where_enough_is_known() {
        let mut print = Fingerprint::of(capture(), MOST_CALLERS).expect("the thread's own stack");
        let callers = print.callers().to_vec();
        assert!(callers.len() > 3);
        print.cut(2);
        assert_eq!(print.callers(), &callers[..2]);
        assert!(print.count >= 2 && print.count <= 4 && !print.is_whole());
        print.cut(9);
        assert_eq!(print.callers().len(), 2);
        let short = Fingerprint::of(capture(), 1).expect("the thread's own stack");
        assert!(short.callers().len() == 1 && !short.is_whole());
    }

    #[test]
    fn words_that_point_into_the_stack_count_by_how_far_up_they_point() {
        let known = Known::new();
        let mut print = Fingerprint::of(capture(), MOST_CALLERS).expect("the thread's own stack");
        print.count = 0;
        print.frame = 16;
        assert!(print.push(8, true, 24) && print.push(16, false, 99));
        known.set(&print, 1, 42);
        let value = |stack: &[usize], at: usize, frame: usize| {
            let from = Registers {
                instruction: print.instruction,
                stack: at,
                frame,
            };
            known.value_of(from, stack, 1)
        };
        assert_eq!(value(&[0, 1024, 99], 1000, 1016), Some(42));
        assert_eq!(value(&[5, 2024, 99], 2000, 2016), Some(42));
        assert_eq!(value(&[0, 1024, 99], 1000, 1024), None);
        assert_eq!(value(&[0, 1032, 99], 1000, 1016), None);
        assert_eq!(value(&[0, 1024, 98], 1000, 1016), None);
        assert_eq!(value(&[0, 1024], 1000, 1016), None, "the stack ends there");
    }
}
