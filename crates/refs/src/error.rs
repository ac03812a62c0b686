//! What can go wrong with a trace of references, each with the file it happened to and what to type next.

use std::io;
use std::path::PathBuf;

use pagewise_trace::TraceError;

/// Everything that can go wrong while references are read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefsError {
    /// The operating system does not let us read the file.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Compressed data that cannot be decompressed.
    #[error(
        "{}: its {compression} data is damaged or cut short after {bytes} decompressed bytes; copy it again",
        path.display()
    )]
    Compressed {
        /// The file.
        path: PathBuf,
        /// gzip, zstd or xz.
        compression: &'static str,
        /// How much came out before.
        bytes: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// A line that is not of the format.
    #[error(
        "{}, line {line}: {detail}: `{text}`; --skip-bad leaves such lines out, --format names another format",
        path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// What it should be.
        detail: &'static str,
        /// How it begins.
        text: String,
    },
    /// A file of records of one size that ends within a record.
    #[error(
        "{} is cut short: {bytes} bytes after the last whole record of {record_bytes}; copy it again, or use --skip-bad",
        path.display()
    )]
    PartRecord {
        /// The file.
        path: PathBuf,
        /// What is left over.
        bytes: usize,
        /// The size of a record.
        record_bytes: usize,
    },
    /// The format is not recognized, or not enough is known to read it.
    #[error("{}: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was found, and what to type.
        detail: String,
    },
    /// There is nothing to simulate.
    #[error("{} holds no references{}", path.display(), if *skipped > 0 {
        format!(": all {skipped} lines were left out; is it of the format {format}?")
    } else {
        String::new()
    })]
    Empty {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: &'static str,
        /// Lines left out.
        skipped: u64,
    },
    /// More pages than can be numbered.
    #[error("{} touches more than 2^30 pages, which is all that can be simulated", path.display())]
    TooManyPages {
        /// The file.
        path: PathBuf,
    },
    /// A recording of our own that cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
