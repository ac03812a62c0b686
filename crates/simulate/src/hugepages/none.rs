//! No promotion at all: what others are compared with.

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;

/// Promotes nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Policy for Nothing {
    fn next(&mut self, _processes: &Processes) -> Option<Choice> {
        None
    }

    fn best_of(&self, _process: &Process) -> Option<u64> {
        None
    }
}
