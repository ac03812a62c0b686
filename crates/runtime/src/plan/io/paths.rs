//! Which rules the call path of an I/O call begins with: a set of their numbers, as each may be for other files.
//!
//! Mostly who called the hook decides. Where the path goes on by that rule, it is walked with what is remembered of the thread's last one:
//! a loop's calls, however deep, cost a look at the words of the stack, and nothing is decided again.

use std::cell::RefCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_interpose::Registers;
use pagewise_interpose::unwind;
use pagewise_interpose::unwind::MOST_REMEMBERED;
use pagewise_interpose::unwind::Memo;

use crate::plan::call_path;
use crate::plan::loaded::Plan;

/// All addresses that are looked at. The first is the hook's own.
const MANY: usize = 96;
/// Calls between two looks whether libraries have come or gone.
const LOOK_EVERY: u32 = 64;

static CALLS: AtomicU32 = AtomicU32::new(0);

/// A thread's last path that its caller did not decide, and what it matched.
struct Last {
    memo: Memo,
    decided: Option<Decided>,
}

/// What was decided, and what of.
#[derive(Clone, Copy)]
struct Decided {
    rules: u64,
    /// Of [`call_path::libraries`].
    libraries: u64,
    matching: u64,
}

// Without a destructor: what it is asked for last is destructors' I/O.
thread_local!(static LAST: RefCell<Last> = const { RefCell::new(Last { memo: Memo::new(), decided: None }) });

/// The rules whose path this is, a bit each.
pub(super) fn matching(plan: &Plan, rules: u64, registers: Registers) -> u64 {
    if CALLS
        .fetch_add(1, Ordering::Relaxed)
        .is_multiple_of(LOOK_EVERY)
    {
        call_path::look_at_modules(plan);
    }
    if let Some(matching) = again(rules, registers) {
        return matching;
    }
    walked::<2>(plan, rules, registers)
        .or_else(|_| remembered(plan, rules, registers))
        .or_else(|_| walked::<MANY>(plan, rules, registers))
        .unwrap_or_else(|so_far| so_far)
}

/// What the thread's last path that its caller did not decide has matched, if this is the same.
fn again(rules: u64, registers: Registers) -> Option<u64> {
    let matching = LAST.try_with(|last| {
        // Not where a handler interrupted the walk.
        let mut last = last.try_borrow_mut().ok()?;
        let libraries = call_path::libraries();
        let decided = last.decided?;
        let is_of_these = decided.rules == rules && decided.libraries == libraries;
        (is_of_these && unwind::is_again(registers, &mut last.memo)).then_some(decided.matching)
    });
    matching.ok().flatten()
}

/// Decides by so many addresses. `Err`: those that match so far, and there are more.
fn walked<const ADDRESSES: usize>(
    plan: &Plan,
    rules: u64,
    registers: Registers,
) -> Result<u64, u64> {
    let mut addresses = [0; ADDRESSES];
    let walked = unwind::walk(registers, &mut addresses);
    let decided = decide(plan, rules, &addresses[..walked.frames]);
    match decided {
        Err(so_far) if walked.frames < ADDRESSES => Ok(so_far),
        decided => decided,
    }
}

/// Decides by as many addresses as are remembered.
fn remembered(plan: &Plan, rules: u64, registers: Registers) -> Result<u64, u64> {
    let result = LAST.try_with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        let mut addresses = [0; MOST_REMEMBERED];
        let (walked, _) = unwind::walk_again(registers, &mut addresses, &mut last.memo);
        let result = match decide(plan, rules, &addresses[..walked.frames]) {
            Err(so_far) if walked.frames < MOST_REMEMBERED => Ok(so_far),
            result => result,
        };
        last.decided = result.ok().map(|matching| Decided {
            rules,
            libraries: call_path::libraries(),
            matching,
        });
        Some(result)
    });
    result.ok().flatten().unwrap_or(Err(0))
}

/// `Err`: those that match so far, and more may if the path is longer.
fn decide(plan: &Plan, rules: u64, addresses: &[usize]) -> Result<u64, u64> {
    let (mut open, mut matching, mut depth) = (rules, 0, 0);
    for &address in addresses.iter().skip(1) {
        let Some(frame) = call_path::frame_at(address) else {
            continue;
        };
        for index in bits(open) {
            let rule = plan.view.rule(index);
            if plan.view.frame_of(&rule, depth) != Some(frame) {
                open &= !(1 << index);
            } else if rule.frames as usize == depth + 1 {
                matching |= 1 << index;
                open &= !(1 << index);
            }
        }
        if open == 0 {
            return Ok(matching);
        }
        depth += 1;
    }
    Err(matching)
}

/// Numbers of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_numbered() {
        assert_eq!(bits(0).count(), 0);
        assert_eq!(bits(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!(bits(u64::MAX).count(), 64);
    }
}
