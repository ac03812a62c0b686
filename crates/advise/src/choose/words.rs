//! What a plan does about memory, in a line.

use pagewise_plan::Action;
use pagewise_predict::ENOUGH_SHARE;

use super::Choice;
use super::LEAST_STALLED;
use super::is_costly;
use crate::facts::ObjectFacts;
use crate::run_facts::RunFacts;

/// A plan says so where so much of the waiting is for what can have no rule.
const MOST_OF_THE_WAITING: f64 = 0.5;

/// How much more memory would help, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoreMemory {
    /// By the curve of the model: so much more, and what that is in all.
    ByCurve { bytes: u64, enough: u64 },
    /// By the pages that were away: so much more.
    ByRecency(u64),
}

/// What the plan does, for people. `more` is asked only where it matters, as it takes simulations.
pub(crate) fn words(
    choices: &[Choice],
    objects: &[ObjectFacts],
    run: &RunFacts,
    more: impl FnOnce() -> Option<MoreMemory>,
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
    let in_vain = match share_without_rule(objects, run) {
        share if share > MOST_OF_THE_WAITING => format!(
            "{:.0} % of the waiting is for memory that no rule can be about, see below",
            100.0 * share
        ),
        _ => "no placement would help much here".to_owned(),
    };
    nothing_but_memory(&in_vain, more())
}

/// The same where the rules that would help cannot be written.
pub(crate) fn words_without_rule(more: Option<MoreMemory>) -> String {
    nothing_but_memory(
        "what would help cannot be known again in another run, see below",
        more,
    )
}

fn nothing_but_memory(in_vain: &str, more: Option<MoreMemory>) -> String {
    match more {
        Some(MoreMemory::ByCurve { bytes, enough }) => format!(
            "do nothing: {in_vain}. Add memory: with {} more, {} in all, less than {:.0} % of the time would be \
             waiting, by the curve",
            pagewise_report::bytes(bytes),
            pagewise_report::bytes(enough),
            100.0 * ENOUGH_SHARE
        ),
        Some(MoreMemory::ByRecency(bytes)) => format!(
            "do nothing: {in_vain}. Add memory: {} more would have avoided 99 % of the waiting",
            pagewise_report::bytes(bytes)
        ),
        None => format!("do nothing: {in_vain}; how much memory would help is not known"),
    }
}

/// Of the waiting, the part that is for objects which can have no rule and are told.
fn share_without_rule(objects: &[ObjectFacts], run: &RunFacts) -> f64 {
    let without = objects
        .iter()
        .filter(|object| !object.can_have_rule && is_costly(object, run));
    let stall_ns: u64 = without.map(|object| object.stall_ns).sum();
    stall_ns as f64 / run.stall_ns.max(1) as f64
}
