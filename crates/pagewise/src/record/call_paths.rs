//! Copied stacks, of allocations and of faults, unwound and numbered: equal call paths are stored once.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use pagewise_abi as abi;
use pagewise_abi::file_calls;
use pagewise_attribute::ElfCache;
use pagewise_attribute::Mapping;
use pagewise_attribute::ModuleTable;
use pagewise_attribute::generated_code_names;
use pagewise_attribute::unwind::CallPath;
use pagewise_attribute::unwind::Evidence;
use pagewise_attribute::unwind::ProcessUnwinder;
use pagewise_attribute::unwind::UnwindCache;
use pagewise_attribute::unwind::WalkEnd;
use pagewise_attribute::unwind::arch::Registers;
use pagewise_trace::StackFrame;

use super::mapped::Mapped;
use super::told_code::ToldCode;

/// Equal in this, equal in names: modules may lie elsewhere in each process.
type Key = Vec<(Option<Arc<str>>, u64)>;

#[derive(Default)]
pub(crate) struct CallPaths {
    pub(crate) mapped: Mapped,
    told: ToldCode,
    /// Which process has run its program since when, where that was told; former programs by their numbers.
    begun: HashMap<u32, (u32, u64)>,
    /// Programs that processes ran before, as many as were told of.
    former: u32,
    elf: ElfCache,
    unwind: UnwindCache,
    processes: HashMap<u32, Process>,
    /// Whose code a child has until it runs another program: it may end before anybody has looked at it.
    parents: HashMap<u32, u32>,
    numbers: HashMap<Key, u32>,
    /// How often code has changed so that what was learnt before may be wrong; and how often that was said.
    changes: u64,
    changes_told: u64,
    short_stacks: Vec<u32>,
}

struct Process {
    code: Vec<Mapping>,
    modules: Arc<ModuleTable>,
    /// Where code that is in no file has its names.
    generated_code: Arc<str>,
    unwinder: ProcessUnwinder,
    /// When its mappings were last read in vain for a stack's sake.
    looked_in_vain: Option<Instant>,
    /// How often in a row that was.
    looks_in_vain: u32,
    /// Paths were learnt that end in code which was not known: with more code they go on.
    learnt_in_unknown_code: bool,
    walks: Walks,
}

/// How often the stacks that a process sends are too short.
#[derive(Clone, Copy, Default)]
struct Walks {
    all: u32,
    too_short: u32,
}

impl Walks {
    /// One deep path in many is not worth longer copies for all.
    const WORTH_IT: u32 = 64;

    /// Counts a walk. True: longer stacks are wanted, and counting begins anew.
    fn count(&mut self, end: WalkEnd) -> bool {
        self.all += 1;
        self.too_short += u32::from(end == WalkEnd::CopyTooShort);
        let wanted = end == WalkEnd::CopyTooShort && self.too_short > self.all / Self::WORTH_IT;
        if wanted {
            *self = Self::default();
        }
        wanted
    }
}

/// A fault's call path.
pub(super) struct FaultPath {
    pub(super) number: u32,
    /// Its frames, if it is new.
    pub(super) rows: Vec<StackFrame>,
    /// What it follows from; `None`: not from the stack's words alone.
    pub(super) evidence: Option<Evidence>,
}

/// A walk that ends in unknown code is a reason to look for new code, at once where the last look found some: a program that loads
/// its libraries has more each time, and stacks of it come in bursts. In vain it is done a few times, as for stacks of before the program
/// began, and then less and less often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
const FREE_LOOKS: u32 = 8;
const EARLY_LOOKS: u32 = FREE_LOOKS + 7;

/// No process has such a number: the kernel's end at 2^22 (`PID_MAX_LIMIT`, include/linux/threads.h).
const FIRST_FORMER: u32 = 1 << 23;

impl CallPaths {
    /// What is mapped is told, too: of processes that end before they are looked at.
    pub(super) fn hear(&mut self, told: ToldCode) {
        self.told = told;
    }

    /// Takes what has been told of mapped code, before it is more than is kept.
    pub(super) fn listen(&mut self) {
        self.told.listen();
    }

    /// A process runs another program since that time. Its last stacks of the one before are those of the returned number.
    pub(super) fn runs_another_program(&mut self, pid: u32, time_ns: u64) -> u32 {
        let number = FIRST_FORMER + self.former % FIRST_FORMER;
        self.former += 1;
        if let Some(parent) = self.parents.remove(&pid) {
            self.parents.insert(number, parent);
        }
        if let Some(begun) = self.begun.insert(pid, (pid, time_ns)) {
            self.begun.insert(number, begun);
        }
        if let Some(process) = self.processes.remove(&pid) {
            self.processes.insert(number, process);
        }
        number
    }

