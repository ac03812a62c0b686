//! What can go wrong with an export.

use std::error::Error;
use std::io;

use pagewise_trace::TraceError;

/// Everything that can go wrong with an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The output takes no more: see the source.
    #[error("cannot write")]
    Output(#[from] io::Error),
    /// Call paths of faults were asked for and there are none.
    #[error(
        "no fault in this recording has a call path: leave out --call-path fault, or record with call paths of faults"
    )]
    NoFaultPaths,
    /// Calls on files were asked for and not recorded.
    #[error("no calls on files in this recording: record with --io")]
    NoIo,
}

impl ExportError {
    /// The reader of a pipe has left, which is no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The failed write behind a library's error, if that is what it is.
fn write_error<E: Error + Send + Sync + 'static>(error: E) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(found) = inner.downcast_ref::<io::Error>() {
            return match found.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(found.kind(), error.to_string()),
            };
        }
        cause = inner.source();
    }
    io::Error::other(error)
}

impl From<::parquet::errors::ParquetError> for ExportError {
    fn from(error: ::parquet::errors::ParquetError) -> Self {
        Self::Output(write_error(error))
    }
}

impl From<arrow_schema::ArrowError> for ExportError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Output(write_error(error))
    }
}

impl From<::csv::Error> for ExportError {
    fn from(error: ::csv::Error) -> Self {
        // This one does not tell its source.
        let text = error.to_string();
        Self::Output(match error.into_kind() {
            ::csv::ErrorKind::Io(error) => error,
            _ => io::Error::other(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_seen_through_every_library() {
        let closed = || io::Error::from_raw_os_error(32);
        let errors: [ExportError; 4] = [
            closed().into(),
            ::parquet::errors::ParquetError::External(closed().into()).into(),
            arrow_schema::ArrowError::from(closed()).into(),
            ::csv::Error::from(closed()).into(),
        ];
        for error in errors {
            assert!(error.is_broken_pipe(), "{error:?}");
        }
        assert!(!ExportError::NoFaultPaths.is_broken_pipe());
    }
}
