//! Slots that were given back, in the order in which they were.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::arena::Number;
use crate::arena::REST;
use crate::arena::SLOTS;
use crate::arena::UNUSED;
use crate::report;
use crate::slot::State;

/// How much waits in a queue before it is handed out again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl Bounds {
    /// So many objects more.
    pub(crate) fn and(self, objects: usize) -> Self {
        Self {
            objects: self.objects + objects as u64,
            ..self
        }
    }
}

/// Of each class: 4 MiB of bookkeeping and page tables, and no memory of the objects themselves.
pub(crate) const WAITING: Bounds = Bounds {
    objects: 1 << 17,
    bytes: 256 << 20,
};
/// Of large objects, addresses.
pub(crate) const LARGE_WAITING: Bounds = Bounds {
    objects: 1 << 10,
    bytes: 16 << 30,
};

/// Whether a slot that waits may be handed out: else somebody wrote over the bookkeeping, and all that waited with it is lost.
fn may_wait(arena: &Arena, number: Number) -> bool {
    let chunk = number as usize / SLOTS;
    let may = chunk < arena.chunks
        && !matches!(arena.kind(chunk), UNUSED | REST)
        && matches!(
            arena.slot(number).facts().state,
            State::Fresh | State::Freed
        );
    if !may {
        say_that_it_was_overwritten();
    }
    may
}

/// Somebody wrote over words of slots, once.
#[cold]
pub(crate) fn say_that_it_was_overwritten() {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    report::say_once(
        &WAS_SAID,
        "pagewise: the guard's bookkeeping was overwritten: by a pointer to anywhere, or one long out of date\n",
    );
}

/// Slots of which the last to come is the first to go, linked by their words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stack {
    top: Number,
    count: u64,
}

impl Stack {
    pub(crate) fn push(&mut self, arena: &Arena, number: Number) {
        let link = &arena.slot(number).link;
        link.store(self.top, Ordering::Relaxed);
        self.top = number;
        self.count += 1;
    }

    pub(crate) fn pop(&mut self, arena: &Arena) -> Option<Number> {
        self.count = self.count.checked_sub(1)?;
        let number = self.top;
        if !may_wait(arena, number) {
            self.count = 0;
            return None;
        }
        self.top = arena.slot(number).link.load(Ordering::Relaxed);
        Some(number)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// Slots in the order in which they were given back, linked by their words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    first: Number,
    last: Number,
    count: u64,
    bytes: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, arena: &Arena, number: Number, bytes: u64) {
        if self.count == 0 {
            self.first = number;
        } else {
            let last = arena.slot(self.last);
            last.link.store(number, Ordering::Relaxed);
        }
        self.last = number;
        self.count += 1;
        self.bytes += bytes;
    }

    pub(crate) fn pop(&mut self, arena: &Arena) -> Option<Number> {
        self.count = self.count.checked_sub(1)?;
        let number = self.first;
        if !may_wait(arena, number) {
            *self = Self::default();
            return None;
        }
        let slot = arena.slot(number);
        self.first = slot.link.load(Ordering::Relaxed);
        let bytes = arena.object(number, slot.facts()).bytes as u64;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(number)
    }

    pub(crate) fn visit(&self, arena: &Arena, visit: &mut dyn FnMut(Number)) {
        let mut number = self.first;
        for _ in 0..self.count {
            visit(number);
            number = arena.slot(number).link.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn exceeds(&self, bounds: Bounds) -> bool {
        self.count > bounds.objects || self.bytes > bounds.bytes
    }
}
