//! Out-of-process stack unwinding from a copy of the stack's top.
//!
//! A sensor hands over the instruction pointer, the stack pointer, the frame pointer and the bytes
//! of the stack from the stack pointer upwards. [`ProcessUnwinder`] walks them by the call frame
//! information of the modules on the path (`.eh_frame`), by frame pointers where there is none.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
pub mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
pub mod arch;
mod evidence;
mod sections;

use crate::modules::ModuleTable;
use arch::Registers;
use evidence::{Collector, Step};
pub use evidence::{Evidence, Word};
use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};
pub use sections::UnwindCache;
use sections::{SectionBytes, UnwindSections, code_begins_with};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Deeper stacks than this are cut: recursion without end would otherwise fill the trace.
pub const MAX_FRAMES: usize = 4096;

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalkEnd {
    /// At the outermost frame: the path is complete.
    Outermost,
    /// The next frame lies beyond the copied part of the stack.
    CopyTooShort,
    /// In code without unwind information (generated at run time, an unreadable module) or in
    /// frames that contradict it.
    UnknownCode,
    /// After [`MAX_FRAMES`].
    TooDeep,
}

/// A call path as addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallPath {
    /// Return addresses in the process, innermost caller first; the instruction pointer the walk
    /// began with is not among them. Symbolize each by [`crate::lookup_address`]. Code that a
    /// signal interrupted stands here with the address of its next instruction plus one, so that
    /// the same rule leads to it.
    pub return_addresses: Vec<u64>,
    /// Why the path ends where it does.
    pub end: WalkEnd,
}

impl CallPath {
    /// Whether frames are missing at the outer end.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.end != WalkEnd::Outermost
    }
}

/// Unwinds the stacks of one process with one set of modules. Make a new one when it maps or
/// unmaps code; the files read so far stay in the [`UnwindCache`].
pub struct ProcessUnwinder {
    modules: Arc<ModuleTable>,
    unwinder: UnwinderNative<SectionBytes, MayAllocateDuringUnwind>,
    /// Unwind rules already computed, by address. One for each process: rules are told apart by a
    /// generation number of 16 bits, which sharing would exhaust.
    rules: CacheNative<MayAllocateDuringUnwind>,
    /// Modules handed to the unwinder so far, by index in `modules`, and whether they had any
    /// unwind information. Only those on some stack are ever read.
    loaded: HashMap<usize, bool>,
    /// Whether the rule at an address goes by the frame pointer, for those asked so far; return addresses apart.
    frame_pointer_rules: HashMap<(u64, bool), bool>,
    /// Whether a return address is where signal handlers return to, for those seen so far.
    signal_returns: HashMap<u64, bool>,
}

impl std::fmt::Debug for ProcessUnwinder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ProcessUnwinder")
            .field("modules", &self.modules.modules().len())
            .field("loaded", &self.loaded.len())
            .finish()
    }
}

impl ProcessUnwinder {
    /// An unwinder for a process with these modules.
    #[must_use]
    pub fn new(modules: Arc<ModuleTable>) -> Self {
        Self {
            modules,
            unwinder: UnwinderNative::new(),
            rules: CacheNative::new_in(),
            loaded: HashMap::new(),
            frame_pointer_rules: HashMap::new(),
            signal_returns: HashMap::new(),
        }
    }

    /// Walks one stack. `stack` holds the bytes from the stack pointer upwards, as copied.
    ///
    /// Never fails: a walk that cannot go on returns what it found and says why it ended.
    pub fn walk(
        &mut self,
        registers: &Registers,
        stack: &[u8],
        cache: &mut UnwindCache,
    ) -> CallPath {
        let copy = StackCopy {
            base: registers.stack_pointer(),
            bytes: stack,
            absent: &[],
        };
        self.walk_and_tell(registers, &copy, cache, None)
    }

