//! A plan put into force: what the hooks call. Without a plan each costs a load and a comparison.
//!
//! ```text
//!   hook -> call_path: which rule? -> objects: who lives where -> locks: keep it
//!                                          ^         |      (resize: it grows; later: not in the program's own time)
//!                                          '---------'
//!                                      helper thread: sweep -> reads ahead, drops behind
//! ```

mod aside;
mod beside;
mod bursts;
mod call_path;
pub(crate) mod calls;
mod elsewhere;
mod follower;
mod followers;
mod gain;
mod globals;
mod growth;
mod hand;
mod headway;
mod heap;
mod helper;
pub(crate) mod io;
mod later;
mod loaded;
mod locks;
mod object;
mod objects;
mod owners;
mod pace;
mod passed;
mod prezero;
mod probes;
mod quiet;
mod recorded;
mod regret;
mod resize;
mod rest;
mod sizes;
mod status;
mod sweep;
mod thread_heaps;
mod trial;
mod watch;

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
use pagewise_interpose::processors::Whereabouts;
use pagewise_interpose::system;

use self::calls::Asked;
use self::loaded::Plan;
use self::object::Object;
use self::object::PAGE;
use self::resize::Kept;

/// Larger blocks are objects of their own, whatever lies beside them: each is mostly swept by itself.
const LEAST_ALONE: usize = 16 << 20;
/// The C library's words before a block.
const HEADER: usize = 16;

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
    /// The same, of memory that others may have, too, and of no disk's file.
    SharedMemory,
    /// The same, of memory that is not just memory: a stack, huge pages that were asked for, or not to be written.
    SpecialMapping,
}

/// Why a range is no longer what it was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The program locks, unlocks or advises it itself: from here on it is its own.
    Advised,
    /// It is unmapped. What is left of an object beside it is that object still.
    Unmapped,
    /// It moves, or something else is there now.
    Moved,
    /// The program has locked or unlocked it by a call about all its memory: our locks are its own now, or none.
    AllTheirs,
}

impl Leaving {
    fn is_by_their_word(self) -> bool {
        matches!(self, Self::Advised | Self::AllTheirs)
    }
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
        if plan.needs_helper() || plan.is_held_against_recording() {
            Whereabouts::prepare();
        }
        locks::begin(plan);
        call_path::look_at_modules(plan);
        if plan.has_memory_rules() || plan.needs_prezero() {
            prezero::look_at_allocator();
        }
        if plan.needs_prezero() {
            prezero::begin(plan);
        }
        heap::begin(plan);
        match_globals(plan, |rule| {
            if plan.prezeroes(rule) {
                prezero::start(plan);
            }
        });
        if plan.needs_helper() && call_path::is_any_rule_here(plan) {
            helper::start(plan);
        }
        headway::watch(plan);
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
    with_plan(locks::end);
}

extern "C" fn before_fork() {
    io::forking();
}

extern "C" fn in_child() {
    let Some(_entered) = Entered::enter() else {
        forget_parents();
        return;
    };
    interpose::keeping_errno(|| {
        let Some(plan) = loaded::plan() else {
            return;
        };
        // Another handler's memory may have been asked about before.
        if !plan.note_fork() {
            return;
        }
        // The heap and globals are looked at anew.
        let is_swept = |object: &Object| {
            let is_ours = object.rule != CALLS && !object.of_heap;
            is_ours && plan.reads_ahead(object.rule) && !plan.view.rule(object.rule).is_of_global()
        };
        let swept = objects::keep_in_child(is_swept);
        forget_but_objects();
        if swept == 0 {
            return;
        }
        helper::note_parent();
        // What has not swapped yet waits for the child's next large allocation.
        if !crate::sandbox::is_in() && system::has_swapped() == Some(true) {
            helper::start_for(plan, Hook::Mapping);
        }
    });
}

/// A forked child that was made without handlers, or out of our own work, has none of its parent's objects, locks and threads.
fn forget_parents() {
    objects::forget();
    forget_but_objects();
}

fn forget_but_objects() {
    interpose::forget_threads();
    interpose::unwind::after_fork();
    globals::forget();
    heap::forget();
    locks::forget();
    helper::forget();
    headway::forget();
    hand::forget();
    later::forget();
    prezero::forget();
    io::forget();
}

