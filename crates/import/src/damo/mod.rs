//! What `damo` (the user-space tool of DAMON) writes: `damo record` in the formats `json` and `json_compressed`,
//! `damo report access --json`, and `damo report access --raw_form`.
//!
//! After damo 3.3: `DamonRecord`, `DamonSnapshot` and `DamonRegion` in `src/_damo_records.py` and `src/_damon.py`, and
//! `pr_records_raw_form` in `src/damo_report_access.py` of github.com/damonitor/damo. Also read: what older versions wrote,
//! without ages or without thousands separators. Not read: `perf.data`, and what `perf script` makes of it.

mod json;
mod metered;
mod number;
mod raw;
mod snapshot;

use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;
use pagewise_trace::RegionAccess;

use crate::error::ImportError;
use snapshot::Rows;

/// Takes the rows, in the order of the file.
pub type Sink<'sink> = &'sink mut dyn FnMut(RegionAccess) -> Result<(), ImportError>;

/// What was in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Intervals, of each target by itself.
    pub snapshots: u64,
    /// Rows handed out.
    pub regions: u64,
    /// Different targets.
    pub targets: u32,
}

/// Enough to tell the formats apart.
const HEAD_BYTES: usize = 512;

/// Reads a file and hands its regions to `sink`.
///
/// # Errors
///
/// All of [`ImportError`]; rows before the place it names may have been handed out.
pub fn read(path: &Path, sink: Sink<'_>) -> Result<Summary, ImportError> {
    let io_error = |source| ImportError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(io_error)?;
    if file.metadata().map_err(io_error)?.is_dir() {
        return Err(io_error(io::ErrorKind::IsADirectory.into()));
    }
    let mut file = BufReader::with_capacity(1 << 16, file);
    let head = head(&mut file).map_err(io_error)?;
    let file = io::Cursor::new(head.clone()).chain(file);
    let mut rows = Rows::new(sink);
    let result = match kind_of(&head) {
        Kind::Compressed => json::read(ZlibDecoder::new(file), &mut rows),
        Kind::Json => json::read(file, &mut rows),
        Kind::Raw => raw::read(file, &mut rows),
        Kind::Empty => Err(Fault::Truncated("it has no bytes".to_owned())),
        Kind::Other(looks_like) => Err(Fault::Format(format!(
            "{looks_like}; write one with: damo record --output_type json_compressed, or: damo report access --raw_form"
        ))),
    };
    result.map_err(|fault| fault.at(path))?;
    let summary = rows.summary();
    if summary.regions == 0 {
        return Err(ImportError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(summary)
}

fn head(file: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

enum Kind {
    Compressed,
    Json,
    Raw,
    Empty,
    Other(&'static str),
}

fn kind_of(head: &[u8]) -> Kind {
    let text = head.trim_ascii_start();
    let contains = |words: &[u8]| head.windows(words.len()).any(|part| part == words);
    if head.is_empty() {
        Kind::Empty
    } else if head.starts_with(b"PERFILE2") {
        Kind::Other("it is a perf.data file")
    } else if is_zlib(head) {
        Kind::Compressed
    } else if text.starts_with(b"[") || text.starts_with(b"{") {
        Kind::Json
    } else if text.starts_with(b"base_time_absolute") {
        Kind::Raw
    } else if contains(b"damon:damon_aggregated") || contains(b"damon_aggregated:") {
        Kind::Other("it is the output of perf script")
    } else {
        Kind::Other("it begins like none of damo's formats")
    }
}

/// RFC 1950: method 8, window of at most 32 KiB, and the check of the two bytes.
fn is_zlib(head: &[u8]) -> bool {
    match head {
        [method, flags, ..] => {
            method & 0x0f == 8
                && method >> 4 <= 7
                && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0
        }
        _ => false,
    }
}

/// What is wrong with a file, before its path is added.
#[derive(Debug)]
enum Fault {
    Read(io::Error),
    Format(String),
    Truncated(String),
    Invalid(String),
    /// The sink's own failure.
    Sink(ImportError),
}

impl Fault {
    fn at(self, path: &Path) -> ImportError {
        let path = path.to_owned();
        match self {
            Self::Read(source) => ImportError::Read { path, source },
            Self::Format(detail) => ImportError::Format { path, detail },
            Self::Truncated(detail) => ImportError::Truncated { path, detail },
            Self::Invalid(detail) => ImportError::Invalid { path, detail },
            Self::Sink(error) => error,
        }
    }
}
