//! A plan put into force: what the hooks call. Without a plan each costs a load and a comparison.
//!
//! ```text
//!   hook -> call_path: which rule? -> objects: who lives where -> locks: keep it
//!                                                    |
//!                                      helper thread: sweep -> reads ahead, drops behind
//! ```

mod call_path;
pub(crate) mod calls;
mod follower;
mod gain;
mod hand;
mod helper;
pub(crate) mod io;
mod loaded;
mod locks;
mod objects;
mod prezero;
mod probes;
mod status;
mod sweep;
mod trial;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::FRESH;
use pagewise_abi::plan::PLAN_THRESHOLD;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Entered;
use pagewise_interpose::system;

use self::loaded::Plan;
use self::objects::Object;

/// Smaller allocations are nobody's business; without a plan, all are smaller.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// `malloc` and kin, called by the program: no allocator's lock is held.
    Allocator,
    /// `mmap` and kin: an allocator may be who called.
    Mapping,
    /// The same, without room in memory and swap being promised (`MAP_NORESERVE`): an allocator's, or a sparse array.
    Reservation,
    /// The same, of memory that is not just memory: shared, a stack, or not to be written.
    SpecialMapping,
}

/// Whether [`allocated`] wants to hear of this allocation.
#[inline(always)]
pub(crate) fn wants(bytes: usize) -> bool {
    bytes >= THRESHOLD.load(Ordering::Relaxed)
}

/// Run when this library is loaded.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    let Some(_entered) = Entered::enter() else {
        return;
    };
    interpose::keeping_errno(|| {
        let Some(plan) = loaded::load() else {
            return;
        };
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
        plan.status.add(Total::Processes, 1);
        locks::begin(plan);
        call_path::look_at_modules(plan);
        if plan.needs_prezero() {
            prezero::begin(plan);
        }
        match_globals(plan);
        if plan.needs_helper() && call_path::is_any_rule_here(plan) {
            helper::start(plan);
        }
        io::begin(plan);
        if let Some(bytes) = threshold(plan) {
            THRESHOLD.store(bytes, Ordering::Release);
        }
    });
}

/// Which allocations matter; `None`: none does.
fn threshold(plan: &Plan) -> Option<usize> {
    if plan.has_memory_rules() {
        Some(PLAN_THRESHOLD)
    } else if plan.view.fresh().is_some() {
        Some(prezero::LEAST_BYTES)
    } else {
        (plan.view.rules() == 0).then_some(PLAN_THRESHOLD)
    }
}

/// Run when the program ends.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    io::ending();
}

extern "C" fn before_fork() {
    io::forking();
}

extern "C" fn in_child() {
    forget_parents();
}

/// A forked child has none of its parent's locks and threads.
fn forget_parents() {
    interpose::forget_threads();
    objects::forget();
    locks::forget();
    helper::forget();
    hand::forget();
    prezero::forget();
    io::forget();
}

fn match_globals(plan: &'static Plan) {
    for index in 0..plan.view.rules() {
        let rule = plan.view.rule(index);
        if rule.frames == 0
            && let Some(start) = call_path::address_of(rule.module as usize, rule.address)
        {
            begin_object(plan, start, rule.bytes as usize, index);
            if plan.prezeroes(index) {
                prezero::start(plan);
            }
        }
    }
}

/// An allocation was made that is wanted.
#[cold]
pub(crate) fn allocated(address: usize, bytes: usize, hook: Hook, inherited: Option<usize>) {
    if address == 0 {
        return;
    }
    with_plan(|plan| {
        let named = if plan.view.rules() > 0 {
            call_path::rule(plan, bytes)
        } else {
            None
        };
        let fresh = || prezero::is_fresh(plan, address, bytes, hook).then_some(FRESH);
        if let Some(rule) = named.or(inherited).or_else(fresh) {
            begin_object(plan, address, bytes, rule);
            if hook == Hook::Allocator && plan.needs_helper() {
                helper::start(plan);
            }
            if plan.prezeroes(rule) {
                prezero::start_for(plan, hook);
            }
        }
    });
}

/// Whether [`heap_grew`] wants to hear of a block that ends there.
#[inline(always)]
pub(crate) fn is_heap_grown(block_end: usize) -> bool {
    prezero::is_heap_grown(block_end)
}

/// The heap is large enough to be looked after. No allocator's lock is held.
#[cold]
pub(crate) fn heap_grew() {
    with_plan(prezero::start);
}

/// A block is about to be released; the rule it had.
#[inline(always)]
pub(crate) fn releasing(address: usize) -> Option<usize> {
    if objects::may_be_owned_by(address) {
        released(address)
    } else {
        None
    }
}

#[cold]
fn released(address: usize) -> Option<usize> {
    let mut rule = None;
    with_plan(|plan| {
        // The program may have cut pieces out of it.
        while let Some(object) = objects::remove_owned_by(address) {
            rule = Some(object.rule);
            locks::release(plan, &object);
        }
    });
    rule
}