/// Begins those that are here now and were not before; `began` is told the rule of each.
fn match_globals(plan: &'static Plan, began: impl Fn(usize)) {
    globals::look(plan, |change| {
        let went = |object: &Object| object.start == change.before && object.rule == change.rule;
        if change.before != 0
            && let Some(object) = objects::remove(went)
        {
            // Unmapped by the linker, and its locks with it.
            locks::account_for_less(plan, object.rule, object.locked);
        }
        if change.now != 0 {
            let object = Object::new(change.now, change.bytes, change.rule);
            begin_object(plan, object, change.bytes);
            began(change.rule);
        }
    });
}

/// An allocation was made that is wanted.
#[cold]
pub(crate) fn allocated(address: usize, bytes: usize, hook: Hook, inherited: Option<Inherited>) {
    if address == 0 {
        return;
    }
    with_plan(|plan| {
        let named = if plan.view.rules() > 0 {
            let named = call_path::rule(plan, bytes);
            match_globals(plan, |rule| {
                if plan.prezeroes(rule) {
                    prezero::start_for(plan, hook);
                }
                if plan.needs_helper() {
                    helper::start_for(plan, hook);
                }
            });
            named
        } else {
            None
        };
        let fresh = || prezero::is_fresh(plan, address, bytes, hook).then_some(FRESH);
        let inherited = inherited.unwrap_or_default();
        // Those that it has from its parent.
        if plan.needs_helper() && objects::is_any() {
            helper::start_for(plan, hook);
        }
        if let Some(rule) = named.or(inherited.rule).or_else(fresh) {
            let mut object = object_of(plan, (address, bytes), rule, hook);
            object.is_shared = hook == Hook::SharedMemory || inherited.is_shared;
            if inherited.rule == Some(rule) {
                resume_object(plan, object, &inherited, hook);
            } else {
                if let Some(kept) = inherited.kept {
                    resize::let_go(plan, &kept, &object);
                }
                // Those that are resized, and may be again, keep their locks alone.
                object.may_be_joined = bytes < LEAST_ALONE && plan.joins(rule);
                begin_object(plan, object, bytes);
            }
            if plan.needs_helper() {
                helper::start_for(plan, hook);
            }
            if plan.are_pieces(rule) {
                prezero::start_for(plan, hook);
            }
        }
        headway::watch_for(plan, hook);
        // Last, as the program's own word wins.
        for asked in inherited.asked.into_iter().flatten() {
            calls::renew(plan, address, bytes, asked);
        }
    });
}

/// Ranges of a block that the program spoke of itself, of which the block takes along so many when it is resized.
const MOST_ASKED: usize = 8;

/// What a block or mapping hands on to what it becomes when it is resized or moved.
#[derive(Clone, Copy, Default)]
pub(crate) struct Inherited {
    rule: Option<usize>,
    /// Of the rule's object.
    bytes: usize,
    is_shared: bool,
    /// Of the rule's objects, how much was made before; `None`: it is not known.
    before: Option<u64>,
    /// It is still there, with its locks.
    kept: Option<Kept>,
    asked: [Option<Asked>; MOST_ASKED],
}

impl Inherited {
    /// From an object of a block that starts there.
    fn note(&mut self, object: &Object, block: usize) {
        if object.rule != CALLS {
            self.rule = Some(object.rule);
            self.bytes += object.bytes;
            self.is_shared |= object.is_shared;
            // Of pieces, the first.
            let before = self.before.unwrap_or(u64::MAX);
            self.before = Some(object.before.min(before));
        } else if let Some(free) = self.asked.iter_mut().find(|asked| asked.is_none()) {
            *free = Some(Asked::of(object, block));
        }
    }

    /// Whether locks of ours go where the memory goes.
    pub(crate) fn has_locks(&self) -> bool {
        self.kept.is_some()
    }

    fn if_any(self) -> Option<Self> {
        (self.rule.is_some() || self.asked[0].is_some()).then_some(self)
    }
}

/// Whether [`heap_grew`] wants to hear of a block that ends there.
#[inline(always)]
pub(crate) fn is_heap_grown(block_end: usize) -> bool {
    heap::is_grown(block_end)
}

/// Whether [`thread_heap_grew`] wants to hear of a block of the allocator's that was just made.
#[inline(always)]
pub(crate) fn is_thread_heap_grown(block: usize, bytes: usize) -> bool {
    thread_heaps::is_grown(block, bytes)
}

