//! What a walk's result depends on: the words of the stack that decided where it went.
//!
//! Where a walk reads next is given by the code at an address (its unwind rule) and by the words read before. So a
//! stack with the same instruction pointer and the same deciding words has the same call path, without another
//! walk. Not all words that are read decide: a rule restores the frame pointer for the caller's sake, and a caller
//! whose own rule goes by the stack pointer may keep anything in it.

use super::arch;
use framehop::UnwindRegsNative;

/// A word of the stack that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// Its address.
    pub address: u64,
    /// What it held.
    pub value: u64,
    /// It is a saved frame pointer, by which a later frame was found: an address in this stack. Else a return address.
    pub is_frame_pointer: bool,
}

/// All that decided one walk beside its first instruction pointer (and link register, where there is one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// In the order in which they were read.
    pub words: Vec<Word>,
    /// The frame pointer's value at the start decided too.
    pub uses_frame_pointer: bool,
    /// The walk ended because the copy lacks this address.
    pub beyond_copy: Option<u64>,
}

/// What one step of a walk did.
pub(super) struct Step<'a> {
    pub(super) before: &'a UnwindRegsNative,
    pub(super) after: &'a UnwindRegsNative,
    /// Addresses and values.
    pub(super) reads: &'a [(u64, u64)],
    /// The rule goes by the frame pointer.
    pub(super) uses_frame_pointer: bool,
    /// The return address found; `None`: the walk ended here.
    pub(super) caller: Option<u64>,
    /// What it wanted to read and the copy does not hold.
    pub(super) beyond_copy: Option<u64>,
}

/// Collects evidence along a walk.
#[derive(Default)]
pub(super) struct Collector {
    evidence: Evidence,
    /// Where the frame pointer's value came from; `None`: it is that of the start.
    frame_pointer_at: Option<(u64, u64)>,
    /// Something decided that is no word of the stack.
    is_incomplete: bool,
}

impl Collector {
    pub(super) fn step(&mut self, step: &Step<'_>) {
        if step.uses_frame_pointer {
            match self.frame_pointer_at {
                Some(read) => self.add(read, true),
                None => self.evidence.uses_frame_pointer = true,
            }
        }
        let Some(caller) = step.caller else {
            // Whatever was read made it end.
            step.reads.iter().for_each(|&read| self.add(read, false));
            self.evidence.beyond_copy = step.beyond_copy;
            return;
        };
        let holds_caller = |&&(_, value): &&(u64, u64)| arch::is_return_address(value, caller);
        let found = step.reads.iter().rev().find(holds_caller).copied();
        match found {
            Some(read) => self.add(read, false),
            None if arch::link_register(step.before) == Some(caller) => {}
            None => self.is_incomplete = true,
        }
        let frame_pointer = arch::frame_pointer(step.after);
        let restored = |read: &&(u64, u64)| read.1 == frame_pointer && Some(**read) != found;
        if let Some(&read) = step.reads.iter().find(restored) {
            self.frame_pointer_at = Some(read);
        }
    }

    /// The walk goes on by other means than rules and words.
    pub(super) fn give_up(&mut self) {
        self.is_incomplete = true;
    }

    pub(super) fn finish(self) -> Option<Evidence> {
        (!self.is_incomplete).then_some(self.evidence)
    }

    fn add(&mut self, (address, value): (u64, u64), is_frame_pointer: bool) {
        let word = Word {
            address,
            value,
            is_frame_pointer,
        };
        if !self.evidence.words.contains(&word) {
            self.evidence.words.push(word);
        }
    }
}
