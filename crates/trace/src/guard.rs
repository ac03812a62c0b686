//! The border to the Arrow and Parquet libraries: their errors, and their panics on hostile bytes.

use std::error::Error;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

use crate::error::Result;
use crate::error::TraceError;

/// Runs a decoder, turning a panic into [`TraceError::Corrupt`].
///
/// Checksums find accidental damage before it is decoded, so this is for files made by hand. What
/// `decode` refers to must not be used again after an error: it may be half changed.
pub(crate) fn guard<R>(path: &Path, decode: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        Err(TraceError::corrupt(
            path,
            format!("its decoder gave up ({reason})"),
        ))
    })
}

/// Wraps an error of the Arrow library about the file at `path`.
pub(crate) fn arrow_error(path: &Path, error: ArrowError) -> TraceError {
    match error {
        ArrowError::IoError(_, source) => TraceError::io(path, source),
        ArrowError::ExternalError(source) => external(path, source),
        error => TraceError::corrupt(path, error.to_string()),
    }
}

/// Wraps an error of the Parquet library about the file at `path`.
pub(crate) fn parquet_error(path: &Path, error: ParquetError) -> TraceError {
    match error {
        ParquetError::External(source) => external(path, source),
        ParquetError::EOF(detail) => TraceError::truncated(path, detail),
        error => TraceError::corrupt(path, error.to_string()),
    }
}

fn external(path: &Path, source: Box<dyn Error + Send + Sync>) -> TraceError {
    match source.downcast::<io::Error>() {
        Ok(source) => TraceError::io(path, *source),
        Err(source) => TraceError::corrupt(path, source.to_string()),
    }
}
