//! How a program reads and writes files: each call path's way of doing so (its *context*), and what the page cache had
//! of it.
//!
//! ```text
//!   io_calls --\                /-> runs: where does the next call begin?   --\
//!               > in time order -> pages: read again? cached in vain?        --> contexts with a class --> files
//!   io_cache --/                \-> latencies, bytes, misses                --/
//! ```
//!
//! The idea, and the classes, are those of program contexts (Y. Jin, M.S. thesis, Seoul National University 2019).

mod alike;
mod balance;
mod class;
mod context;
mod files;
mod heat;
mod pages;
mod runs;
mod tallies;
mod who;

use pagewise_trace::IoCache;
use pagewise_trace::IoCall;
use pagewise_trace::IoSum;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

pub use class::Advice;
pub use class::Class;
pub use class::Thresholds;
pub use class::WhyNothing;
pub use context::IoContext;
pub use context::Reuse;
pub use context::Use;
pub use files::FileUse;
pub use heat::Heat;
pub use runs::NEAR_CALLS;
pub use runs::Runs;

use tallies::Tallies;

/// All that is said of input and output.
#[derive(Clone, Debug, Default)]
pub struct FileIo {
    /// Most bytes first.
    pub contexts: Vec<IoContext>,
    /// Most bytes first.
    pub files: Vec<FileUse>,
    /// Call paths, in each direction: fewer than contexts where one uses some of its files in another way than the rest.
    pub call_paths: u64,
    /// Single calls are not there, at least in part: what needs them is unknown.
    pub summed: bool,
    /// What came into the page cache and left it was not seen: what needs that is unknown.
    pub cache_unseen: bool,
    /// Call paths of which there were too many to be told apart: they are together in a context without a path.
    pub paths_beyond: u64,
    /// Bytes in whole pages that were used, but that there was no room to follow: of the contexts and files that used them it is not known what was
    /// used again.
    pub beyond_bytes: u64,
    /// Bytes that the kernel evicted from the page cache of files that were used; `None`: what it did was not recorded.
    pub evicted_bytes: Option<u64>,
    /// Calls of all contexts; faults on mappings are none.
    pub calls: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
}

/// Goes through a trace once. `None`: input and output were not recorded.
///
/// # Errors
/// If a table cannot be read.
pub fn analyze_file_io(trace: &Trace) -> Result<Option<FileIo>, TraceError> {
    analyze_file_io_by(trace, &Thresholds::default())
}

/// The same with other thresholds.
///
/// # Errors
/// As there.
pub fn analyze_file_io_by(
    trace: &Trace,
    thresholds: &Thresholds,
) -> Result<Option<FileIo>, TraceError> {
    if !trace.meta().has_recorded("io") {
        return Ok(None);
    }
    let mut tallies = Tallies::new(trace.io_files()?);
    let mut calls = trace.rows::<IoCall>()?.peekable();
    let mut changes = trace.rows::<IoCache>()?.peekable();
    loop {
        let call_at = calls
            .peek()
            .map(|row| row.as_ref().map_or(0, |row| row.time_ns));
        let change_at = changes
            .peek()
            .map(|row| row.as_ref().map_or(0, |row| row.time_ns));
        // Pages come before the call that brought them in has ended.
        let change_is_next = change_at.is_some_and(|at| call_at.is_none_or(|call| at <= call));
        if change_is_next {
            if let Some(row) = changes.next() {
                tallies.change(&row?);
            }
        } else if let Some(row) = calls.next() {
            tallies.call(&row?);
        } else {
            break;
        }
    }
    for row in trace.rows::<IoSum>()? {
        tallies.sum(&row?);
    }
    tallies.finish(trace, thresholds).map(Some)
}
