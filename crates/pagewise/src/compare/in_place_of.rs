//! What one would type without the tool, as plans: the arms that a plan has to beat.

use pagewise_plan::Action;
use pagewise_plan::Plan;
use pagewise_plan::Rule;
use pagewise_plan::Target;

/// `mlock` on all that the plan keeps or streams. A single object is locked as far as memory goes; of several, each gets
/// what the plan gives it, as nobody but the recording says how to share it out, and what the plan leaves free to read ahead in, or for
/// locks to grow into, is shared by those that are swept. Of input and output, and of huge pages, nothing is done. Where the plan
/// keeps nothing, what costs most is locked, as far as memory goes: whether a lock would have been better is to be seen, too.
pub(super) fn mlock(plan: &Plan) -> Plan {
    if !plan.acting_rules().any(is_kept) {
        return costliest_locked(plan);
    }
    let is_single = plan.acting_rules().filter(|rule| is_kept(rule)).count() == 1;
    let share = share_of_rest(plan);
    with_actions(plan, |action| match action {
        Action::Lock {
            keep_bytes,
            keep_more: false,
            ranges,
            together,
        } => Action::Lock {
            keep_bytes: *keep_bytes,
            keep_more: false,
            ranges: ranges.clone(),
            together: *together,
        },
        other if is_swept(other) && is_single => lock(None),
        other if is_swept(other) => match kept_bytes(other).unwrap_or(0).saturating_add(share) {
            0 => Action::Nothing,
            keep => lock(Some(keep)),
        },
        _ => Action::Nothing,
    })
}

/// Rules come by what their objects cost.
fn costliest_locked(plan: &Plan) -> Plan {
    let mut plan = with_actions(plan, |_| Action::Nothing);
    let mut rules = plan.rules.iter_mut();
    let is_memory = |rule: &&mut Rule| !matches!(rule.target, Target::Io { .. });
    if let Some(costliest) = rules.find(is_memory) {
        costliest.action = lock(None);
    }
    plan
}

fn lock(keep_bytes: Option<u64>) -> Action {
    Action::Lock {
        keep_bytes,
        keep_more: false,
        ranges: Vec::new(),
        together: false,
    }
}

/// What is read ahead of, or locked in its place as its sweeps write: the plan keeps less of it than it could.
fn is_swept(action: &Action) -> bool {
    let keeps_more = |action: &Action| {
        matches!(
            action,
            Action::Lock {
                keep_more: true,
                ..
            }
        )
    };
    matches!(action, Action::Stream { .. } | Action::Prefetch(_)) || keeps_more(action)
}

fn is_kept(rule: &Rule) -> bool {
    is_swept(&rule.action) || matches!(rule.action, Action::Lock { .. })
}

/// What the plan keeps of an object; `None`: as much as there is.
fn kept_bytes(action: &Action) -> Option<u64> {
    match action {
        Action::Lock {
            keep_bytes, ranges, ..
        } if ranges.is_empty() => *keep_bytes,
        Action::Lock { ranges, .. } => {
            Some(ranges.iter().map(|range| range.end - range.start).sum())
        }
        Action::Stream { keep_bytes, .. } => *keep_bytes,
        _ => Some(0),
    }
}

/// What may be locked beyond what the plan keeps, for each object that is swept, bytes; 0 where it is not known.
fn share_of_rest(plan: &Plan) -> u64 {
    let kept: Option<u64> = plan
        .acting_rules()
        .map(|rule| kept_bytes(&rule.action))
        .sum();
    let swept = plan
        .acting_rules()
        .filter(|rule| is_swept(&rule.action))
        .count() as u64;
    let rest = plan
        .memory
        .lock_bytes
        .zip(kept)
        .map_or(0, |(all, kept)| all.saturating_sub(kept));
    rest.checked_div(swept).unwrap_or(0)
}

/// `madvise(MADV_SEQUENTIAL)` on what is swept. There is no advice to keep something.
pub(super) fn madvise(plan: &Plan) -> Plan {
    with_actions(plan, |action| match action {
        Action::Stream { .. } | Action::Prefetch(_) => Action::Sequential,
        _ => Action::Nothing,
    })
}

