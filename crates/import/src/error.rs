//! What can go wrong with an import, each with the file it happened to and what to type next.

use std::io;
use std::path::PathBuf;

use pagewise_trace::TraceError;

/// Everything that can go wrong with an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The operating system does not let us read the file.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is of another format.
    #[error("{} is not a file this import reads: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it looks like, and what to type to get one that is read.
        detail: String,
    },
    /// The file ends early.
    #[error("{} is cut short: {detail}; write or copy it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where.
        detail: String,
    },
    /// The file says what cannot be.
    #[error("{} cannot be imported: {detail}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The place and what is wrong there.
        detail: String,
    },
    /// The file says nothing.
    #[error("{} holds no regions: nothing was monitored when it was written", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
