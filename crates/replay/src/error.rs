//! Why a trace could not be replayed.

use pagewise_refs::RefsError;
use pagewise_trace::TraceError;

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] RefsError),
    /// What is asked for makes no sense, for this trace at least: what, why, and what to give instead.
    #[error("{0}")]
    Asked(String),
    /// Whoever watches has ended it.
    #[error("interrupted")]
    Stopped,
}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> Self {
        Self::Trace(RefsError::Trace(error))
    }
}

impl ReplayError {
    pub(crate) fn asked(message: impl Into<String>) -> Self {
        Self::Asked(message.into())
    }
}