fn with_actions(plan: &Plan, other: impl Fn(&Action) -> Action) -> Plan {
    let mut plan = plan.clone();
    plan.memory.fresh = None;
    for rule in &mut plan.rules {
        rule.action = other(&rule.action);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::Fresh;
    use pagewise_plan::IoAction;
    use pagewise_plan::Memory;
    use pagewise_plan::Program;
    use pagewise_plan::ReadAhead;
    use pagewise_plan::SourcePlace;

    fn plan(actions: &[Action]) -> Plan {
        let rules = actions.iter().map(|action| Rule {
            objects: None,
            name: String::new(),
            place: SourcePlace::default(),
            target: Target::allocation(Vec::new()),
            action: action.clone(),
            why: String::new(),
            predicted: None,
        });
        Plan {
            program: Program {
                executable: String::new(),
                build_id: None,
                arguments: Vec::new(),
                modules: Vec::new(),
            },
            memory: Memory {
                bytes: 1 << 30,
                peak_bytes: None,
                lock_bytes: None,
                fresh: None,
                prezero_rate: None,
            },
            rules: rules.collect(),
            curve: Vec::new(),
            headway: Vec::new(),
            files: Vec::new(),
        }
    }

    fn actions(plan: &Plan) -> Vec<Action> {
        plan.rules.iter().map(|rule| rule.action.clone()).collect()
    }

    fn stream() -> Action {
        Action::Stream {
            keep_bytes: Some(7 << 20),
            keep_more: false,
            ahead: ReadAhead::default(),
        }
    }

    #[test]
    fn one_object_is_locked_as_far_as_it_goes_and_several_as_the_plan_shares() {
        let single = plan(&[stream(), Action::Nothing]);
        assert_eq!(actions(&mlock(&single)), [lock(None), Action::Nothing]);
        let swept_once = plan(&[Action::Prefetch(ReadAhead::default())]);
        assert_eq!(actions(&mlock(&swept_once)), [lock(None)]);
        let several = plan(&[stream(), lock(None), Action::Prefetch(ReadAhead::default())]);
        assert_eq!(
            actions(&mlock(&several)),
            [lock(Some(7 << 20)), lock(None), Action::Nothing]
        );
    }

    #[test]
    fn where_the_plan_does_nothing_what_costs_most_is_locked() {
        let nothing = plan(&[Action::Nothing, Action::Nothing]);
        assert_eq!(actions(&mlock(&nothing)), [lock(None), Action::Nothing]);
        assert_eq!(actions(&mlock(&plan(&[]))), []);
        let huge = plan(&[Action::Nothing, Action::Huge]);
        assert_eq!(actions(&mlock(&huge)), [lock(None), Action::Nothing]);
    }

    #[test]
    fn a_lock_that_may_grow_is_as_large_as_it_can_be() {
        let may_grow = Action::Lock {
            keep_bytes: Some(7 << 20),
            keep_more: true,
            ranges: Vec::new(),
            together: false,
        };
        let single = plan(std::slice::from_ref(&may_grow));
        assert_eq!(actions(&mlock(&single)), [lock(None)]);
        let mut several = plan(&[may_grow, lock(Some(1 << 20))]);
        several.memory.lock_bytes = Some(12 << 20);
        assert_eq!(
            actions(&mlock(&several)),
            [lock(Some(11 << 20)), lock(Some(1 << 20))]
        );
    }

    #[test]
    fn what_is_free_to_read_ahead_in_is_shared_by_those_that_are_streamed() {
        let prefetch = || Action::Prefetch(ReadAhead::default());
        let mut several = plan(&[stream(), lock(Some(1 << 20)), prefetch()]);
        several.memory.lock_bytes = Some(12 << 20);
        assert_eq!(
            actions(&mlock(&several)),
            [
                lock(Some(9 << 20)),
                lock(Some(1 << 20)),
                lock(Some(2 << 20))
            ]
        );
    }

    #[test]
    fn hints_and_huge_pages_are_no_objects_to_lock() {
        let hint = Action::Io(IoAction::Drop {
            readahead: None,
            again_percent: 0,
        });
        let mut mixed = plan(&[stream(), hint, Action::Huge]);
        mixed.memory.fresh = Some(Fresh::Huge);
        let locked = mlock(&mixed);
        assert_eq!(
            actions(&locked),
            [lock(None), Action::Nothing, Action::Nothing]
        );
        assert_eq!(
            (locked.memory.fresh, madvise(&mixed).memory.fresh),
            (None, None)
        );
    }

    #[test]
    fn the_kernel_is_told_of_sweeps_only() {
        let all = plan(&[stream(), lock(None), Action::Cold]);
        assert_eq!(
            actions(&madvise(&all)),
            [Action::Sequential, Action::Nothing, Action::Nothing]
        );
    }
}
