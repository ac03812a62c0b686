//! Locks within a budget: never all of the memory, never more than the user may.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::system;

use super::loaded::Plan;
use super::objects::Object;
use super::objects::PAGE;

/// Of the limit, this share stays free of locks,
const FREE_SHARE: u64 = 8;
/// and so many bytes at least.
const FREE_AT_LEAST: u64 = 6 << 20;
/// After a refusal, half is tried, down to so many bytes.
const LEAST: usize = 1 << 20;

/// What all processes together may lock, bytes.
static BUDGET: AtomicU64 = AtomicU64::new(0);
/// What this process keeps by each rule, bytes.
static KEPT: [AtomicU64; MOST_RULES] = [const { AtomicU64::new(0) }; MOST_RULES];

/// What must stay free of a limit, bytes.
pub(super) fn reserve(limit: u64) -> u64 {
    (limit / FREE_SHARE).max(FREE_AT_LEAST)
}

/// Finds the budget.
pub(super) fn begin(plan: &Plan) {
    let sizes = plan.view.sizes();
    let mut budget = match sizes.limit_bytes {
        0 => u64::MAX,
        limit => limit.saturating_sub(reserve(limit)),
    };
    if sizes.lock_bytes > 0 {
        budget = budget.min(sizes.lock_bytes);
    }
    if let Some(most) = system::lockable_bytes().filter(|&most| most < budget) {
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
    for kept in &KEPT {
        kept.store(0, Ordering::Relaxed);
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
        let at = |offset: u64| object.start.saturating_add(offset as usize);
        let start = (at(start) / PAGE * PAGE).max(pages.start);
        let end = at(end)
            .checked_next_multiple_of(PAGE)
            .unwrap_or(0)
            .min(pages.end);
        let wanted = end.saturating_sub(start).min(left / PAGE * PAGE);
        let locked = lock_range(plan, object.rule, start, wanted);
        object.locked += locked as u64;
        KEPT[object.rule].fetch_add(locked as u64, Ordering::Relaxed);
        left -= locked;
        if locked < wanted {
            return;
        }
    }
}

/// Locks a range from its start and returns how many bytes.
fn lock_range(plan: &Plan, rule: usize, start: usize, wanted: usize) -> usize {
    let mut bytes = take(plan, wanted);
    let beyond = (wanted - bytes) as u64;
    plan.status.add_to_rule(rule, OfRule::BeyondBudget, beyond);
    while bytes > 0 {
        match system::lock_on_fault(start, bytes) {
            Ok(()) => {
                plan.status.locked(rule, bytes as u64, true);
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

/// An object's locks end, before it does.
pub(super) fn release(plan: &Plan, object: &Object) {
    if object.locked == 0 {
        return;
    }
    let pages = object.pages();
    let _ = system::unlock(pages.start, pages.len());
    plan.status.locked(object.rule, object.locked, false);
    KEPT[object.rule].fetch_sub(object.locked, Ordering::Relaxed);
    give_back(plan, object.locked as usize);
}

/// Takes at most so many bytes of the budget, whole pages.
fn take(plan: &Plan, wanted: usize) -> usize {
    let own = u64::from(interpose::process_id());
    let budget = BUDGET.load(Ordering::Relaxed);
    let (mut taken, mut slot) = (0, None);
    for (process, bytes) in plan.status.processes() {
        let number = process.load(Ordering::Relaxed);
        if number == own {
            slot = Some(bytes);
        } else if number != 0 && is_gone(number) {
            bytes.store(0, Ordering::Relaxed);
            let _ = process.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        taken += bytes.load(Ordering::Relaxed);
    }
    let Some(slot) = slot.or_else(|| claim(plan, own)) else {
        return 0;
    };
    let granted = budget.saturating_sub(taken).min(wanted as u64) as usize / PAGE * PAGE;
    slot.fetch_add(granted as u64, Ordering::Relaxed);
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

fn give_back(plan: &Plan, bytes: usize) {
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
    fn of_every_limit_some_memory_stays_free() {
        assert_eq!(reserve(1 << 30), 128 << 20);
        assert_eq!(reserve(32 << 20), 6 << 20);
        // Too little to lock anything.
        assert_eq!((5u64 << 20).saturating_sub(reserve(5 << 20)), 0);
    }
}
