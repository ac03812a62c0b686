//! Locks within a budget: never all of the memory, never more than the user may.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Spin;
use pagewise_interpose::system;

use super::io;
use super::loaded::Plan;
use super::object::Object;
use super::object::PAGE;
use super::objects;
use super::objects::Cut;
use super::rest;

/// Of the limit, this share stays free of locks,
const FREE_SHARE: u64 = 8;
/// and so many bytes at least.
const FREE_AT_LEAST: u64 = 6 << 20;
/// Locked or unlocked again at once, about a millisecond.
const AT_ONCE: usize = 4 << 20;
/// After a refusal, half is tried, down to so many bytes.
const LEAST: usize = 1 << 20;

/// What all processes together may lock, bytes.
static BUDGET: AtomicU64 = AtomicU64::new(0);
/// Held while a thread takes of the budget: two at once would both find the same rest.
static TAKING: Spin<()> = Spin::new(());
/// What this process keeps by each rule, bytes.
static KEPT: [AtomicU64; MOST_RULES] = [const { AtomicU64::new(0) }; MOST_RULES];

/// What this process has made of objects of each rule whose ranges are of all of them together, bytes.
static MADE: [AtomicU64; MOST_RULES] = [const { AtomicU64::new(0) }; MOST_RULES];

/// What the budget does not hold of this process's objects of each rule, bytes.
static BEYOND: [AtomicU64; MOST_RULES] = [const { AtomicU64::new(0) }; MOST_RULES];

/// What must stay free of a limit, bytes.
pub(super) fn reserve(limit: u64) -> u64 {
    (limit / FREE_SHARE).max(FREE_AT_LEAST)
}

/// The limit, or where none is known, the machine's memory, bytes; `None`: not even that is known.
pub(super) fn memory_bytes(plan: &Plan) -> Option<u64> {
    match plan.view.sizes().limit_bytes {
        0 => system::memory_bytes(),
        limit => Some(limit),
    }
}

/// Finds the budget.
pub(super) fn begin(plan: &Plan) {
    let sizes = plan.view.sizes();
    let memory = memory_bytes(plan);
    let mut budget = memory.map_or(u64::MAX, |bytes| bytes.saturating_sub(reserve(bytes)));
    if sizes.lock_bytes > 0 {
        budget = budget.min(sizes.lock_bytes);
    }
    if let Some(most) = system::lockable_bytes().filter(|&most| most <= budget) {
        budget = most;
        plan.status.set(Total::LimitedByRlimit, 1);
    }
    plan.status.set(Total::LockBudget, budget);
    BUDGET.store(budget, Ordering::Relaxed);
    forget();
    // What an earlier program of this process had locked went with it.
    let own = u64::from(interpose::process_id());
    for (process, bytes) in plan.status.processes() {
        if process.load(Ordering::Relaxed) == own {
            bytes.store(0, Ordering::Relaxed);
        }
    }
}

/// Nothing is locked: in a forked child, and in a new program.
pub(super) fn forget() {
    TAKING.break_open();
    rest::forget();
    for bytes in KEPT.iter().chain(&BEYOND) {
        bytes.store(0, Ordering::Relaxed);
    }
}

/// Says which of its rule's objects a new one of so many bytes is, where its ranges are of all of them together. `is_known`: all that were made
/// so far were looked at.
pub(super) fn note_made(plan: &Plan, object: &mut Object, bytes: usize, is_known: bool) {
    if plan.is_together(object.rule) {
        let before = MADE[object.rule].fetch_add(bytes as u64, Ordering::Relaxed);
        object.before = if is_known { before } else { u64::MAX };
    }
}

/// Locks what the rule says of an object, as far as the budget goes. All objects of a rule together keep what it says; calls of
/// the program's own each what they ask for.
pub(super) fn lock(plan: &Plan, rule: &PlanRule, object: &mut Object) {
    let pages = object.pages();
    let kept = match object.rule {
        CALLS => 0,
        rule => KEPT[rule].load(Ordering::Relaxed),
    };
    let mut left = match rule.keep_bytes {
        0 => pages.len(),
        keep => (keep.saturating_sub(kept) as usize).min(pages.len()),
    };
    let whole = (rule.ranges == 0).then_some((0, object.bytes as u64));
    for (start, end) in plan.view.ranges(rule).chain(whole) {
        let before = match rule.together {
            0 => 0,
            _ => object.before,
        };
        let at = |offset: u64| {
            let offset = offset.saturating_sub(before) as usize;
            object.start.saturating_add(offset)
        };
        let start = (at(start) / PAGE * PAGE).max(pages.start);
        let end = at(end)
            .checked_next_multiple_of(PAGE)
            .unwrap_or(0)
            .min(pages.end);
        let wanted = end.saturating_sub(start).min(left / PAGE * PAGE);
        if wanted == 0 {
            continue;
        }
        let locked = lock_range(plan, object, start, wanted, wanted);
        object.locked += locked as u64;
        KEPT[object.rule].fetch_add(locked as u64, Ordering::Relaxed);
        left -= locked;
        if locked < wanted {
            return;
        }
    }
}

