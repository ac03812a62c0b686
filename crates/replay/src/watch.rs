//! How far a replay has come, for whoever waits; they may end it.

use std::ops::ControlFlow;

use crate::error::ReplayError;

/// How far something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is being done: `reading` or `simulating`.
    pub what: &'static str,
    /// In any unit.
    pub done: u64,
    /// In the same; `None`: unknown.
    pub total: Option<u64>,
}

/// Is told now and then how far a replay has come, at least some twenty times a second.
pub trait Watch {
    /// Break ends the replay, with [`ReplayError::Stopped`].
    fn at(&mut self, step: Step) -> ControlFlow<()>;
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn at(&mut self, _: Step) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Tells, and turns its answer into an error.
pub(crate) fn tell(watch: &mut dyn Watch, step: Step) -> Result<(), ReplayError> {
    match watch.at(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ReplayError::Stopped),
    }
}
