//! What the program asks for itself, by `pagewise.h`: within the same budget as the plan's rules.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose::system;

use super::Leaving;
use super::end_objects;
use super::helper;
use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::object::PAGE;
use super::objects;
use super::with_plan;

static PHASE: AtomicUsize = AtomicUsize::new(0);

/// Changes with each phase that begins or ends.
pub(super) fn phase() -> usize {
    PHASE.load(Ordering::Relaxed)
}

pub(crate) fn begin_phase() {
    PHASE.fetch_add(1, Ordering::Relaxed);
    with_plan(|plan| plan.status.add(Total::Phases, 1));
}

pub(crate) fn end_phase() {
    PHASE.fetch_add(1, Ordering::Relaxed);
}

/// Locks a range, as far as the budget goes, and returns how many bytes.
pub(crate) fn lock(start: usize, bytes: usize) -> usize {
    let mut locked = 0;
    if is_range(start, bytes) {
        let object = Object {
            keep: bytes,
            ..Object::new(start, bytes, CALLS)
        };
        with_plan(|plan| {
            plan.status.add_to_rule(CALLS, OfRule::Objects, 1);
            locked = begin(plan, object);
        });
    }
    locked
}

/// Keeps at most so many bytes of a range, and reads the rest ahead of the sweeps over it.
pub(crate) fn stream(start: usize, bytes: usize, keep: usize) {
    if !is_range(start, bytes) {
        return;
    }
    with_plan(|plan| {
        let object = Object {
            streamed: true,
            keep,
            ..Object::new(start, bytes, CALLS)
        };
        plan.status.add_to_rule(CALLS, OfRule::Objects, 1);
        begin(plan, object);
        helper::start(plan);
    });
}

/// NULL, and what `mmap` returns when it fails, are no memory.
fn is_range(start: usize, bytes: usize) -> bool {
    start != 0 && bytes != 0 && start.checked_add(bytes).is_some()
}

/// An object of the program's own word, which wins over a rule's. Returns how many bytes of it are locked.
fn begin(plan: &Plan, mut object: Object) -> usize {
    end_objects(plan, object.start, object.bytes, Leaving::Advised);
    if object.keep > 0 {
        let rule = PlanRule {
            keep_bytes: object.keep as u64,
            ..PlanRule::default()
        };
        locks::lock(plan, &rule, &mut object);
    }
    if objects::insert(object) {
        return object.locked as usize;
    }
    locks::release(plan, &object);
    0
}

/// What the program asked for of a part of a block, by its offset in it.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    from: usize,
    bytes: usize,
    keep: usize,
    streamed: bool,
}

impl Asked {
    pub(super) fn of(object: &Object, block: usize) -> Self {
        Self {
            from: object.start.saturating_sub(block),
            bytes: object.bytes,
            keep: object.keep,
            streamed: object.streamed,
        }
    }
}

/// The block is another now, by `realloc` or `mremap`: what was asked for of it goes on as far as it is there still.
pub(super) fn renew(plan: &Plan, address: usize, bytes: usize, asked: Asked) {
    let bytes = asked.bytes.min(bytes.saturating_sub(asked.from));
    if bytes > 0 {
        let object = Object {
            streamed: asked.streamed,
            keep: asked.keep,
            ..Object::new(address.saturating_add(asked.from), bytes, CALLS)
        };
        begin(plan, object);
    }
}

pub(crate) fn unlock(start: usize, bytes: usize) {
    if !is_range(start, bytes) {
        return;
    }
    with_plan(|plan| {
        end_objects(plan, start, bytes, Leaving::Advised);
    });
}

/// Reads a range in, without waiting for it: from its start on, as much as a limit has room for, as more would only drive out what
/// came first.
pub(crate) fn prefetch(start: usize, bytes: usize) {
    if !is_range(start, bytes) {
        return;
    }
    with_plan(|plan| {
        let mut pages = around(start, bytes);
        let room = locks::room_for(plan, &pages).unwrap_or(u64::MAX);
        let most = usize::try_from(room).unwrap_or(usize::MAX) / PAGE * PAGE;
        pages.end = pages.end.min(pages.start.saturating_add(most));
        advise(plan, pages, system::WILL_NEED, OfRule::ReadAhead);
    });
}

/// Pages a range out: it is not needed for a while.
pub(crate) fn release(start: usize, bytes: usize) {
    if is_range(start, bytes) {
        let pages = Object::new(start, bytes, CALLS).pages();
        with_plan(|plan| advise(plan, pages, system::PAGE_OUT, OfRule::Dropped));
    }
}

/// The pages that a range touches.
fn around(start: usize, bytes: usize) -> Range<usize> {
    let end = start.saturating_add(bytes).checked_next_multiple_of(PAGE);
    start / PAGE * PAGE..end.unwrap_or(start)
}

fn advise(plan: &Plan, pages: Range<usize>, advice: i32, counts: OfRule) {
    if pages.is_empty() {
        return;
    }
    let count = (pages.len() / PAGE) as u64;
    match system::advise(pages.start, pages.len(), advice) {
        Ok(()) => plan.status.add_to_rule(CALLS, counts, count),
        Err(errno) => plan.status.refused(CALLS, errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_memory_is_no_range() {
        assert!(is_range(4096, 1));
        for (start, bytes) in [(0, 4096), (4096, 0), (usize::MAX, 4096), (4096, usize::MAX)] {
            assert!(!is_range(start, bytes), "{start:#x} {bytes}");
        }
    }
}
