//! Rules about I/O in force: what the hooks of `read`, `write` and kin call before and after the program's own call.
//!
//! ```text
//!   hook -> before: paths: which rules? -> open_files: which file? -> hints before the call
//!        -> after:                          behind: what to drop?  -> hints after it; worth: did they help?
//! ```

mod behind;
mod descriptors;
mod dropping;
mod hints;
mod keeping;
mod open_files;
mod paths;
mod runs;
mod sending;
mod shared;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::plan::PlanReadahead;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_interpose as interpose;
use pagewise_interpose::Registers;
use pagewise_interpose::page_cache;

pub(crate) use self::descriptors::advised;
pub(crate) use self::descriptors::closing;
pub(crate) use self::descriptors::closing_all;
pub(crate) use self::descriptors::drops_itself;
pub(crate) use self::descriptors::duplicated;
pub(super) use self::descriptors::ending;
pub(crate) use self::descriptors::forking;
pub(crate) use self::descriptors::leaving_all;
pub(crate) use self::descriptors::replacing;
use self::hints::Cost;
use self::hints::Hinted;
use self::open_files::OpenFile;
pub(crate) use self::open_files::Own;
use self::open_files::Place;
use super::loaded::Plan;
use super::with_plan;
use crate::handover;

/// The rules about I/O, a bit each; without any, hooks pass calls on at once.
static RULES: AtomicU64 = AtomicU64::new(0);
/// Those that were withdrawn.
static WITHDRAWN: AtomicU64 = AtomicU64::new(0);

/// Those whose calls have left nothing in the page cache, as asked for, and how often that was refused.
static LEFT_NOTHING: AtomicU64 = AtomicU64::new(0);
static REFUSED: [AtomicU32; MOST_RULES] = [const { AtomicU32::new(0) }; MOST_RULES];
/// Refusals until such a rule ends.
const MOST_REFUSED: u32 = 8;

/// Whose descriptors are known: a child by `vfork` has its own ones, but shares our memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Where a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// At an offset that it states.
    Offset(u64),
    /// Where the descriptor is.
    Cursor,
    /// Where the C library's buffer is, which may be behind the descriptor.
    Buffer,
}

/// A call that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) descriptor: i32,
    pub(crate) at: At,
    /// Bytes asked for; 0: not known.
    pub(crate) bytes: u64,
    pub(crate) is_write: bool,
}

/// A call that a rule is about.
pub(crate) struct Call {
    request: Request,
    rule: usize,
    /// Where it begins, if it was looked up.
    offset: Option<u64>,
    /// Its run, if that is followed.
    run: Option<usize>,
    /// It shall leave nothing in the page cache.
    pub(crate) leaves_nothing: bool,
    /// When it began, ns, and what had been read from devices; `None`: not measured.
    began: Option<(u64, u64)>,
}

/// Whether there are rules about I/O.
#[inline(always)]
pub(crate) fn is_any() -> bool {
    RULES.load(Ordering::Relaxed) != 0
}

/// Finds the plan's rules about I/O.
pub(super) fn begin(plan: &Plan) {
    let is_io = |index: &usize| plan.view.action(&plan.view.rule(*index)).is_io();
    let rules = (0..plan.view.rules()).filter(is_io);
    PROCESS.store(interpose::process_id(), Ordering::Relaxed);
    RULES.store(
        rules.fold(0, |set, index| set | 1 << index),
        Ordering::Release,
    );
    if is_any() {
        // Whoever started the program has them, too.
        descriptors::share_all();
    }
}

/// The rules that the call path which begins here matches, a bit each.
pub(crate) fn matching(registers: Registers) -> u64 {
    let mut matching = 0;
    if is_any() {
        with_plan(|plan| {
            matching = paths::matching(plan, RULES.load(Ordering::Relaxed), registers)
        });
    }
    matching
}

/// A forked child has its own descriptors.
pub(super) fn forget() {
    PROCESS.store(interpose::process_id(), Ordering::Relaxed);
    paths::forget();
    dropping::forget();
    keeping::forget();
    open_files::forget();
}