/// What this process keeps by a rule, bytes.
pub(super) fn kept_bytes(rule: usize) -> u64 {
    KEPT[rule].load(Ordering::Relaxed)
}

/// All locks by a rule end; its objects live on.
pub(super) fn end_all_of(plan: &Plan, rule: usize) {
    let is_meant = |object: &Object| object.rule == rule;
    while objects::give_up_lock(is_meant, |object| end_locks(plan, object)).is_some() {}
}

/// Locks a piece of an object that is locked from its start on, or all of what is hot of it. Of what the budget does not hold, `news` bytes at most are
/// counted. True: it is locked as far as may be.
pub(super) fn lock_piece(plan: &Plan, object: &mut Object, news: usize) -> bool {
    let rule = plan.view.rule(object.rule);
    if rule.ranges == 0 {
        return extend(plan, &rule, object, (AT_ONCE, news));
    }
    lock(plan, &rule, object);
    true
}

/// Locks more of an object that is locked from its start on, so many bytes `at_once`. Of what the budget does not hold, `news`
/// bytes at most are counted. True: it is locked as far as may be.
pub(super) fn extend(
    plan: &Plan,
    rule: &PlanRule,
    object: &mut Object,
    (at_once, news): (usize, usize),
) -> bool {
    let pages = object.pages();
    let locked = object.locked as usize;
    let may_be_kept = match rule.keep_bytes {
        0 => usize::MAX,
        keep => keep.saturating_sub(KEPT[object.rule].load(Ordering::Relaxed)) as usize,
    };
    let rest = pages.len().saturating_sub(locked).min(may_be_kept) / PAGE * PAGE;
    let wanted = rest.min(at_once);
    // Of what is beyond the budget now, all that follows is, too.
    let news = news.min(rest);
    let more = lock_behind(plan, object, wanted, news);
    more < wanted || more == rest
}

/// Locks a range behind what is locked of an object from its start on, and returns how many bytes; see [`lock_range`].
fn lock_behind(plan: &Plan, object: &mut Object, wanted: usize, news: usize) -> usize {
    let start = object.pages().start + object.locked as usize;
    let more = lock_range(plan, object, start, wanted, news);
    object.locked += more as u64;
    KEPT[object.rule].fetch_add(more as u64, Ordering::Relaxed);
    more
}

/// Locks so many bytes more of the object of this number, behind what is locked of it, a part at a time, whatever its rule says is to be
/// kept; less where the budget does not hold that, or the kernel refuses. The object as it is then; `None`: it has ended.
pub(super) fn keep_more(plan: &Plan, number: usize, bytes: usize) -> Option<Object> {
    in_steps(number, bytes, |object, step| {
        let rest = object.pages().len().saturating_sub(object.locked as usize);
        lock_behind(plan, object, step.min(rest), 0)
    })
}

/// Gives so much of that back.
pub(super) fn keep_less(plan: &Plan, number: usize, bytes: usize) -> Option<Object> {
    in_steps(number, bytes, |object, step| {
        let step = step.min(object.locked as usize);
        object.locked -= step as u64;
        let end = object.pages().start + object.locked as usize;
        let _ = system::unlock(end, step);
        account_for_less(plan, object.rule, step as u64);
        step
    })
}

/// Does something to so many bytes of an object, some at a time, as the program's allocations wait meanwhile, until it is done or does
/// less than it should.
fn in_steps(
    number: usize,
    bytes: usize,
    mut work: impl FnMut(&mut Object, usize) -> usize,
) -> Option<Object> {
    let (mut left, mut seen) = (bytes, None);
    while left > 0 {
        let step = left.min(AT_ONCE);
        let mut done = 0;
        let is_alive = objects::change(number, |object| {
            // One that is being locked, or rests, or is made of blocks that come and go, is another's work.
            if object.due_ns == 0 && !object.lock_rests && !object.is_joined() {
                done = work(object, step);
            }
            seen = Some(*object);
        });
        if !is_alive {
            return None;
        }
        if done < step {
            break;
        }
        left -= step;
    }
    seen
}