    /// As [`ProcessUnwinder::walk`], and what the path depends on: a stack that is equal in that has the same path
    /// as long as the same code is mapped. `None` if it depends on more (it leads through a signal handler).
    /// `absent`: address ranges whose bytes in the copy mean nothing.
    pub fn walk_with_evidence(
        &mut self,
        registers: &Registers,
        stack: &[u8],
        absent: &[Range<u64>],
        cache: &mut UnwindCache,
    ) -> (CallPath, Option<Evidence>) {
        let copy = StackCopy {
            base: registers.stack_pointer(),
            bytes: stack,
            absent,
        };
        let mut collector = Collector::default();
        let path = self.walk_and_tell(registers, &copy, cache, Some(&mut collector));
        (path, collector.finish())
    }

    fn walk_and_tell(
        &mut self,
        registers: &Registers,
        copy: &StackCopy<'_>,
        cache: &mut UnwindCache,
        mut collector: Option<&mut Collector>,
    ) -> CallPath {
        let mut native = registers.to_native();
        let mut address = FrameAddress::from_instruction_pointer(registers.instruction_pointer());
        let mut path = CallPath {
            return_addresses: Vec::new(),
            end: WalkEnd::TooDeep,
        };
        while path.return_addresses.len() < MAX_FRAMES {
            let known = self.load_module_of(address.address_for_lookup(), cache);
            let mut beyond_copy = None;
            let mut reads = Vec::new();
            let before = native;
            let mut read = |at| {
                let word = copy.word(at);
                match word {
                    Some(word) => reads.push((at, word)),
                    None if copy.lacks(at) => beyond_copy = Some(at),
                    None => {}
                }
                word.ok_or(())
            };
            let step = self
                .unwinder
                .unwind_frame(address, &mut native, &mut self.rules, &mut read);
            if let Some(collector) = collector.as_deref_mut() {
                collector.step(&Step {
                    before: &before,
                    after: &native,
                    reads: &reads,
                    uses_frame_pointer: self.uses_frame_pointer(address, before, copy),
                    beyond_copy,
                    caller: step.as_ref().ok().copied().flatten(),
                });
            }
            match step {
                // In unknown code an end is only a frame pointer that happens to be zero.
                Ok(None) => {
                    path.end = if known {
                        WalkEnd::Outermost
                    } else {
                        WalkEnd::UnknownCode
                    };
                    return path;
                }
                Ok(Some(caller)) if caller != 0 && self.modules.is_code(caller - 1) => {
                    path.return_addresses.push(caller);
                    let Some(next) = FrameAddress::from_return_address(caller) else {
                        break;
                    };
                    address = next;
                    if self.is_signal_return(caller) {
                        // The unwinder cannot follow the rules given for this frame.
                        collector.as_deref_mut().map(Collector::give_up);
                        let Some(resumed) = self.interrupted(&native, copy) else {
                            path.end = WalkEnd::CopyTooShort;
                            return path;
                        };
                        native = resumed.to_native();
                        let ip = resumed.instruction_pointer();
                        address = FrameAddress::from_instruction_pointer(ip);
                        path.return_addresses.push(ip.saturating_add(1));
                    }
                }
                // In unknown code the word read may be anything.
                Err(framehop::Error::CouldNotReadStack(_)) if known && beyond_copy.is_some() => {
                    path.end = WalkEnd::CopyTooShort;
                    return path;
                }
                // A stack that begins without information (a thread made by hand) ends with zero.
                Err(framehop::Error::ReturnAddressIsNull) if known => {
                    path.end = WalkEnd::Outermost;
                    return path;
                }
                Ok(Some(_)) | Err(_) => {
                    path.end = WalkEnd::UnknownCode;
                    return path;
                }
            }
        }
        path
    }

    /// The registers to go on with behind a signal handler; `None` if they were not copied.
    fn interrupted(&self, native: &UnwindRegsNative, copy: &StackCopy<'_>) -> Option<Registers> {
        let resumed = arch::interrupted(native, |at| copy.word(at))?;
        self.modules
            .is_code(resumed.instruction_pointer())
            .then_some(resumed)
    }