/// The program is about to read or write. `None`: as it likes.
#[cold]
pub(crate) fn before(request: Request, registers: Registers) -> Option<Call> {
    let mut call = None;
    with_plan(|plan| call = begin_call(plan, request, registers));
    call
}

fn begin_call(plan: &Plan, request: Request, registers: Registers) -> Option<Call> {
    let rules = RULES.load(Ordering::Relaxed);
    let matching = match handover::rules() {
        Some(handed_over) => handed_over,
        None => paths::matching(plan, rules, registers),
    };
    if matching == 0 {
        leave(&request);
        return None;
    }
    let place = open_files::place(request.descriptor)?;
    let mut held = place.file.lock()?;
    open_files::look(plan, rules, request.descriptor, place, &mut held)?;
    let file = held.as_mut()?;
    let accepted = matching & file.accepted_by;
    // The longest path; of equals, the one that names its files.
    let rule = paths::bits(accepted).max_by_key(|&index| {
        let rule = plan.view.rule(index);
        (rule.frames, rule.pattern > 0)
    });
    let Some(index) = rule else {
        file.let_age();
        drop(held);
        leave(&request);
        return None;
    };
    let rule = plan.view.rule(index);
    if file.counted >> index & 1 == 0 {
        file.counted |= 1 << index;
        count_file(plan, index, &rule, file);
    }
    plan.status.add_to_io(index, OfIo::Calls, 1);
    let is_left_alone = !file.takes_hints
        || file.own == Own::All
        || is_withdrawn(index)
        || plan.view.action(&rule) == PlanAction::IoNothing;
    let mut call = Call {
        request,
        rule: index,
        offset: None,
        run: None,
        leaves_nothing: false,
        began: None,
    };
    if is_left_alone {
        file.let_age();
        place.is_moved.store(true, Ordering::Relaxed);
        take_back(request.descriptor, place);
        return Some(call);
    }
    let mut hinted = Hinted {
        plan,
        place,
        file,
        rule: index,
    };
    let is_same = hinted.before(&rule, &mut call).is_some();
    hinted.file.let_age();
    if !is_same {
        forget_file(plan, request.descriptor, place, &mut held);
    }
    Some(call)
}

/// The descriptor means another file than the one that was looked at, and told something.
fn forget_file(plan: &Plan, descriptor: i32, place: &Place, held: &mut Option<OpenFile>) {
    if held.take().is_some_and(|file| file.has_kept) {
        keeping::let_go_of(plan, descriptor);
    }
    place.told.store(0, Ordering::Relaxed);
}

fn count_file(plan: &Plan, index: usize, rule: &PlanRule, file: &OpenFile) {
    let action = plan.view.action(rule);
    if file.takes(action) {
        plan.status.add_to_io(index, OfIo::Files, 1);
        return;
    }
    plan.status.add_to_io(index, OfIo::Hintless, 1);
    if action == PlanAction::IoDrop && file.cache_errno != 0 {
        plan.status.refused_io(index, file.cache_errno);
    }
}

/// The program's call is over: it read or wrote so many bytes.
pub(crate) fn after(call: &Call, bytes: u64) {
    // Before anything else is done: that is not the call's time.
    let ended_ns = call.began.map(|_| interpose::now_ns());
    with_plan(|plan| {
        end_call(plan, call, bytes, ended_ns);
    });
}