/// How much more all rules together may lock, bytes.
pub(super) fn left(plan: &Plan) -> u64 {
    budget().saturating_sub(taken(plan))
}

/// Locks what lies between two parts of an object that are locked as wholes, whole pages: all of it, or nothing.
pub(super) fn lock_between(plan: &Plan, object: &mut Object, between: Range<usize>) -> bool {
    let keep = plan.view.rule(object.rule).keep_bytes;
    let kept = KEPT[object.rule].load(Ordering::Relaxed);
    if keep > 0 && kept.saturating_add(between.len() as u64) > keep {
        return false;
    }
    let locked = lock_range(plan, object, between.start, between.len(), 0);
    KEPT[object.rule].fetch_add(locked as u64, Ordering::Relaxed);
    if locked < between.len() {
        let _ = system::unlock(between.start, between.len());
        account_for_less(plan, object.rule, locked as u64);
        return false;
    }
    object.locked += locked as u64;
    true
}

/// What all rules together may lock, bytes.
pub(super) fn budget() -> u64 {
    BUDGET.load(Ordering::Relaxed)
}

/// Takes so much of the budget for a rule, all of it or nothing; what is locked then is noted by [`note_taken`], and given back by
/// [`account_for_less`].
pub(super) fn take_whole(plan: &Plan, rule: &PlanRule, index: usize, bytes: usize) -> bool {
    let kept = KEPT[index].load(Ordering::Relaxed);
    if rule.keep_bytes > 0 && kept.saturating_add(bytes as u64) > rule.keep_bytes {
        return false;
    }
    let taken = take(plan, bytes);
    if taken < bytes {
        give_back(plan, taken);
    }
    taken == bytes
}

/// So much that was taken is locked.
pub(super) fn note_taken(plan: &Plan, index: usize, bytes: usize) {
    KEPT[index].fetch_add(bytes as u64, Ordering::Relaxed);
    plan.status.locked(index, bytes as u64, taken(plan));
}

/// Takes all that an object that is locked as a whole will grow by; false: there is not so much.
pub(super) fn reserve_growth(plan: &Plan, rule: &PlanRule, object: &Object, grown: usize) -> bool {
    take_whole(plan, rule, object.rule, grown)
}

/// What was reserved is not needed.
pub(super) fn cancel_growth(plan: &Plan, reserved: usize) {
    give_back(plan, reserved);
}

/// A mapping that is locked as a whole is somewhere else now, or larger, and the kernel has taken its locks along. What it grew by
/// is locked, too, and what was reserved for that is used up.
pub(super) fn carry_on(plan: &Plan, object: &mut Object, reserved: usize) {
    let pages = object.pages();
    object.lock_rests = false;
    let had = (object.locked as usize).min(pages.len());
    let grown = pages.len() - had;
    give_back(plan, reserved.saturating_sub(grown));
    let granted = match grown.checked_sub(reserved) {
        Some(more) => reserved + take(plan, more),
        None => grown,
    };
    let locked = had + granted;
    // Costs nothing where they are locked: what is so already is passed over by mappings, not by pages.
    if let Err(errno) = system::lock_on_fault(pages.start, locked) {
        plan.status.refused(object.rule, errno);
        give_back(plan, granted);
        end_locks(plan, object);
        object.locked = 0;
        return;
    }
    if locked < pages.len() {
        let _ = system::unlock(pages.start + locked, pages.len() - locked);
    }
    object.locked += granted as u64;
    KEPT[object.rule].fetch_add(granted as u64, Ordering::Relaxed);
    plan.status.locked(object.rule, granted as u64, taken(plan));
}

/// Whatever the kernel has locked of the pages that a mapping touches is locked no more; of nobody's budget.
pub(super) fn unlock_uncounted(mapping: &Object) {
    let start = mapping.start / PAGE * PAGE;
    let end = mapping.start.saturating_add(mapping.bytes);
    let end = end.checked_next_multiple_of(PAGE).unwrap_or(start);
    let _ = system::unlock(start, end - start);
}