    /// The file of the program that a process began to run at that time; also of one that has ended since.
    pub(super) fn executable(&mut self, pid: u32, time_ns: u64) -> Option<PathBuf> {
        let of_the_living = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        of_the_living.or_else(|| self.told.executable(pid, time_ns).map(PathBuf::from))
    }
    /// This is mapped in that process from now on.
    ///
    /// True: other code than before.
    pub(crate) fn set_mappings(&mut self, pid: u32, mappings: &[Mapping]) -> bool {
        let code: Vec<Mapping> = mappings.iter().filter(|m| m.executable).cloned().collect();
        if let Some(process) = self.processes.get(&pid) {
            if process.code == code {
                return false;
            }
            let is_gone = process.code.iter().any(|old| !code.contains(old));
            self.changes += u64::from(is_gone || process.learnt_in_unknown_code);
        }
        let modules = Arc::new(ModuleTable::new(mappings, &mut self.elf));
        let known = self.processes.get(&pid);
        let walks = known.map_or(Walks::default(), |before| before.walks);
        let (root, inside) = self.mapped.root_and_number(pid);
        let process = Process {
            generated_code: generated_code_names(root, inside, &code).into(),
            code,
            walks,
            unwinder: ProcessUnwinder::new(Arc::clone(&modules)),
            modules,
            looked_in_vain: None,
            looks_in_vain: 0,
            learnt_in_unknown_code: false,
        };
        self.processes.insert(pid, process);
        true
    }