/// The heap of a thread has grown, in which this block lies. No allocator's lock is held.
#[cold]
pub(crate) fn thread_heap_grew(block: usize) {
    with_plan(|plan| {
        heap::follow_thread(plan, block);
        headway::watch(plan);
    });
}

/// The heap is large enough to be looked after. No allocator's lock is held.
#[cold]
pub(crate) fn heap_grew() {
    with_plan(|plan| {
        if plan.view.fresh().is_some() {
            prezero::start(plan);
        }
        heap::follow(plan);
        headway::watch(plan);
    });
}

/// A block is about to be made one of `new_bytes`; what it hands on. Locks on it go on where they can.
#[inline(always)]
pub(crate) fn resizing(
    address: usize,
    new_bytes: usize,
    bytes: impl FnOnce() -> usize,
) -> Option<Inherited> {
    if owners::may_own(address)
        && let Some(kept) = keep(|plan| resize::keep_block(plan, address, new_bytes))
    {
        return Some(kept);
    }
    releasing(address, bytes)
}

/// A mapping is about to be made one of `new_bytes`, at its place or where the kernel likes; what it hands on. Locks on it go on
/// where they can.
#[inline(always)]
pub(crate) fn remapping(start: usize, bytes: usize, new_bytes: usize) -> Option<Inherited> {
    if owners::may_own(start)
        && let Some(kept) = keep(|plan| resize::keep_mapping(plan, start, bytes, new_bytes))
    {
        return Some(kept);
    }
    leaving(start, bytes, Leaving::Moved)
}

#[cold]
fn keep(look: impl FnOnce(&Plan) -> Option<Inherited>) -> Option<Inherited> {
    let mut kept = None;
    with_plan(|plan| kept = look(plan));
    kept
}

/// The kernel would not resize a mapping with locks of ours: they end.
#[cold]
pub(crate) fn let_go(start: usize, bytes: usize, inherited: &mut Inherited) {
    with_plan(|plan| {
        if let Some(kept) = inherited.kept.take() {
            let object = Object::new(start, bytes, CALLS);
            resize::let_go(plan, &kept, &object);
        }
    });
}

/// A block of so many bytes, which are asked for only if they matter, is about to be released; what it hands on.
#[inline(always)]
pub(crate) fn releasing(address: usize, bytes: impl FnOnce() -> usize) -> Option<Inherited> {
    let bytes = match objects::is_any_called() || owners::may_be_block(address) {
        true => bytes(),
        false => 0,
    };
    // Of less than a page nothing is kept.
    if owners::may_own(address) || bytes >= PAGE {
        released(address, bytes)
    } else {
        None
    }
}

#[cold]
fn released(address: usize, bytes: usize) -> Option<Inherited> {
    let mut inherited = Inherited::default();
    with_plan(|plan| {
        // The program may have cut pieces out of it, or have spoken of parts of it.
        let next = || {
            let piece = objects::remove_owned_by(address);
            piece.or_else(|| objects::remove_called_in(address, bytes))
        };
        while let Some(object) = next() {
            inherited.note(&object, address);
            locks::release(plan, &object);
            heap::take_back(plan, object.start, object.bytes);
        }
        if bytes >= PLAN_THRESHOLD && owners::may_be_block(address) && !heap::has(address) {
            end_block(plan, address, bytes, &mut inherited);
        }
    });
    inherited.if_any()
}

/// A block of a joined object is released, if it is one: what lies beside is that object still.
fn end_block(plan: &'static Plan, address: usize, bytes: usize, inherited: &mut Inherited) {
    // Its words go with it.
    let start = address.saturating_sub(HEADER);
    if let Some(cut) = locks::cut(plan, start, bytes + HEADER, true) {
        owners::remove_block(address);
        inherited.rule = Some(cut.rule);
        inherited.bytes += bytes;
        heap::take_back(plan, start, bytes + HEADER);
    }
}

/// A range is about to be unmapped, moved, locked or advised by the program itself. What it hands on if it is moved.
#[inline(always)]
pub(crate) fn leaving(start: usize, bytes: usize, leaving: Leaving) -> Option<Inherited> {
    if objects::is_any() {
        left(start, bytes, leaving)
    } else {
        None
    }
}

#[cold]
fn left(start: usize, bytes: usize, leaving: Leaving) -> Option<Inherited> {
    let mut inherited = Inherited::default();
    with_plan(|plan| inherited = end_objects(plan, start, bytes, leaving));
    inherited.if_any()
}