/// Locks a range from its start and returns how many bytes. What is not, but for `news` bytes, was counted before.
fn lock_range(plan: &Plan, object: &mut Object, start: usize, wanted: usize, news: usize) -> usize {
    let rule = object.rule;
    if rest::does_rest(plan, object) {
        return 0;
    }
    let mut bytes = take(plan, wanted);
    if bytes < wanted {
        note_beyond(plan, object, news.saturating_sub(bytes) as u64);
    }
    while bytes > 0 {
        match system::lock_on_fault(start, bytes) {
            Ok(()) => {
                plan.status.locked(rule, bytes as u64, taken(plan));
                return bytes;
            }
            Err(errno) => {
                plan.status.refused(rule, errno);
                // Of a range that was refused, a part may be locked (mm/mlock.c).
                let _ = system::unlock(start, bytes);
                let less = if bytes / 2 >= LEAST && errno == libc::ENOMEM {
                    bytes / 2 / PAGE * PAGE
                } else {
                    0
                };
                give_back(plan, bytes - less);
                bytes = less;
            }
        }
    }
    0
}

/// So much of an object is not locked, as the budget is used up. What is told is the most at once: an object that is made a thousand
/// times lacks no more than one.
fn note_beyond(plan: &Plan, object: &mut Object, bytes: u64) {
    object.beyond += bytes;
    let now = BEYOND[object.rule].fetch_add(bytes, Ordering::Relaxed) + bytes;
    plan.status
        .at_least_of_rule(object.rule, OfRule::BeyondBudget, now);
}

/// An object ends, or will be locked anew as a whole.
pub(super) fn forget_beyond(object: &Object) {
    less_beyond(object.rule, object.beyond);
}

fn less_beyond(rule: usize, bytes: u64) {
    let relaxed = Ordering::Relaxed;
    let less = |now: u64| Some(now.saturating_sub(bytes));
    let _ = BEYOND[rule].fetch_update(relaxed, relaxed, less);
}

/// Takes a range out of a joined object, if it is in one. `are_ours`: what was locked there is unlocked; else it is the
/// program's own now, or gone.
pub(super) fn cut(plan: &Plan, start: usize, bytes: usize, are_ours: bool) -> Option<Cut> {
    let cut = objects::cut(start, bytes, |pages| {
        if are_ours && !pages.is_empty() {
            let _ = system::unlock(pages.start, pages.len());
        }
    })?;
    less_beyond(cut.rule, cut.beyond);
    account_for_less(plan, cut.rule, cut.locked);
    plan.status.add(Total::Unfollowed, u64::from(cut.is_torn));
    Some(cut)
}

/// An object ends, and before it its locks.
pub(super) fn release(plan: &Plan, object: &Object) {
    forget_beyond(object);
    end_locks(plan, object);
}

/// An object's locks are no longer ours, whoever has or ends them; it ends, too.
pub(super) fn hand_over(plan: &Plan, object: &Object) {
    forget_beyond(object);
    account_for_less(plan, object.rule, object.locked);
}

/// An object's locks end.
fn end_locks(plan: &Plan, object: &Object) {
    if object.locked == 0 {
        return;
    }
    let pages = object.pages();
    let _ = system::unlock(pages.start, pages.len());
    account_for_less(plan, object.rule, object.locked);
}

/// So much of a rule is locked no more.
pub(super) fn account_for_less(plan: &Plan, rule: usize, bytes: u64) {
    let relaxed = Ordering::Relaxed;
    let less = |kept: u64| Some(kept.saturating_sub(bytes));
    let before = KEPT[rule].fetch_update(relaxed, relaxed, less);
    // At the end of the process all of it was taken off.
    let before = before.unwrap_or(0);
    plan.status.unlocked(rule, before.min(bytes));
    give_back(plan, bytes as usize);
}

/// The process ends, and its locks with it.
pub(super) fn end(plan: &Plan) {
    for (rule, kept) in KEPT.iter().enumerate() {
        plan.status.unlocked(rule, kept.swap(0, Ordering::Relaxed));
    }
}

/// The program wants to lock so much itself and may not, as too much is locked: ours gives way. False: there is none.
pub(super) fn give_way(plan: &Plan, bytes: usize) -> bool {
    // Who may lock all was refused for another reason: a hole in the range, say.
    if system::lockable_bytes().is_none() {
        return false;
    }
    // A range touches a page more at each end.
    let wanted = bytes.saturating_add(2 * PAGE) as u64;
    let mut given = 0;
    while given < wanted
        && let Some(object) = objects::give_up_lock(|_| true, |object| end_locks(plan, object))
    {
        // What rests, the kernel does not count.
        given += if object.lock_rests { 0 } else { object.locked };
        if object.rule != CALLS {
            plan.status.add_to_rule(object.rule, OfRule::TakenOver, 1);
        }
    }
    given > 0 || io::let_go_of_files(plan)
}

