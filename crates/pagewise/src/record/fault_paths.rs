//! Call paths of faults: stacks that the sensor has not seen before are unwound here, once, and taught to it.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_attribute::unwind::Evidence;
use pagewise_attribute::unwind::arch::Registers;
use pagewise_collect::CallPath;
use pagewise_collect::CopiedStack;
use pagewise_collect::Lesson;
use pagewise_collect::Slot;
use pagewise_host::page_bytes;
use pagewise_host::process;
use pagewise_trace::Event;
use pagewise_trace::StackFrame;

use super::call_paths::CallPaths;
use crate::output::tell;

/// A page that was just brought in is not asked for again.
const BROUGHT_IN_FOR: Duration = Duration::from_millis(10);
/// Pages to remember for that.
const MOST_BROUGHT_IN: usize = 4096;

/// Of stacks that were recognized wrongly, which must not be.
const MOST_TOLD: u64 = 4;

/// Records come at most that long after the copies of their stacks: requests of io_uring have it from their begin.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// By number of a copy. What nobody takes is forgotten after once to twice that time: who needs a copy last is not always known, such as
/// of pages that a fault has brought in.
struct Aging<T> {
    recent: HashMap<u64, T>,
    older: HashMap<u64, T>,
    turned: Instant,
}

impl<T> Default for Aging<T> {
    fn default() -> Self {
        Self {
            recent: HashMap::new(),
            older: HashMap::new(),
            turned: Instant::now(),
        }
    }
}

impl<T: Copy> Aging<T> {
    fn is_due(&self) -> bool {
        self.turned.elapsed() >= KEPT_FOR
    }

    fn turn(&mut self) {
        self.turned = Instant::now();
        self.older = std::mem::take(&mut self.recent);
    }

    fn insert(&mut self, copy: u64, value: T) {
        self.recent.insert(copy, value);
    }

    fn get(&self, copy: u64) -> Option<T> {
        let found = self.recent.get(&copy).or_else(|| self.older.get(&copy));
        found.copied()
    }

    fn remove(&mut self, copy: u64) -> Option<T> {
        self.recent
            .remove(&copy)
            .or_else(|| self.older.remove(&copy))
    }
}

#[derive(Default)]
pub(crate) struct FaultPaths {
    /// Events that wait for their path's number, by place in the list of events.
    waiting: Vec<(usize, CallPath)>,
    /// By which paths work was handed over, by token.
    handovers: HashMap<u64, CallPath>,
    /// Copies that were unwound, perhaps before the event they belong to.
    numbers: Aging<Option<u32>>,
    /// Each with the number of changes of code that had happened before.
    lessons: Vec<(u64, Lesson)>,
    /// Stacks that came too late: their process had gone.
    pub(super) too_late: u64,
    /// Pages of stacks that we read so that they could be unwound further.
    pub(super) pages_brought_in: u64,
    brought_in: HashMap<(u32, u64), Instant>,
    /// Recognized stacks that were unwound too.
    pub(super) checked: u64,
    /// Of these, those with another path.
    pub(super) different: u64,
}

impl FaultPaths {
    /// The event that comes next in the list, `index`, has that path.
    pub(super) fn expect(&mut self, index: usize, path: CallPath) {
        if path != CallPath::Unknown {
            self.waiting.push((index, path));
        }
    }

    /// The number of a path of which all copies have been unwound. A copy that another record refers to later is kept.
    pub(crate) fn number(&mut self, path: CallPath, keep: bool) -> Option<u32> {
        match path {
            CallPath::Unknown => None,
            CallPath::Known(number) => Some(number),
            CallPath::Copied(sequence) if keep => self.numbers.get(sequence).flatten(),
            CallPath::Copied(sequence) => self.numbers.remove(sequence).flatten(),
            CallPath::HandedOver(token) => self.number_of_handover(token),
        }
    }

    /// Work was handed over.
    pub(crate) fn handed_over(&mut self, token: u64, path: CallPath) {
        let known = self.handovers.entry(token).or_insert(path);
        // The same token is the same path, of which a copy may be lost.
        if !matches!(known, CallPath::Known(_)) && path != CallPath::Unknown {
            *known = path;
        }
    }

    /// Of each it is asked for many times: it is looked up once.
    fn number_of_handover(&mut self, token: u64) -> Option<u32> {
        let path = *self.handovers.get(&token)?;
        if let CallPath::Known(number) = path {
            return Some(number);
        }
        let number = self.number(path, false)?;
        self.handovers.insert(token, CallPath::Known(number));
        Some(number)
    }

    /// Unwinds a copied stack; returns the rows of its path if that is new.
    pub(crate) fn learn(
        &mut self,
        pid: Option<u32>,
        stack: &CopiedStack,
        bytes: &[u8],
        call_paths: &mut CallPaths,
    ) -> Vec<StackFrame> {
        let registers = registers_of(stack);
        let absent = stack.absent();
        let unwind = |pid| call_paths.number_of_fault(pid, &registers, bytes, &absent);
        let found = pid.and_then(unwind);
        if stack.known.is_none() {
            let number = found.as_ref().map(|found| found.number);
            self.remember(stack.sequence, number);
        }
        let (Some(pid), Some(found)) = (pid, found) else {
            self.too_late += u64::from(stack.known.is_none());
            return Vec::new();
        };
        self.compare(stack, found.number, call_paths);
        if let Some(evidence) = found.evidence {
            let lesson = lesson(*stack, evidence, found.number);
            if let Some(offset) = lesson.unreadable {
                self.bring_in(pid, stack.stack_pointer + offset);
            }
            if stack.known != Some(found.number) {
                self.lessons.push((call_paths.changes_of_code(), lesson));
            }
        }
        found.rows
    }

