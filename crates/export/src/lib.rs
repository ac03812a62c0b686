//! Recordings in the formats of other tools.
//!
//! ```text
//! trace --> Events: each with its object --+--> perfetto, csv, parquet   (event by event)
//!                                          '--> Tally: sums by call path --> pprof, folded
//! ```
//!
//! Memory grows with allocations, objects and call paths, not with events. What is written is as documented in
//! `docs/export.md`.

#![forbid(unsafe_code)]

mod call_paths;
mod csv;
mod error;
mod events;
pub mod fleet;
mod folded;
mod format;
mod io_folded;
mod parquet;
mod perfetto;
mod pprof;
mod tally;
#[cfg(test)]
mod tests;

use std::io::Write;

use pagewise_trace::Trace;

pub use error::ExportError;
pub use format::CallPathOf;
pub use format::Format;
pub use format::Options;
pub use format::Weight;
pub use parquet::EventRows;

use events::Events;
use tally::Tally;

/// Writes a recording to `out` in one of the formats.
///
/// Buffers what it writes, and flushes at the end.
///
/// # Errors
///
/// [`ExportError::Trace`] if a table cannot be read, [`ExportError::Output`] if `out` takes no more, and
/// [`ExportError::NoFaultPaths`] or [`ExportError::NoIo`]. What was written before is then incomplete.
pub fn export(
    trace: &Trace,
    format: Format,
    options: Options,
    out: &mut (dyn Write + Send),
) -> Result<(), ExportError> {
    let mut out = std::io::BufWriter::with_capacity(1 << 16, out);
    let mut events = Events::open(trace)?;
    match format {
        Format::Perfetto => perfetto::write(trace, &mut events, &mut out)?,
        Format::Pprof => {
            let tally = Tally::of(trace, &mut events, options.call_path_of)?;
            pprof::write(trace, &events, &tally, &mut out)?;
        }
        Format::Folded if options.weight.is_of_io() => {
            io_folded::write(trace, options.weight, &mut out)?;
        }
        Format::Folded => {
            let tally = Tally::of(trace, &mut events, options.call_path_of)?;
            folded::write(trace, &events, &tally, options.weight, &mut out)?;
        }
        Format::Csv => csv::write(&mut events, &mut out)?,
        Format::Parquet => parquet::write(EventRows::new(events), &mut out)?,
    }
    out.flush()?;
    Ok(())
}
