//! The border to the Arrow and Parquet libraries: their errors, and their panics on hostile bytes.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::panic::set_hook;
use std::panic::take_hook;
use std::path::Path;
use std::sync::Once;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::error::Result;
use crate::error::TraceError;

thread_local! {
    /// Whether this thread is in a decoder.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the program's panic hook pass over decoders.
fn silence_guarded() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let program = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                program(panic);
            }
        }));
    });
}

/// Runs a decoder, turning a panic into [`TraceError::Corrupt`].
///
/// Checksums find accidental damage before it is decoded, so this is for files made by hand. What
/// `decode` refers to must not be used again after an error: it may be half changed.
///
/// The panic's own message is not printed: the error says it.
pub(crate) fn guard<R>(path: &Path, decode: impl FnOnce() -> Result<R>) -> Result<R> {
    silence_guarded();
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(before);
    result.unwrap_or_else(|panic| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_names_the_file() {
        let error =
            guard::<()>(Path::new("events.parquet"), || panic!("no such page")).unwrap_err();
        assert!(matches!(error, TraceError::Corrupt { .. }));
        let text = error.to_string();
        assert!(
            text.contains("events.parquet") && text.contains("no such page"),
            "{text}"
        );
    }

    #[test]
    fn a_full_disk_is_told_apart_through_both_libraries() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let path = Path::new("events.parquet");
        let errors = [
            parquet_error(path, ParquetError::from(full())),
            parquet_error(path, ParquetError::External(full().into())),
            arrow_error(path, ArrowError::from(full())),
        ];
        for error in errors {
            assert!(matches!(error, TraceError::DiskFull { .. }), "{error:?}");
        }
    }
}
