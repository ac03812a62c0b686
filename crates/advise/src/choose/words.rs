//! What a plan does about memory, in a line.

use pagewise_plan::Action;

use super::Choice;
use super::LEAST_STALLED;
use crate::facts::ObjectFacts;
use crate::facts::RunFacts;

/// What the plan does, for people.
pub(crate) fn words(
    choices: &[Choice],
    objects: &[ObjectFacts],
    run: &RunFacts,
    extra_bytes: Option<u64>,
) -> String {
    let names = |wanted: fn(&Action) -> bool| {
        let chosen = choices.iter().filter(|choice| wanted(&choice.action));
        chosen
            .map(|choice| objects[choice.object].name.as_str())
            .collect::<Vec<_>>()
    };
    let parts: Vec<String> = [
        (
            "lock",
            names(|action| matches!(action, Action::Lock { .. })),
        ),
        (
            "stream",
            names(|action| matches!(action, Action::Stream { .. })),
        ),
        (
            "prefetch",
            names(|action| matches!(action, Action::Prefetch(_))),
        ),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
    .collect();
    if !parts.is_empty() {
        return parts.join("; ");
    }
    if run.stalled_share() < LEAST_STALLED {
        return format!(
            "do nothing: waiting for swap-ins is {:.1} % of the run",
            100.0 * run.stalled_share()
        );
    }
    match extra_bytes {
        Some(extra) => format!(
            "do nothing: no placement would help much here. Add memory: {} more would have avoided 99 % of the waiting",
            pagewise_report::bytes(extra)
        ),
        None => {
            "do nothing: no placement would help much here, and how much memory would is not known"
                .to_owned()
        }
    }
}
