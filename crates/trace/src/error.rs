//! What can go wrong with a trace, each with the path it happened to and what to type next.

use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Everything that can go wrong while writing or reading a trace.
///
/// Each message fits one line; the text of a wrapped error is reached through
/// [`source`](std::error::Error::source), never repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Nothing exists at the path.
    #[error("no recording at {}: run `pagewise record -- CMD` first", path.display())]
    NotFound {
        /// The folder that was asked for.
        path: PathBuf,
    },
    /// Something exists at the path, but no trace.
    #[error("{} is not a pagewise recording: {detail}; name the folder that `pagewise record` wrote", path.display())]
    NotATrace {
        /// What was looked at.
        path: PathBuf,
        /// What a trace has and this has not.
        detail: String,
    },
    /// The trace holds nothing: a file of zero length, or a recording killed before its first flush.
    #[error("{} holds no data: the recording ended before anything was written; record again", path.display())]
    Empty {
        /// The empty file, or the folder whose tables are all empty.
        path: PathBuf,
    },
    /// A file ends early.
    #[error("{} is cut short: {detail}; copy it again or record again", path.display())]
    Truncated {
        /// The file that ends early.
        path: PathBuf,
        /// Where it ends and what was expected.
        detail: String,
    },
    /// A file holds what pagewise cannot have written.
    #[error("{} is damaged: {detail}; copy it again or record again", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// The place (column, byte range) and what is wrong there.
        detail: String,
    },
    /// The trace was written by a newer pagewise.
    #[error(
        "{} has format version {found}, this pagewise reads up to {supported}: install a newer pagewise",
        path.display()
    )]
    NewerVersion {
        /// The `meta.json` that says so.
        path: PathBuf,
        /// The version found there.
        found: u64,
        /// The newest version this crate reads.
        supported: u64,
    },
    /// The output exists and was not to be overwritten.
    #[error("{} exists already: use -f to overwrite it", path.display())]
    Exists {
        /// The folder in the way.
        path: PathBuf,
    },
    /// A live recorder holds the trace.
    #[error("{} is still being recorded: end that recording (Ctrl-C) first", path.display())]
    InUse {
        /// The trace's folder.
        path: PathBuf,
    },
    /// No space is left for the trace.
    #[error("no space left to write {}: free some, or record elsewhere with -o", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// The system's error (`ENOSPC`, `EDQUOT`, or `EFBIG` where the user's limit of file sizes is reached).
        source: io::Error,
    },
    /// Any other failure of the operating system.
    #[error("cannot access {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TraceError {
    /// Wraps a failed file operation, telling a full disk apart.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => TraceError::DiskFull { path, source },
            _ => TraceError::Io { path, source },
        }
    }

    pub(crate) fn corrupt(path: &Path, detail: impl Into<String>) -> Self {
        TraceError::Corrupt {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    pub(crate) fn truncated(path: &Path, detail: impl Into<String>) -> Self {
        TraceError::Truncated {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    pub(crate) fn not_a_trace(path: &Path, detail: impl Into<String>) -> Self {
        TraceError::NotATrace {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }
}

/// Shorthand used throughout the crate.
pub(crate) type Result<T> = std::result::Result<T, TraceError>;