    pub(super) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.parents.remove(&pid);
        self.begun.remove(&pid);
        self.told.forget(pid);
    }

    /// A child was forked: it has its parent's code.
    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        self.parents.insert(child, parent);
    }

    /// Whether, since the last call, some process has lost code, or has code by which paths go on that were learnt to end there.
    pub(crate) fn code_has_changed(&mut self) -> bool {
        let told = std::mem::replace(&mut self.changes_told, self.changes);
        told != self.changes
    }

    /// How often that has happened.
    pub(crate) fn changes_of_code(&self) -> u64 {
        self.changes
    }

    /// Processes that are to send longer stacks from now on.
    pub(super) fn take_short_stacks(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.short_stacks)
    }

    /// The number of an allocation's call path, and its rows if it is new. `None`: that process's modules are unknown.
    pub(super) fn number(
        &mut self,
        pid: u32,
        allocation: &abi::Allocation<'_>,
    ) -> Option<(u32, Vec<StackFrame>)> {
        let process = self.processes.get_mut(&pid)?;
        let [instruction, stack, frame] = allocation.registers;
        let registers = Registers::new(instruction, stack, frame);
        let path = process
            .unwinder
            .walk(&registers, allocation.stack, &mut self.unwind);
        // What was sent before it hears of it will be short, too.
        if process.walks.count(path.end) && !self.short_stacks.contains(&pid) {
            self.short_stacks.push(pid);
        }
        self.number_of(pid, instruction, &path)
    }

    /// The number of a path by which a process calls on files, and its rows if it is new. `None`: its modules are unknown.
    pub(super) fn number_of_told(
        &mut self,
        pid: u32,
        told: &file_calls::CallPath<'_>,
    ) -> Option<(u32, Vec<StackFrame>)> {
        if !self.processes.contains_key(&pid) {
            // Another thread of it is just telling of its libraries.
            self.look_at(pid);
        }
        let pid = self.with_code_of(pid);
        let mut path = self.walk_told(pid, told)?;
        if path.end == WalkEnd::UnknownCode && self.look_at(pid) {
            path = self.walk_told(pid, told)?;
        }
        // Further out, other paths have the same token.
        let most = (told.frames as usize).saturating_sub(1);
        if told.frames > 0 && path.return_addresses.len() > most {
            path.return_addresses.truncate(most);
            path.end = WalkEnd::UnknownCode;
        }
        self.number_of(pid, told.registers[0], &path)
    }

    fn walk_told(&mut self, pid: u32, told: &file_calls::CallPath<'_>) -> Option<CallPath> {
        let process = self.processes.get_mut(&pid)?;
        let [instruction, stack, frame] = told.registers;
        let registers = Registers::new(instruction, stack, frame);
        let unwinder = &mut process.unwinder;
        Some(unwinder.walk(&registers, told.stack, &mut self.unwind))
    }

    /// The call path of a fault with these registers and this stack. `None`: the process has gone.
    pub(super) fn number_of_fault(
        &mut self,
        pid: u32,
        registers: &Registers,
        stack: &[u8],
        absent: &[Range<u64>],
    ) -> Option<FaultPath> {
        if !self.processes.contains_key(&pid) {
            self.look_at(pid);
        }
        let pid = self.with_code_of(pid);
        let (mut path, mut evidence) = self.walk_fault(pid, registers, stack, absent)?;
        if path.end == WalkEnd::UnknownCode {
            if self.look_at(pid) {
                (path, evidence) = self.walk_fault(pid, registers, stack, absent)?;
            } else if self.is_loading(pid) {
                // Not to be remembered so: its libraries are being loaded.
                evidence = None;
            }
        }
        if path.end == WalkEnd::UnknownCode
            && evidence.is_some()
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.learnt_in_unknown_code = true;
        }
        let (number, rows) = self.number_of(pid, registers.instruction_pointer(), &path)?;
        Some(FaultPath {
            number,
            rows,
            evidence,
        })
    }

    /// The frames of a path, for messages.
    pub(super) fn describe(&self, number: u32) -> String {
        let key = self.numbers.iter().find(|(_, known)| **known == number);
        let frames = key.into_iter().flat_map(|(key, _)| key);
        let frame = |(module, offset): &(Option<Arc<str>>, u64)| {
            format!("{}+{offset:x}", module.as_deref().unwrap_or("?"))
        };
        let frames: Vec<String> = frames.map(frame).collect();
        format!("path {number} ({})", frames.join(" "))
    }

    fn walk_fault(
        &mut self,
        pid: u32,
        registers: &Registers,
        stack: &[u8],
        absent: &[Range<u64>],
    ) -> Option<(CallPath, Option<Evidence>)> {
        let process = self.processes.get_mut(&pid)?;
        let unwinder = &mut process.unwinder;
        Some(unwinder.walk_with_evidence(registers, stack, absent, &mut self.unwind))
    }

    /// The process itself, or, if it has ended before anybody looked at it, the one that it was forked from.
    fn with_code_of(&self, pid: u32) -> u32 {
        let mut holder = pid;
        for _ in 0..16 {
            if self.processes.contains_key(&holder) {
                return holder;
            }
            match self.parents.get(&holder) {
                Some(&parent) => holder = parent,
                None => break,
            }
        }
        pid
    }

    fn is_loading(&self, pid: u32) -> bool {
        let process = self.processes.get(&pid);
        process.is_some_and(|process| process.looks_in_vain < EARLY_LOOKS)
    }

    /// What is mapped in a process, or was before it ended. Empty: nobody knows.
    fn mappings_of(&mut self, pid: u32) -> Vec<Mapping> {
        let mappings = self.mapped.now(pid);
        match self.begun.get(&pid) {
            Some(&(pid, begun_ns)) if mappings.is_empty() => {
                self.told.of(pid, begun_ns, &self.mapped.roots())
            }
            _ => mappings,
        }
    }

    /// Reads what is mapped in a process, unless that was just done in vain. True: it was read.
    fn look_at(&mut self, pid: u32) -> bool {
        if let Some(process) = self.processes.get(&pid)
            && let Some(at) = process.looked_in_vain
        {
            let beyond = process.looks_in_vain.saturating_sub(FREE_LOOKS);
            let wait = FIRST_LOOK_AGAIN * (1 << beyond.min(EARLY_LOOKS));
            if beyond > 0 && at.elapsed() < wait.min(LOOK_AGAIN) {
                return false;
            }
        }
        let mappings = self.mappings_of(pid);
        if mappings.is_empty() {
            return false;
        }
        let is_new = self.set_mappings(pid, &mappings);
        if !is_new && let Some(process) = self.processes.get_mut(&pid) {
            process.looked_in_vain = Some(Instant::now());
            process.looks_in_vain += 1;
        }
        true
    }

    fn number_of(
        &mut self,
        pid: u32,
        instruction: u64,
        path: &CallPath,
    ) -> Option<(u32, Vec<StackFrame>)> {
        let process = self.processes.get(&pid)?;
        let addresses: Vec<u64> = std::iter::once(instruction)
            .chain(path.return_addresses.iter().copied())
            .collect();
        let mut key: Key = addresses
            .iter()
            .map(|&address| place(&process.modules, address))
            .collect();
        let is_generated = |address| process.modules.is_code(address);
        for (place, &address) in key.iter_mut().zip(&addresses) {
            if place.0.is_none() && is_generated(address) {
                place.0 = Some(Arc::clone(&process.generated_code));
            }
        }
        if let Some(&number) = self.numbers.get(&key) {
            return Some((number, Vec::new()));
        }
        let number = self.numbers.len() as u32;
        let rows = rows(number, &addresses, &key, path);
        self.numbers.insert(key, number);
        Some((number, rows))
    }
}

fn place(modules: &ModuleTable, address: u64) -> (Option<Arc<str>>, u64) {
    match modules.find(address) {
        Some(module) => (Some(Arc::clone(&module.path)), module.svma(address)),
        None => (None, address),
    }
}

fn rows(stack: u32, addresses: &[u64], key: &Key, path: &CallPath) -> Vec<StackFrame> {
    let frames = addresses.iter().zip(key).enumerate();
    frames
        .map(|(depth, (&address, (module, offset)))| StackFrame {
            stack,
            depth: depth as u16,
            address,
            module: module.as_deref().map(str::to_owned),
            module_offset: module.is_some().then_some(*offset),
            truncated: path.is_truncated(),
        })
        .collect()
}
