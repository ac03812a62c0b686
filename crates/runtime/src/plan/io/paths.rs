//! Which rules the call path of an I/O call begins with: a set of their numbers, as each may be for other files.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_interpose::Registers;
use pagewise_interpose::unwind;

use crate::plan::call_path;
use crate::plan::loaded::Plan;

/// Addresses that nearly always decide, and all that are looked at. The first is the hook's own.
const FEW: usize = 6;
const MANY: usize = 96;
/// Calls between two looks whether libraries have come or gone.
const LOOK_EVERY: u32 = 64;

static CALLS: AtomicU32 = AtomicU32::new(0);

/// The rules whose path this is, a bit each.
pub(super) fn matching(plan: &Plan, rules: u64, registers: Registers) -> u64 {
    if CALLS
        .fetch_add(1, Ordering::Relaxed)
        .is_multiple_of(LOOK_EVERY)
    {
        call_path::look_at_modules(plan);
    }
    // Mostly who called the hook decides.
    walked::<2>(plan, rules, registers)
        .or_else(|_| walked::<FEW>(plan, rules, registers))
        .or_else(|_| walked::<MANY>(plan, rules, registers))
        .unwrap_or_else(|so_far| so_far)
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