fn end_objects(plan: &Plan, start: usize, bytes: usize, leaving: Leaving) -> Inherited {
    let mut inherited = Inherited::default();
    objects::end_kept_by_parent(start, bytes);
    while let Some(cut) = locks::cut(plan, start, bytes, leaving != Leaving::AllTheirs) {
        inherited.rule = Some(cut.rule);
        inherited.bytes += cut.bytes;
        if leaving.is_by_their_word() {
            plan.status.add_to_rule(cut.rule, OfRule::TakenOver, 1);
        }
    }
    while let Some(object) = objects::remove_overlapping(start, bytes) {
        if object.start == start
            || object.owner == start
            || object.rule == CALLS && object.start > start
        {
            inherited.note(&object, start);
        }
        if plan.are_pieces(object.rule) {
            // Allocators cut pieces off, and give pieces back.
            keep_rest(&object, start, bytes);
        } else if leaving == Leaving::Unmapped {
            trim(plan, &object, start, bytes);
            continue;
        } else if leaving.is_by_their_word() && object.rule != CALLS {
            plan.status.add_to_rule(object.rule, OfRule::TakenOver, 1);
        }
        match leaving {
            Leaving::AllTheirs => locks::hand_over(plan, &object),
            _ => locks::release(plan, &object),
        }
    }
    inherited
}

/// A range is unmapped that an object has a part in: who wants aligned memory maps more and cuts its edges off. What is left
/// stays as it is, with its locks.
fn trim(plan: &Plan, object: &Object, start: usize, bytes: usize) {
    let end = start.saturating_add(bytes).checked_next_multiple_of(PAGE);
    let end = end.unwrap_or(usize::MAX / PAGE * PAGE);
    let object_end = object.start + object.bytes;
    let rule = (object.rule != CALLS).then(|| plan.view.rule(object.rule));
    let ranged = rule.filter(|rule| rule.ranges > 0);
    let mut stays_locked = 0;
    if ranged.is_some() {
        // Its ranges are counted from its start: anew.
        locks::release(plan, object);
    }
    for (from, to) in [(object.start, start), (end, object_end)] {
        let mut rest = Object {
            start: from,
            bytes: to.saturating_sub(from),
            owner: from,
            locked: 0,
            beyond: 0,
            kept_by_parent: object.kept_before(from),
            before: object.before.saturating_add((from - object.start) as u64),
            ..*object
        };
        if rest.pages().is_empty() {
            continue;
        }
        match &ranged {
            Some(rule) => locks::lock(plan, rule, &mut rest),
            None => {
                rest.locked = object.locked_in(&rest.pages()) as u64;
                locks::resume_piece(plan, &mut rest);
            }
        }
        stays_locked += rest.locked;
        if !objects::insert(rest) {
            locks::release(plan, &rest);
            plan.status.add(Total::Unfollowed, 1);
        }
    }
    if ranged.is_none() {
        locks::forget_beyond(object);
        locks::account_for_less(plan, object.rule, object.locked - stays_locked);
    }
}

