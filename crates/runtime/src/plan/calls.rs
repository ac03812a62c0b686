//! What the program asks for itself, by `pagewise.h`: within the same budget as the plan's rules.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose::system;

use super::end_objects;
use super::locks;
use super::objects;
use super::objects::Object;
use super::objects::PAGE;
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
    with_plan(|plan| {
        // The program's own word wins over a rule's.
        end_objects(plan, start, bytes, true);
        let mut object = Object::new(start, bytes, CALLS);
        plan.status.add_to_rule(CALLS, OfRule::Objects, 1);
        locks::lock(plan, &PlanRule::default(), &mut object);
        if objects::insert(object) {
            locked = object.locked as usize;
        } else {
            locks::release(plan, &object);
        }
    });
    locked
}

pub(crate) fn unlock(start: usize, bytes: usize) {
    with_plan(|plan| {
        end_objects(plan, start, bytes, true);
    });
}

/// Reads a range in, without waiting for it.
pub(crate) fn prefetch(start: usize, bytes: usize) {
    advise(around(start, bytes), system::WILL_NEED, OfRule::ReadAhead);
}

/// Pages a range out: it is not needed for a while.
pub(crate) fn release(start: usize, bytes: usize) {
    advise(
        Object::new(start, bytes, CALLS).pages(),
        system::PAGE_OUT,
        OfRule::Dropped,
    );
}

/// The pages that a range touches.
fn around(start: usize, bytes: usize) -> Range<usize> {
    let end = start.saturating_add(bytes).checked_next_multiple_of(PAGE);
    start / PAGE * PAGE..end.unwrap_or(start)
}

fn advise(pages: Range<usize>, advice: i32, counts: OfRule) {
    if pages.is_empty() {
        return;
    }
    with_plan(
        |plan| match system::advise(pages.start, pages.len(), advice) {
            Ok(()) => plan
                .status
                .add_to_rule(CALLS, counts, (pages.len() / PAGE) as u64),
            Err(errno) => plan.status.refused(CALLS, errno),
        },
    );
}