/// The object of this number is locked no more, as that costs more than it saves.
pub(super) fn give_up(plan: &Plan, number: usize) {
    let is_meant = |object: &Object| object.number == number;
    if let Some(object) = objects::give_up_lock(is_meant, |object| end_locks(plan, object))
        && object.rule != CALLS
    {
        plan.status.add_to_rule(object.rule, OfRule::GivenUp, 1);
    }
}

/// The sweep of this object stands still, and pages elsewhere are in need of what it holds: what is locked of it may leave, until
/// [`resume`]. It still counts against the budget.
pub(super) fn let_rest(plan: &Plan, number: usize) {
    in_pieces(number, |object, piece| {
        if !std::mem::replace(&mut object.lock_rests, true) && object.rule != CALLS {
            plan.status.add_to_rule(object.rule, OfRule::Rests, 1);
        }
        let _ = system::unlock(piece.start, piece.len());
        true
    });
}

/// The sweep goes on: what was locked is so again, as it comes.
pub(super) fn resume(plan: &Plan, number: usize) {
    in_pieces(number, |object, piece| {
        object.lock_rests = false;
        lock_again(plan, object, piece)
    });
}

/// Locks what counts as locked of an object. False: the kernel refuses, and the object has no locks any more.
fn lock_again(plan: &Plan, object: &mut Object, piece: Range<usize>) -> bool {
    let Err(errno) = system::lock_on_fault(piece.start, piece.len()) else {
        return true;
    };
    plan.status.refused(object.rule, errno);
    end_locks(plan, object);
    object.locked = 0;
    objects::note_change();
    false
}

/// A piece of an object whose lock rests goes on with the part of the lock that it has.
pub(super) fn resume_piece(plan: &Plan, piece: &mut Object) {
    if std::mem::take(&mut piece.lock_rests) && piece.locked > 0 {
        let start = piece.pages().start;
        lock_again(plan, piece, start..start + piece.locked as usize);
    }
}

/// Does something to what is locked of the object of this number, some at a time, as the program's allocations wait meanwhile; until
/// that says no.
fn in_pieces(number: usize, mut work: impl FnMut(&mut Object, Range<usize>) -> bool) {
    let (mut done, mut goes_on) = (0, true);
    while std::mem::take(&mut goes_on) {
        objects::change(number, |object| {
            let end = (done + AT_ONCE).min(object.locked as usize);
            if done < end {
                let start = object.pages().start;
                goes_on = work(object, start + done..start + end);
                done = end;
            }
        });
    }
}

/// How much of a limit is left beside what all processes have locked, bytes; `None`: there is no limit.
pub(super) fn room(plan: &Plan) -> Option<u64> {
    let limit = plan.view.sizes().limit_bytes;
    (limit > 0).then(|| limit.saturating_sub(reserve(limit) + taken(plan)))
}

/// How much of a range may be in memory at once, bytes: what is left beside the locks of others, but half of what must stay free in any
/// case, as sweeps may read ahead in; `None`: there is no limit.
pub(super) fn room_for(plan: &Plan, pages: &Range<usize>) -> Option<u64> {
    let least = reserve(plan.view.sizes().limit_bytes) / 2;
    room(plan).map(|room| (room + objects::locked_in(pages)).max(least))
}

