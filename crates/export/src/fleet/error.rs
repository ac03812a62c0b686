//! What can go wrong with a recording that is added to a fleet's data set.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use pagewise_trace::TraceError;

use crate::error::ExportError;

/// Everything that can go wrong when a recording is added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its end, and so its sums, are not known yet.
    #[error(
        "{} is not complete: wait until it is recorded, then type the same again",
        path.display()
    )]
    NotClosed {
        /// The recording.
        path: PathBuf,
    },
    /// Nothing says to which partition it belongs.
    #[error(
        "the recording does not say {what}: give --{option} {example}, for example --{option} {value}"
    )]
    Unlabelled {
        /// What it does not say.
        what: &'static str,
        /// The option that would.
        option: &'static str,
        /// What the option takes.
        example: &'static str,
        /// One of these.
        value: &'static str,
    },
    /// A host that cannot be the name of a folder in all engines.
    #[error("--host {0:?}: give letters, digits, dots, hyphens and underscores")]
    Host(String),
    /// A date that is none.
    #[error("--date {0:?}: give a day of the calendar as YYYY-MM-DD")]
    Date(String),
    /// The data set cannot be looked through.
    #[error("cannot read {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the data set cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl FleetError {
    pub(super) fn of_file(path: &Path, error: ExportError) -> Self {
        match error {
            ExportError::Trace(error) => Self::Trace(error),
            ExportError::Output(source) => Self::Write {
                path: path.to_owned(),
                source,
            },
            error @ (ExportError::NoFaultPaths | ExportError::NoIo) => Self::Write {
                path: path.to_owned(),
                source: io::Error::other(error),
            },
        }
    }
}
