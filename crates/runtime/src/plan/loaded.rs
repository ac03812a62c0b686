//! The plan in this process: asked for once, at start, and mapped for life.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::FRESH;
use pagewise_abi::plan::PLAN_VARIABLE;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::plan::PlanView;
use pagewise_abi::status::STATUS_BYTES;
use pagewise_interpose as interpose;

use super::status::Status;
use crate::settings;
use crate::settings::SOCKET_BYTES;

/// [`pagewise_abi::READING_AHEAD`] as a C string.
const READING_AHEAD_NAME: &CStr = c"pagewise-ahead";

static PLAN: OnceLock<Plan> = OnceLock::new();

pub(super) struct Plan {
    pub(super) view: PlanView<'static>,
    pub(super) status: Status,
    socket: Socket,
    generation: AtomicU32,
}

/// The launcher's socket, kept as the program may write over its environment.
struct Socket {
    name: [u8; SOCKET_BYTES],
    length: usize,
}

impl Socket {
    fn new(text: &[u8]) -> Option<Self> {
        let mut name = [0; SOCKET_BYTES];
        name.get_mut(..text.len())?.copy_from_slice(text);
        let length = text.len();
        Some(Self { name, length })
    }

    fn name(&self) -> &[u8] {
        &self.name[..self.length]
    }
}

/// Asks the launcher for it. `None`: there is no launcher, or it does not answer: the program runs without a plan.
pub(super) fn load() -> Option<&'static Plan> {
    let socket = settings::environment_variable(PLAN_VARIABLE)?;
    let (start, bytes) = interpose::request_file(socket)?;
    let plan_bytes = bytes.checked_sub(STATUS_BYTES)?;
    // SAFETY: the mapping of `bytes` bytes lives for ever; nobody writes to its first part.
    let text = unsafe { std::slice::from_raw_parts(start, plan_bytes) };
    // SAFETY: the part of STATUS_BYTES behind it, written by atomic operations only.
    let status = unsafe { Status::at(start.add(plan_bytes)) }?;
    let view = PlanView::decode(text)?;
    let plan = Plan {
        view,
        status,
        socket: Socket::new(socket)?,
        generation: AtomicU32::new(interpose::process_generation()),
    };
    Some(PLAN.get_or_init(|| plan))
}

pub(super) fn plan() -> Option<&'static Plan> {
    PLAN.get()
}

impl Plan {
    /// Whether this process was forked since the last time it was asked: in a way that runs no handlers, if none of ours has asked.
    pub(super) fn note_fork(&self) -> bool {
        let now = interpose::process_generation();
        self.generation.swap(now, Ordering::Relaxed) != now
    }

    /// The calling thread reads ahead: it wants to run before the program's threads. One that gets ahead of it waits for a processor
    /// rather than fault its pages in itself, which takes as much work and leaves these to be written again.
    pub(super) fn take_precedence(&self) {
        interpose::name_thread(READING_AHEAD_NAME);
        interpose::request_precedence(self.socket.name());
    }

    /// Whether any rule is about memory.
    pub(super) fn has_memory_rules(&self) -> bool {
        let is_io = |index| self.view.action(&self.view.rule(index)).is_io();
        (0..self.view.rules()).any(|index| !is_io(index))
    }

    /// What is done to objects of this rule, which may be [`FRESH`].
    pub(super) fn action_of(&self, rule: usize) -> PlanAction {
        match rule {
            CALLS => PlanAction::Nothing,
            FRESH => self.view.fresh().unwrap_or(PlanAction::Nothing),
            _ => self.view.action(&self.view.rule(rule)),
        }
    }

    /// Whether objects of this rule are made ready ahead of their first touch.
    pub(super) fn prezeroes(&self, rule: usize) -> bool {
        self.action_of(rule) == PlanAction::Prezero
    }

    /// Whether objects of this rule are pieces of fresh memory: made ready ahead, or advised for as long as memory is ample.
    pub(super) fn are_pieces(&self, rule: usize) -> bool {
        rule == FRESH || self.prezeroes(rule)
    }

    /// Whether fresh memory is to be looked after beside the program.
    pub(super) fn needs_prezero(&self) -> bool {
        self.view.fresh().is_some() || (0..self.view.rules()).any(|rule| self.prezeroes(rule))
    }

    /// Whether objects of this rule are locked, in part or as a whole.
    pub(super) fn locks(&self, rule: usize) -> bool {
        matches!(self.action_of(rule), PlanAction::Lock | PlanAction::Stream)
    }

    /// Whether what is locked of them is at their start.
    pub(super) fn keeps(&self, rule: usize) -> bool {
        self.locks(rule) && self.view.rule(rule).ranges == 0
    }

    /// Whether its ranges are of all its objects together.
    pub(super) fn is_together(&self, rule: usize) -> bool {
        self.locks(rule) && self.view.rule(rule).together > 0
    }

    /// Whether objects of this rule are to be kept as a whole.
    pub(super) fn keeps_whole(&self, rule: usize) -> bool {
        self.keeps(rule) && self.action_of(rule) == PlanAction::Lock
    }

    /// Whether blocks of this rule that lie side by side are one object: where all of an object is treated alike, or by
    /// how much was made before.
    pub(super) fn joins(&self, rule: usize) -> bool {
        let action = self.action_of(rule);
        action == PlanAction::Prefetch || self.keeps(rule) || self.is_together(rule)
    }

    /// Whether sweeps of this rule's objects are read ahead of.
    pub(super) fn reads_ahead(&self, rule: usize) -> bool {
        let action = self.action_of(rule);
        matches!(action, PlanAction::Stream | PlanAction::Prefetch)
    }

    /// Whether it is known how often the program waited without a plan.
    pub(super) fn is_held_against_recording(&self) -> bool {
        self.view.headway().next().is_some()
    }

    /// Whether they are followed, be it only to see what the lock of their fixed part is worth.
    pub(super) fn follows(&self, rule: usize) -> bool {
        let keeps_more = || self.locks(rule) && self.view.rule(rule).keeps_more > 0;
        self.reads_ahead(rule) || keeps_more()
    }

    /// Whether there is something to do beside the program.
    pub(super) fn needs_helper(&self) -> bool {
        let mut rules = 0..self.view.rules();
        rules.any(|rule| self.follows(rule) || self.action_of(rule) == PlanAction::Cold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_knows_the_threads_by_their_name() {
        assert_eq!(READING_AHEAD_NAME.to_str(), Ok(pagewise_abi::READING_AHEAD));
    }
}
