//! Which rules the call path of an I/O call begins with: a set of their numbers, as each may be for other files.
//!
//! A path is walked once, as far as decides, and known again by the words of the stack: a loop's calls, however deep, cost a look at these.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_interpose::Registers;
use pagewise_interpose::unwind;
use pagewise_interpose::unwind::Fingerprint;
use pagewise_interpose::unwind::Fingerprints;
use pagewise_interpose::unwind::MOST_CALLERS;

use crate::plan::call_path;
use crate::plan::loaded::Plan;

/// All callers that are looked at, of paths that cannot be known again.
const MANY: usize = 96;
/// Calls between two looks whether libraries have come or gone.
const LOOK_EVERY: u32 = 64;

static CALLS: AtomicU32 = AtomicU32::new(0);
static KNOWN: Fingerprints = Fingerprints::new();

/// A forked child.
pub(super) fn forget() {
    KNOWN.break_open();
}

/// The rules whose path this is, a bit each.
pub(super) fn matching(plan: &Plan, rules: u64, registers: Registers) -> u64 {
    if CALLS
        .fetch_add(1, Ordering::Relaxed)
        .is_multiple_of(LOOK_EVERY)
    {
        call_path::look_at_modules(plan);
    }
    // The rules are always the same.
    let epoch = call_path::libraries();
    KNOWN.find(registers, epoch).unwrap_or_else(|| {
        // Mostly who called the hook decides.
        learned(plan, rules, (registers, 1), epoch)
            .or_else(|| learned(plan, rules, (registers, MOST_CALLERS), epoch))
            .unwrap_or_else(|| walked(plan, rules, registers))
    })
}

/// Walks so many callers. `None`: these do not decide; else the path is known from now on.
#[cold]
fn learned(
    plan: &Plan,
    rules: u64,
    (registers, callers): (Registers, usize),
    epoch: u64,
) -> Option<u64> {
    let mut print = Fingerprint::of(registers, callers)?;
    let decision = decide(plan, rules, print.callers());
    match decision.callers {
        Some(callers) => print.cut(callers),
        None if print.is_whole() => {}
        None => return None,
    }
    KNOWN.add(&print, epoch, decision.matching);
    Some(decision.matching)
}

#[cold]
fn walked(plan: &Plan, rules: u64, registers: Registers) -> u64 {
    let mut addresses = [0; MANY];
    let walked = unwind::walk(registers, &mut addresses);
    // The first is the hook's own.
    decide(
        plan,
        rules,
        addresses[..walked.frames].get(1..).unwrap_or_default(),
    )
    .matching
}

/// What the callers so far say.
struct Decision {
    matching: u64,
    /// So many of them decide; `None`: others may match if there are more callers.
    callers: Option<usize>,
}

fn decide(plan: &Plan, rules: u64, callers: &[usize]) -> Decision {
    let (mut open, mut matching, mut depth) = (rules, 0, 0);
    for (index, &address) in callers.iter().enumerate() {
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
            return Decision {
                matching,
                callers: Some(index + 1),
            };
        }
        depth += 1;
    }
    Decision {
        matching,
        callers: None,
    }
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