    /// Whether this step goes by the frame pointer: without one it leads elsewhere, or nowhere.
    fn uses_frame_pointer(
        &mut self,
        address: FrameAddress,
        registers: UnwindRegsNative,
        copy: &StackCopy<'_>,
    ) -> bool {
        let key = (address.address_for_lookup(), address.is_return_address());
        if let Some(&known) = self.frame_pointer_rules.get(&key) {
            return known;
        }
        let mut step = |mut registers: UnwindRegsNative| {
            let mut read = |at| copy.word(at).ok_or(());
            let caller =
                self.unwinder
                    .unwind_frame(address, &mut registers, &mut self.rules, &mut read);
            caller.map(|caller| (caller, registers.sp())).ok()
        };
        let mut without = registers;
        arch::set_frame_pointer(&mut without, arch::NO_FRAME_POINTER);
        let with = step(registers);
        let uses = with.is_none() || step(without) != with;
        // Where the walk ends, that may be for a reason that lies in this stack alone.
        if with.is_none_or(|(caller, _)| caller.is_none()) {
            return uses;
        }
        self.frame_pointer_rules.insert(key, uses);
        uses
    }

    fn is_signal_return(&mut self, address: u64) -> bool {
        if let Some(&known) = self.signal_returns.get(&address) {
            return known;
        }
        let module = self.modules.find(address);
        let found = module.is_some_and(|module| {
            code_begins_with(module, module.svma(address), arch::SIGNAL_RETURN)
        });
        self.signal_returns.insert(address, found);
        found
    }

    /// Hands the module at an address to the unwinder, if it was not before. Returns whether
    /// there is unwind information for it.
    fn load_module_of(&mut self, address: u64, cache: &mut UnwindCache) -> bool {
        let Some(index) = self.modules.index_of(address) else {
            return false;
        };
        if let Some(&known) = self.loaded.get(&index) {
            return known;
        }
        let module = &self.modules.modules()[index];
        let sections = cache.sections(&module.path);
        let known = sections
            .as_deref()
            .is_some_and(UnwindSections::has_information);
        if let Some(sections) = sections {
            self.unwinder.add_module(sections.at(module));
        }
        self.loaded.insert(index, known);
        known
    }
}

/// The copied part of a stack.
struct StackCopy<'a> {
    base: u64,
    bytes: &'a [u8],
    /// What could not be copied.
    absent: &'a [Range<u64>],
}

impl StackCopy<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        if self.absent.iter().any(|range| range.contains(&address)) {
            return None;
        }
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let word = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    /// Whether this may be of the stack and was not copied.
    fn lacks(&self, address: u64) -> bool {
        if self.absent.iter().any(|range| range.contains(&address)) {
            return true;
        }
        address
            >= self
                .base
                .saturating_add((self.bytes.len() as u64).saturating_sub(7))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_only_inside_the_copy() {
        let bytes: Vec<u8> = (0..20).collect();
        let hole = 0x1004..0x1008;
        let copy = StackCopy {
            base: 0x1000,
            bytes: &bytes,
            absent: std::slice::from_ref(&hole),
        };
        assert_eq!(
            copy.word(0x1000),
            Some(u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7]))
        );
        assert!(copy.word(0x100c).is_some());
        assert_eq!(copy.word(0x100d), None);
        assert_eq!(copy.word(0xfff), None);
        assert_eq!(copy.word(u64::MAX), None);
        assert!(copy.lacks(0x100d) && !copy.lacks(0x100c) && !copy.lacks(0x0));
        assert!(copy.lacks(0x1004) && copy.word(0x1004).is_none());
    }

    #[test]
    fn unknown_code_ends_the_walk_as_truncated() {
        let mut unwinder = ProcessUnwinder::new(Arc::new(ModuleTable::default()));
        let registers = arch::test_registers(0x1234, 0x7fff_0000, 0);
        let path = unwinder.walk(&registers, &[0; 64], &mut UnwindCache::new());
        assert_eq!(path.return_addresses, []);
        assert_eq!(path.end, WalkEnd::UnknownCode);
        assert!(path.is_truncated());
    }
}
