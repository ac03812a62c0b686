//! Tables that are read from a recording.

use std::path::PathBuf;

use arrow_array::RecordBatchReader;
use pagewise_export::EventRows;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Where a table comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// One of the recording's own tables.
    Table(PathBuf, String),
    /// Its events, each with its object.
    Events(PathBuf),
}

impl Source {
    /// Opens the recording anew: a table may be read as often as one likes.
    pub(crate) fn reader(&self) -> Result<Box<dyn RecordBatchReader + Send>, TraceError> {
        match self {
            Self::Events(path) => Ok(Box::new(EventRows::open(&Trace::open(path)?)?)),
            Self::Table(path, name) => match Trace::open(path)?.batches(name)? {
                Some(batches) => Ok(Box::new(batches)),
                None => unreachable!("the name of a table was looked up when it was made"),
            },
        }
    }
}