/// Takes at most so many bytes of the budget, whole pages.
fn take(plan: &Plan, wanted: usize) -> usize {
    let own = u64::from(interpose::process_id());
    let Some(_taking) = TAKING.lock() else {
        return 0;
    };
    let mut slot = None;
    for (process, bytes) in plan.status.processes() {
        let number = process.load(Ordering::Relaxed);
        if number == own {
            slot = Some(bytes);
        } else if number != 0 && is_gone(number) {
            bytes.store(0, Ordering::Relaxed);
            let _ = process.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    let Some(slot) = slot.or_else(|| claim(plan, own)) else {
        return 0;
    };
    if taken(plan) == 0 {
        plan.status.nothing_locked();
    }
    let all = plan.status.processes().map(|(_, bytes)| bytes);
    let budget = BUDGET.load(Ordering::Relaxed);
    grant(slot, all, budget, (wanted / PAGE * PAGE) as u64) as usize
}

/// What all processes that live have locked, by all rules, bytes.
pub(super) fn taken(plan: &Plan) -> u64 {
    let all = plan.status.processes();
    all.map(|(_, bytes)| bytes.load(Ordering::Relaxed)).sum()
}

/// Adds what is wanted to what a process states, and takes back what all together then have too much. In this order, as of two
/// processes that do it at once at least one sees the other.
fn grant<'slot>(
    slot: &AtomicU64,
    all: impl Iterator<Item = &'slot AtomicU64>,
    budget: u64,
    wanted: u64,
) -> u64 {
    slot.fetch_add(wanted, Ordering::SeqCst);
    let taken: u64 = all.map(|bytes| bytes.load(Ordering::SeqCst)).sum();
    let too_much = taken.saturating_sub(budget);
    let granted = wanted.saturating_sub(too_much) / PAGE as u64 * PAGE as u64;
    slot.fetch_sub(wanted - granted, Ordering::SeqCst);
    granted
}

fn claim(plan: &Plan, own: u64) -> Option<&AtomicU64> {
    let mut free = plan.status.processes().filter(|(process, _)| {
        process
            .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    });
    free.next().map(|(_, bytes)| bytes)
}

pub(super) fn give_back(plan: &Plan, bytes: usize) {
    let own = u64::from(interpose::process_id());
    let mut slots = plan.status.processes();
    if let Some((_, slot)) = slots.find(|(process, _)| process.load(Ordering::Relaxed) == own) {
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            Some(taken.saturating_sub(bytes as u64))
        });
    }
}

fn is_gone(process: u64) -> bool {
    // SAFETY: signal 0 does nothing.
    let answer = unsafe { libc::kill(process as libc::pid_t, 0) };
    // SAFETY: this thread's own errno.
    answer != 0 && unsafe { *libc::__errno_location() } == libc::ESRCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_at_once_never_gets_more_than_the_budget() {
        const BUDGET: u64 = 64 << 20;
        for _ in 0..200 {
            let slots = [const { AtomicU64::new(0) }; 4];
            let start = std::sync::Barrier::new(slots.len());
            let take = |slot: &AtomicU64| {
                start.wait();
                grant(slot, slots.iter(), BUDGET, BUDGET - (1 << 20))
            };
            let granted: u64 = std::thread::scope(|scope| {
                let threads: Vec<_> = slots
                    .iter()
                    .map(|slot| scope.spawn(|| take(slot)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("ended"))
                    .sum()
            });
            let stated: u64 = slots.iter().map(|slot| slot.load(Ordering::Relaxed)).sum();
            assert!(granted <= BUDGET && granted == stated, "{granted} {stated}");
        }
    }

    #[test]
    fn what_ends_is_beyond_the_budget_no_more() {
        // A rule that no other test has.
        let rule = 7;
        let mut object = Object::new(100 * PAGE, 50 * PAGE, rule);
        let now = || BEYOND[rule].load(Ordering::Relaxed);
        for _ in 0..1000 {
            object.beyond = 5;
            BEYOND[rule].fetch_add(object.beyond, Ordering::Relaxed);
            assert_eq!(now(), 5);
            forget_beyond(&object);
        }
        assert_eq!(now(), 0);
        forget_beyond(&object);
        assert_eq!(now(), 0, "it was forgotten in between");
    }

    #[test]
    fn what_is_left_of_an_object_keeps_the_locks_it_has() {
        let object = |start: usize, pages: usize| Object::new(start * PAGE, pages * PAGE, 0);
        let mut whole = object(100, 50);
        whole.locked = 20 * PAGE as u64;
        let pages = |part: &Object| whole.locked_in(&part.pages()) / PAGE;
        assert_eq!(pages(&object(100, 10)), 10);
        assert_eq!(pages(&object(110, 40)), 10);
        assert_eq!(pages(&object(120, 30)), 0);
        assert_eq!(pages(&object(100, 50)), 20);
        assert_eq!(pages(&object(130, 1)), 0);
    }

    #[test]
    fn of_every_limit_some_memory_stays_free() {
        assert_eq!(reserve(1 << 30), 128 << 20);
        assert_eq!(reserve(32 << 20), 6 << 20);
        // Too little to lock anything.
        assert_eq!((5u64 << 20).saturating_sub(reserve(5 << 20)), 0);
    }
}
