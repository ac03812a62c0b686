//! A thread of ours, of which a process has one at most, that begins where the program runs: elsewhere it would have the kernel interrupt that processor for
//! each page that leaves ([`super::aside`]).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Spin;
use pagewise_interpose::processors::Processors;

use super::Hook;
use super::aside::Aside;
use super::loaded::Plan;
use super::prezero;

pub(super) struct Beside {
    is_started: AtomicBool,
    /// Where the program may run, known before the thread is held to one of these.
    processors: Spin<Option<Processors>>,
}

impl Beside {
    pub(super) const fn new() -> Self {
        Self {
            is_started: AtomicBool::new(false),
            processors: Spin::new(None),
        }
    }

    /// Starts it, once. Only where no allocator's lock is held.
    pub(super) fn start(&self, plan: &Plan, body: fn()) {
        if self.is_started.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(mut processors) = self.processors.lock() {
            *processors = Processors::of_program();
        }
        if let Err(errno) = interpose::spawn_here(body) {
            plan.status.set(Total::ThreadErrno, errno as u64);
        }
    }

    pub(super) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Relaxed)
    }

    /// Whether it is still to be started, and may be where an allocation of this kind is heard of.
    pub(super) fn may_start(&self, hook: Hook) -> bool {
        !self.is_started() && prezero::may_start_thread(hook)
    }

    /// A forked child has no such thread.
    pub(super) fn forget(&self) {
        self.is_started.store(false, Ordering::Relaxed);
        self.processors.break_open();
    }

    /// Where the thread runs, which asks.
    pub(super) fn aside(&self) -> Aside {
        Aside::new(self.processors.lock().and_then(|processors| *processors))
    }
}