    /// Hand-overs may be asked for long after: what is about to be forgotten is looked up for them before.
    fn remember(&mut self, sequence: u64, number: Option<u32>) {
        if self.numbers.is_due() {
            for path in self.handovers.values_mut() {
                if let CallPath::Copied(sequence) = *path
                    && let Some(number) = self.numbers.get(sequence).flatten()
                {
                    *path = CallPath::Known(number);
                }
            }
            self.numbers.turn();
        }
        self.numbers.insert(sequence, number);
    }

    fn compare(&mut self, stack: &CopiedStack, found: u32, call_paths: &CallPaths) {
        let Some(known) = stack.known else { return };
        self.checked += 1;
        if found == known {
            return;
        }
        self.different += 1;
        if self.different <= MOST_TOLD {
            tell!(
                "pagewise: a stack was recognized as {} and is {}; absent {:x?}, stack pointer {:x}",
                call_paths.describe(known),
                call_paths.describe(found),
                stack.absent(),
                stack.stack_pointer
            );
        }
    }

    /// The outer frames of a stack are seldom touched and soon evicted. Brought in, they can be read for a while.
    fn bring_in(&mut self, pid: u32, address: u64) {
        let page = address / page_bytes();
        let brought = self.brought_in.get(&(pid, page));
        // Of many copies that were made before the first was seen, one is reason enough.
        if brought.is_some_and(|at| at.elapsed() < BROUGHT_IN_FOR) {
            return;
        }
        if self.brought_in.len() > MOST_BROUGHT_IN {
            self.brought_in.clear();
        }
        self.brought_in.insert((pid, page), Instant::now());
        self.pages_brought_in += u64::from(process::bring_in(pid, address));
    }

    /// What was learnt since the last call, but what may be wrong since: code has changed after it.
    pub(crate) fn take_lessons(&mut self, call_paths: &CallPaths) -> Vec<Lesson> {
        let now = call_paths.changes_of_code();
        let lessons = std::mem::take(&mut self.lessons).into_iter();
        lessons
            .filter(|(before, _)| *before == now)
            .map(|(_, lesson)| lesson)
            .collect()
    }

    /// Gives events their paths. All copies that they refer to have been unwound.
    pub(super) fn resolve(&mut self, events: &mut [Event]) {
        for (index, path) in std::mem::take(&mut self.waiting) {
            events[index].stack = self.number(path, false);
        }
    }
}

fn lesson(stack: CopiedStack, evidence: Evidence, path: u32) -> Lesson {
    // Beyond the longest copy nothing is ever read; else a page was not resident.
    let unreadable = evidence
        .beyond_copy
        .map(|address| address.wrapping_sub(stack.stack_pointer))
        .filter(|&offset| offset + 8 < CopiedStack::LONGEST);
    let slot = |word: pagewise_attribute::unwind::Word| Slot {
        offset: word.address.wrapping_sub(stack.stack_pointer),
        is_frame_pointer: word.is_frame_pointer,
        value: word.value,
    };
    Lesson {
        stack,
        slots: evidence.words.into_iter().map(slot).collect(),
        uses_frame_pointer: evidence.uses_frame_pointer,
        unreadable,
        path,
    }
}

#[cfg(target_arch = "x86_64")]
fn registers_of(stack: &CopiedStack) -> Registers {
    Registers::new(
        stack.instruction_pointer,
        stack.stack_pointer,
        stack.frame_pointer,
    )
}

#[cfg(target_arch = "aarch64")]
fn registers_of(stack: &CopiedStack) -> Registers {
    Registers::new(
        stack.instruction_pointer,
        stack.link_register,
        stack.stack_pointer,
        stack.frame_pointer,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_nobody_takes_are_forgotten_in_time_but_not_those_of_hand_overs() {
        let mut paths = FaultPaths::default();
        paths.handed_over(5, CallPath::Copied(9));
        paths.remember(9, Some(3));
        for turn in 0..2 {
            assert_eq!(paths.number(CallPath::Copied(9), true), Some(3), "{turn}");
            paths.numbers.turned = Instant::now() - KEPT_FOR;
            paths.remember(10 + turn, Some(4));
        }
        assert_eq!(paths.number(CallPath::Copied(9), true), None, "forgotten");
        assert_eq!(paths.number(CallPath::HandedOver(5), false), Some(3));
        assert_eq!(paths.number(CallPath::Copied(10), false), Some(4));
        assert_eq!(paths.number(CallPath::Copied(10), false), None, "taken");
    }

    #[test]
    fn a_hand_over_is_known_once_its_stack_is_unwound_and_stays_known() {
        let mut paths = FaultPaths::default();
        let handed_over = CallPath::HandedOver(5);
        assert_eq!(paths.number(handed_over, true), None, "not told of");
        paths.handed_over(5, CallPath::Copied(9));
        assert_eq!(paths.number(handed_over, false), None, "not unwound");
        paths.remember(9, Some(3));
        assert_eq!(paths.number(handed_over, false), Some(3));
        for told in [CallPath::Unknown, CallPath::Copied(10)] {
            paths.handed_over(5, told);
            assert_eq!(paths.number(handed_over, false), Some(3), "{told:?}");
        }
        paths.handed_over(6, CallPath::Unknown);
        paths.handed_over(6, CallPath::Known(4));
        assert_eq!(paths.number(CallPath::HandedOver(6), false), Some(4));
    }
}
