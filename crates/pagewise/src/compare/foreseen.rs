//! Whether the program swaps without the plan as it did when it was recorded: a plan made of a run that something disturbed is one for another program.
//! One of two threads that had come to run one after the other, as another program took a processor, made them 0.80 times as fast; one made of
//! a recording with nothing beside it 1.26.

use std::ops::RangeInclusive;

use pagewise_plan::CurvePoint;
use pagewise_plan::Plan;

/// The plan's memory and another differ by one part in so many at most, to be the same.
const SAME: u64 = 50;
/// So many times as many swap-ins, or as few, are not as foreseen,
const TIMES: u64 = 2;
/// where they are so many at least.
const LEAST: u64 = 2000;

/// Swap-ins that the plan foresees without it, between what its curve says of a little more memory and of a little less; `None`: it was made for
/// another memory size, or does not say.
pub(super) fn swap_ins(plan: &Plan, memory_bytes: u64) -> Option<RangeInclusive<u64>> {
    if memory_bytes.abs_diff(plan.memory.bytes) > memory_bytes / SAME {
        return None;
    }
    let is_less = |point: &&CurvePoint| point.memory_bytes <= memory_bytes;
    let less = plan.curve.iter().rev().find(is_less)?;
    let more = plan.curve.iter().find(|point| !is_less(point))?;
    let most = less.swap_ins_high.unwrap_or(less.swap_ins);
    let least = more.swap_ins_low.unwrap_or(more.swap_ins);
    Some(least.min(most)..=most.max(least))
}

/// Whether so many are far from what was foreseen.
pub(super) fn is_otherwise(swap_ins: u64, foreseen: &RangeInclusive<u64>) -> bool {
    let is_more = swap_ins >= LEAST && swap_ins / TIMES > *foreseen.end();
    let is_less = *foreseen.start() >= LEAST && foreseen.start() / TIMES > swap_ins;
    is_more || is_less
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::Memory;
    use pagewise_plan::Program;

    fn plan() -> Plan {
        let point = |(memory_mib, swap_ins): (u64, u64)| CurvePoint {
            memory_bytes: memory_mib << 20,
            swap_ins,
            swap_ins_low: Some(swap_ins * 9 / 10),
            swap_ins_high: None,
            wall_ns: None,
        };
        Plan {
            program: Program {
                executable: "/bin/program".to_owned(),
                build_id: None,
                arguments: Vec::new(),
                modules: Vec::new(),
            },
            memory: Memory {
                bytes: 100 << 20,
                peak_bytes: None,
                lock_bytes: None,
                fresh: None,
                prezero_rate: None,
            },
            rules: Vec::new(),
            curve: [(80, 90_000), (95, 60_000), (110, 40_000), (120, 0)]
                .map(point)
                .to_vec(),
            headway: Vec::new(),
            files: Vec::new(),
        }
    }

    #[test]
    fn the_points_on_both_sides_say_what_is_foreseen() {
        let mut plan = plan();
        assert_eq!(swap_ins(&plan, 100 << 20), Some(36_000..=60_000));
        assert_eq!(swap_ins(&plan, 101 << 20), Some(36_000..=60_000));
        assert_eq!(swap_ins(&plan, 90 << 20), None, "another size");
        plan.curve.truncate(2);
        assert_eq!(swap_ins(&plan, 100 << 20), None, "nothing is said of more");
        plan.curve.clear();
        assert_eq!(swap_ins(&plan, 100 << 20), None);
    }

    #[test]
    fn far_from_it_is_twice_or_half() {
        let foreseen = 36_000..=60_000;
        for (count, expected) in [
            (184_000, true),
            (120_000, false),
            (122_000, true),
            (40_000, false),
            (18_000, false),
            (17_000, true),
            (0, true),
        ] {
            assert_eq!(is_otherwise(count, &foreseen), expected, "{count}");
        }
        assert!(!is_otherwise(1_900, &(0..=10)), "too few to matter");
        assert!(!is_otherwise(10, &(1_900..=1_950)));
    }
}
