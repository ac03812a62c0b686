//! Recordings of many hosts as one data set, partitioned as Hive does it.
//!
//! ```text
//! FOLDER/recordings/host=NAME/date=YYYY-MM-DD/ID.parquet    one row: what was recorded, and its sums
//! FOLDER/events/host=NAME/date=YYYY-MM-DD/ID.parquet        the rows of `export parquet`, with the recording's labels
//! ```
//!
//! A recording belongs to the data set once its row of `recordings` is there, which is written last. Each file gets its
//! name when it is complete and on disk. Documented in `docs/fleet.md`.

mod date;
mod error;
mod labels;
mod recording;
mod rows;
#[cfg(test)]
mod tests;

use std::fs;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatchIterator;
use arrow_array::RecordBatchReader;
use pagewise_trace::State;
use pagewise_trace::Trace;

pub use error::FleetError;
pub use labels::Labels;

use crate::error::ExportError;
use crate::parquet;
use crate::parquet::EventRows;
use labels::Known;
use rows::LabelledRows;

/// The folder of the table with a row for each recording.
pub const RECORDINGS: &str = "recordings";
/// The folder of the table with a row for each event.
pub const EVENTS: &str = "events";

/// What became of a recording that was to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is there now: its row of [`RECORDINGS`], and its rows of [`EVENTS`].
    Added {
        /// The file of its events.
        events: PathBuf,
        /// The file of its row.
        recording: PathBuf,
    },
    /// It had been there, in this file; nothing was changed.
    Already(PathBuf),
}

/// Adds a recording to the data set in `folder`, which is made if it is not there.
///
/// # Errors
///
/// [`FleetError`]; what was written before has no row in [`RECORDINGS`], and is replaced by the next attempt.
pub fn append(trace: &Trace, folder: &Path, labels: &Labels) -> Result<Appended, FleetError> {
    if trace.meta().state != State::Closed {
        let path = trace.dir().to_owned();
        return Err(FleetError::NotClosed { path });
    }
    let known = labels.resolve(trace)?;
    let id = labels::identity(trace.meta());
    let name = format!("{id}.parquet");
    if let Some(path) = find(&folder.join(RECORDINGS), &name)? {
        return Ok(Appended::Already(path));
    }
    let partition = Path::new(&known.host_folder()).join(known.date_folder());
    let place = |table: &str| folder.join(table).join(&partition).join(&name);
    let (events, recording) = (place(EVENTS), place(RECORDINGS));
    let findings = pagewise_analyze::analyze(trace)?;
    write(&events, event_rows(trace, &known, &id)?)?;
    let row = recording::row(&findings, &known, &id)
        .map_err(|error| FleetError::of_file(&recording, error.into()))?;
    let schema = row.schema();
    write(&recording, RecordBatchIterator::new([Ok(row)], schema))?;
    Ok(Appended::Added { events, recording })
}

fn event_rows(trace: &Trace, known: &Known, id: &str) -> Result<LabelledRows, FleetError> {
    let labels = [Some(id), known.service.as_deref(), known.release.as_deref()];
    Ok(LabelledRows::new(EventRows::open(trace)?, labels))
}

/// The file of that name in any partition: host and date may have been given otherwise before.
fn find(table: &Path, name: &str) -> Result<Option<PathBuf>, FleetError> {
    for host in folders(table)? {
        for date in folders(&host)? {
            let path = date.join(name);
            if path.exists() {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

/// The partitions in a folder; none if there is no such folder.
fn folders(of: &Path) -> Result<Vec<PathBuf>, FleetError> {
    let failed = |source| FleetError::Read {
        path: of.to_owned(),
        source,
    };
    let entries = match fs::read_dir(of) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().contains('=') {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Beside its place and under a name that no engine takes for data, until it is complete.
fn write(path: &Path, rows: impl RecordBatchReader) -> Result<(), FleetError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let unfinished = folder.join(format!(".{stem}.{}.tmp", std::process::id()));
    let written = (|| -> Result<(), ExportError> {
        fs::create_dir_all(folder)?;
        let mut out = BufWriter::with_capacity(1 << 16, File::create(&unfinished)?);
        parquet::write(rows, &mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(fs::rename(&unfinished, path)?)
    })();
    written.map_err(|error| {
        // The first error is the one that matters.
        let _ = fs::remove_file(&unfinished);
        FleetError::of_file(path, error)
    })
}