fn end_call(plan: &Plan, call: &Call, bytes: u64, ended_ns: Option<u64>) -> Option<()> {
    plan.status.add_to_io(call.rule, OfIo::Bytes, bytes);
    if call.leaves_nothing
        && bytes > 0
        && LEFT_NOTHING.load(Ordering::Relaxed) >> call.rule & 1 == 0
    {
        LEFT_NOTHING.fetch_or(1 << call.rule, Ordering::Relaxed);
    }
    let place = open_files::known(call.request.descriptor)?;
    let mut held = place.file.lock()?;
    let file = held.as_mut()?;
    let cost = call
        .began
        .zip(ended_ns)
        .map(|((began_ns, device), ended_ns)| Cost {
            ns: ended_ns - began_ns,
            device_bytes: page_cache::device_bytes().saturating_sub(device),
        });
    if let Some(cost) = cost {
        hints::note_cost(plan, call.rule, cost, bytes);
    }
    if call.request.at == At::Cursor
        && !call.request.is_write
        && let Some(offset) = call.offset
    {
        file.left_at(offset.saturating_add(bytes));
    }
    let rule = plan.view.rule(call.rule);
    let is_same = Hinted {
        plan,
        place,
        file,
        rule: call.rule,
    }
    .after(&rule, call, bytes, cost);
    if is_same.is_none() {
        forget_file(plan, call.request.descriptor, place, &mut held);
    } else if shared::is(call.request.descriptor) {
        take_back(call.request.descriptor, place);
    }
    Some(())
}

/// The kernel does not do without the page cache here: this file is left alone. Where no other one of the rule takes it either, the
/// kernel does not have it at all, and the rule ends.
#[cold]
pub(crate) fn cannot_leave_nothing(call: &mut Call, errno: i32) {
    call.leaves_nothing = false;
    with_plan(|plan| {
        plan.status.refused_io(call.rule, errno);
        if let Some(place) = open_files::known(call.request.descriptor)
            && let Some(mut held) = place.file.lock()
            && let Some(file) = held.as_mut()
            && !file.always_leaves
        {
            file.always_leaves = true;
            plan.status.add_to_io(call.rule, OfIo::Hintless, 1);
        }
        let refused = REFUSED[call.rule].fetch_add(1, Ordering::Relaxed) + 1;
        let has_worked = LEFT_NOTHING.load(Ordering::Relaxed) >> call.rule & 1 == 1;
        if refused >= MOST_REFUSED && !has_worked {
            withdraw(plan, call.rule, WhyWithdrawn::Unsupported);
        }
    });
}

/// The program says what is locked itself, or wants to lock more than it may beside what is kept of files. False: nothing was.
pub(super) fn let_go_of_files(plan: &Plan) -> bool {
    is_any() && keeping::let_go_of_all(plan)
}

fn is_withdrawn(rule: usize) -> bool {
    WITHDRAWN.load(Ordering::Relaxed) >> rule & 1 == 1
}

fn withdraw(plan: &Plan, rule: usize, why: WhyWithdrawn) {
    WITHDRAWN.fetch_or(1 << rule, Ordering::Relaxed);
    plan.status.set_of_io(rule, OfIo::Withdrawn, why as u64);
}

/// A call that no rule is about uses a descriptor: what was told of its file is not meant for it.
fn give_back(descriptor: i32) {
    if let Some(place) = open_files::known(descriptor)
        && place.told.load(Ordering::Relaxed) != 0
        && let Some(held) = place.file.lock()
        && held.as_ref().is_some_and(|file| file.is_still(descriptor))
    {
        take_back(descriptor, place);
    }
}

/// A call that is not followed uses a descriptor, and may move it.
fn leave(request: &Request) {
    if !matches!(request.at, At::Offset(_)) {
        seeking(request.descriptor);
    }
    give_back(request.descriptor);
}

/// The program moves a descriptor.
#[inline(always)]
pub(crate) fn seeking(descriptor: i32) {
    if is_any()
        && let Some(place) = open_files::known(descriptor)
    {
        place.is_moved.store(true, Ordering::Relaxed);
    }
}

/// The kernel reads ahead as it does without us. The place is held.
fn take_back(descriptor: i32, place: &Place) {
    if place.told.swap(0, Ordering::Relaxed) != 0 {
        // Whatever comes of it, it was the least that could be told.
        let _ = page_cache::advise(descriptor, 0..0, page_cache::NORMAL);
    }
}

fn advice(mode: PlanReadahead) -> i32 {
    match mode {
        PlanReadahead::Normal => page_cache::NORMAL,
        PlanReadahead::Sequential => page_cache::SEQUENTIAL,
        PlanReadahead::Random => page_cache::RANDOM,
    }
}