/// A range is about to be unmapped, moved, locked or advised by the program itself: from here on it is its own. The rule
/// of an object that starts there.
#[inline(always)]
pub(crate) fn leaving(start: usize, bytes: usize, by_advice: bool) -> Option<usize> {
    if objects::is_any() {
        left(start, bytes, by_advice)
    } else {
        None
    }
}

#[cold]
fn left(start: usize, bytes: usize, by_advice: bool) -> Option<usize> {
    let mut rule = None;
    with_plan(|plan| rule = end_objects(plan, start, bytes, by_advice));
    rule
}

fn end_objects(plan: &Plan, start: usize, bytes: usize, by_advice: bool) -> Option<usize> {
    let mut rule = None;
    while let Some(object) = objects::remove_overlapping(start, bytes) {
        if object.start == start {
            rule = Some(object.rule);
        }
        if plan.prezeroes(object.rule) {
            // Allocators cut pieces off, and give pieces back.
            keep_rest(&object, start, bytes);
        } else if by_advice && object.rule != CALLS {
            plan.status.add_to_rule(object.rule, OfRule::TakenOver, 1);
        }
        locks::release(plan, &object);
    }
    rule
}

/// What is left of an object when a range of it is gone.
fn keep_rest(object: &Object, start: usize, bytes: usize) {
    let (end, object_end) = (start.saturating_add(bytes), object.start + object.bytes);
    for (from, to) in [(object.start, start), (end, object_end)] {
        let length = to.saturating_sub(from);
        if length >= prezero::LEAST_BYTES {
            objects::insert(Object {
                start: from,
                bytes: length,
                locked: 0,
                ..*object
            });
        }
    }
}

/// The program wants no huge pages there (`by_advice`), or something else is there now: nothing more is made ready.
pub(crate) fn not_fresh(start: usize, bytes: usize, by_advice: bool) {
    if objects::is_any() {
        with_plan(|plan| end_fresh(plan, start, bytes, by_advice));
    }
}

fn end_fresh(plan: &Plan, start: usize, bytes: usize, by_advice: bool) {
    let end = start.saturating_add(bytes);
    let is_meant = |object: &Object| {
        plan.prezeroes(object.rule) && object.start < end && start < object.start + object.bytes
    };
    while let Some(object) = objects::remove(is_meant) {
        if by_advice {
            plan.status.add_to_rule(object.rule, OfRule::TakenOver, 1);
        }
        keep_rest(&object, start, bytes);
    }
}

/// The program locks all its memory, or unlocks it: nothing of ours is left.
#[cold]
pub(crate) fn locked_all() {
    if THRESHOLD.swap(usize::MAX, Ordering::Relaxed) == usize::MAX {
        return;
    }
    with_plan(|plan| {
        plan.status.set(Total::LockedAll, 1);
        prezero::leave_heap(plan);
    });
    left(0, usize::MAX, true);
}

fn begin_object(plan: &'static Plan, address: usize, bytes: usize, index: usize) {
    let action = plan.action_of(index);
    let status = &plan.status;
    status.add_to_rule(index, OfRule::Objects, 1);
    status.add_to_rule(index, OfRule::Bytes, bytes as u64);
    // Released without our being told, and handed out again.
    end_objects(plan, address, bytes, false);
    let mut object = Object::new(address, bytes, index);
    match action {
        PlanAction::Nothing => return,
        PlanAction::Lock | PlanAction::Stream => {
            locks::lock(plan, &plan.view.rule(index), &mut object);
        }
        PlanAction::Huge | PlanAction::Prezero => advise_whole(plan, &object, system::HUGE),
        PlanAction::Sequential => advise_whole(plan, &object, system::SEQUENTIAL),
        PlanAction::Prefetch
        | PlanAction::Cold
        | PlanAction::IoReadahead
        | PlanAction::IoWillNeed
        | PlanAction::IoDrop
        | PlanAction::IoDontCache
        | PlanAction::IoNothing => {}
    }
    if index == FRESH && action == PlanAction::Huge {
        // Nothing follows.
        return;
    }
    if !objects::insert(object) {
        locks::release(plan, &object);
        status.add(Total::Unfollowed, 1);
    }
    if action == PlanAction::Prezero {
        prezero::wake();
    }
}

fn advise_whole(plan: &Plan, object: &Object, advice: i32) {
    let pages = object.pages();
    match system::advise(pages.start, pages.len(), advice) {
        Ok(()) => plan
            .status
            .add_to_rule(object.rule, OfRule::Advised, pages.len() as u64),
        Err(errno) => plan.status.refused(object.rule, errno),
    }
}

/// Outside of our own work, with the plan, in the process whose objects are known.
fn with_plan(body: impl FnOnce(&'static Plan)) {
    let Some(_entered) = Entered::enter() else {
        return;
    };
    let Some(plan) = loaded::plan() else {
        return;
    };
    interpose::keeping_errno(|| {
        if plan.is_forked() {
            forget_parents();
        }
        body(plan);
    });
}
