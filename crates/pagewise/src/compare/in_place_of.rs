//! What one would type without the tool, as plans: the arms that a plan has to beat.

use pagewise_plan::Action;
use pagewise_plan::Plan;

/// `mlock` on all that the plan keeps or streams. A single object is locked as far as memory goes; of several, each gets
/// what the plan gives it, as nobody but the recording says how to share it out.
pub(super) fn mlock(plan: &Plan) -> Plan {
    let is_streamed =
        |action: &Action| matches!(action, Action::Stream { .. } | Action::Prefetch(_));
    let is_single = plan.acting_rules().count() == 1;
    with_actions(plan, |action| match action {
        Action::Lock { .. } => action.clone(),
        Action::Stream { keep_bytes, .. } if !is_single => Action::Lock {
            keep_bytes: *keep_bytes,
            ranges: Vec::new(),
        },
        other if is_streamed(other) && is_single => Action::Lock {
            keep_bytes: None,
            ranges: Vec::new(),
        },
        _ => Action::Nothing,
    })
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
    for rule in &mut plan.rules {
        rule.action = other(&rule.action);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::Memory;
    use pagewise_plan::Program;
    use pagewise_plan::ReadAhead;
    use pagewise_plan::Rule;
    use pagewise_plan::SourcePlace;
    use pagewise_plan::Target;

    fn plan(actions: &[Action]) -> Plan {
        let rules = actions.iter().map(|action| Rule {
            name: String::new(),
            place: SourcePlace::default(),
            target: Target::Allocation(Vec::new()),
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
            },
            rules: rules.collect(),
            curve: Vec::new(),
            files: Vec::new(),
        }
    }

    fn actions(plan: &Plan) -> Vec<Action> {
        plan.rules.iter().map(|rule| rule.action.clone()).collect()
    }

    fn lock(keep_bytes: Option<u64>) -> Action {
        Action::Lock {
            keep_bytes,
            ranges: Vec::new(),
        }
    }

    fn stream() -> Action {
        Action::Stream {
            keep_bytes: Some(7 << 20),
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
    fn the_kernel_is_told_of_sweeps_only() {
        let all = plan(&[stream(), lock(None), Action::Cold]);
        assert_eq!(
            actions(&madvise(&all)),
            [Action::Sequential, Action::Nothing, Action::Nothing]
        );
    }
}