/// The program may not lock so much more, as too much is locked: what is ours gives way. False: none of it is.
#[cold]
pub(crate) fn give_way(bytes: usize) -> bool {
    let mut did = false;
    if objects::is_any() {
        with_plan(|plan| did = locks::give_way(plan, bytes));
    }
    did
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
                beyond: 0,
                kept_by_parent: object.kept_before(from),
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

/// The program wants huge pages there, also when memory gets short.
pub(crate) fn asked_for_huge(start: usize, bytes: usize) {
    if objects::is_any() {
        with_plan(|plan| {
            if plan.view.fresh() == Some(PlanAction::Huge) {
                end_fresh(plan, start, bytes, true);
            }
        });
    }
}

fn end_fresh(plan: &Plan, start: usize, bytes: usize, by_advice: bool) {
    let end = start.saturating_add(bytes);
    let is_meant = |object: &Object| {
        plan.are_pieces(object.rule) && object.start < end && start < object.start + object.bytes
    };
    while let Some(object) = objects::remove(is_meant) {
        if by_advice {
            plan.status.add_to_rule(object.rule, OfRule::TakenOver, 1);
        }
        keep_rest(&object, start, bytes);
    }
}

/// The program has locked all its memory, or unlocked it: nothing of ours is left. `leaving`: what has become of our locks.
#[cold]
pub(crate) fn locked_all(leaving: Leaving) {
    if io::is_any() {
        with_plan(|plan| _ = io::let_go_of_files(plan));
    }
    if THRESHOLD.swap(usize::MAX, Ordering::Relaxed) == usize::MAX {
        return;
    }
    with_plan(|plan| {
        plan.status.set(Total::LockedAll, 1);
        prezero::leave_heap(plan);
        heap::leave();
    });
    left(0, usize::MAX, leaving);
}

/// What a rule is about. A large block of the C library is a mapping of its own, locked with the words before it: as one, the
/// kernel moves it when it grows.
fn object_of(plan: &Plan, (address, bytes): (usize, usize), rule: usize, hook: Hook) -> Object {
    let is_block = hook == Hook::Allocator && plan.keeps_whole(rule);
    match is_block.then(|| resize::mapping_of(address)).flatten() {
        Some((start, mapped)) => Object {
            owner: address,
            ..Object::new(start, mapped, rule)
        },
        None => Object::new(address, bytes, rule),
    }
}

/// One that was made, of so many bytes.
fn begin_object(plan: &'static Plan, mut object: Object, bytes: usize) {
    let status = &plan.status;
    status.add_to_rule(object.rule, OfRule::Objects, 1);
    status.add_to_rule(object.rule, OfRule::Bytes, bytes as u64);
    // Released without our being told, and handed out again.
    end_objects(plan, object.start, object.bytes, Leaving::Moved);
    locks::note_made(plan, &mut object, bytes, call_path::has_seen_all());
    act_on(plan, &mut object);
    follow(plan, object);
}

/// One that was resized, or was not after all.
fn resume_object(plan: &'static Plan, mut object: Object, inherited: &Inherited, hook: Hook) {
    object.before = inherited.before.unwrap_or(u64::MAX);
    let grown = object.bytes.saturating_sub(inherited.bytes) as u64;
    plan.status.add_to_rule(object.rule, OfRule::Bytes, grown);
    let kept = inherited.kept;
    let is_settled = kept.is_some_and(|kept| resize::settle(plan, &kept, &mut object));
    end_objects(plan, object.start, object.bytes, Leaving::Moved);
    let may_wait = plan.locks(object.rule) && !is_settled;
    let has_time = may_wait && later::put_off(plan, &mut object, hook);
    if !is_settled && !has_time {
        act_on(plan, &mut object);
    }
    follow(plan, object);
    if object.due_ns > 0 {
        later::wake(plan, hook);
    }
}

/// What the rule says is to be done at once.
fn act_on(plan: &Plan, object: &mut Object) {
    match plan.action_of(object.rule) {
        PlanAction::Lock | PlanAction::Stream => {
            locks::lock(plan, &plan.view.rule(object.rule), object);
        }
        PlanAction::Huge | PlanAction::Prezero if object.rule == FRESH => {
            let is_short = plan.is_short(interpose::now_ns());
            advise_whole(plan, object, prezero::advice(is_short));
        }
        PlanAction::Huge | PlanAction::Prezero => advise_whole(plan, object, system::HUGE),
        PlanAction::Sequential => advise_whole(plan, object, system::SEQUENTIAL),
        PlanAction::Prefetch
        | PlanAction::Cold
        | PlanAction::Nothing
        | PlanAction::IoReadahead
        | PlanAction::IoWillNeed
        | PlanAction::IoDrop
        | PlanAction::IoDontCache
        | PlanAction::IoKeep
        | PlanAction::IoNothing => {}
    }
}

/// From here on it is known.
fn follow(plan: &Plan, object: Object) {
    let action = plan.action_of(object.rule);
    if action == PlanAction::Nothing {
        return;
    }
    // There may be thousands of them, of which a few are hot.
    let is_untouched = object.locked == 0 && object.beyond == 0 && object.due_ns == 0;
    if is_untouched && plan.is_together(object.rule) {
        return;
    }
    if objects::join(object, |both, between| {
        locks::lock_between(plan, both, between)
    }) {
        return;
    }
    if !objects::insert(object) {
        locks::release(plan, &object);
        // Of what is only advised nothing is missed but when memory gets short.
        let is_advised = object.rule == FRESH && action == PlanAction::Huge;
        plan.status.add(Total::Unfollowed, u64::from(!is_advised));
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
        if plan.note_fork() {
            forget_parents();
        }
        body(plan);
    });
}
