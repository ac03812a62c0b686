//! Closing a trace: each stream becomes a Parquet file, then the meta file says so.
//!
//! The meta file's replacement is the one step that counts. Before it the streams are the trace,
//! whatever Parquet files lie beside them; after it the Parquet files are, whatever streams do.

use std::path::Path;

use crate::error::Result;
use crate::files;
use crate::files::Owner;
use crate::journal::JOURNAL_FILE;
use crate::journal::Segment;
use crate::parquet_write::Finished;
use crate::parquet_write::ParquetTable;
use crate::rows::Batches;
use crate::rows::Rows;
use crate::stream_read::StreamBatches;
use crate::table::Row;
use crate::table::last_of_each;
use crate::tables::TABLE_NAMES;

/// Writes the Parquet file of a table.
pub(crate) fn convert<T: Row>(
    dir: &Path,
    owner: Option<Owner>,
    segments: &[Segment],
) -> Result<Finished> {
    let mut output = ParquetTable::create::<T>(dir, owner)?;
    let mut input = StreamBatches::open(dir, T::TABLE, segments.to_vec())?;
    if let Some(key) = T::KEY {
        // Such tables are small.
        let rows = Rows::<T>::new(dir, Batches::Stream(input)).collect::<Result<Vec<T>>>()?;
        output.write_rows(last_of_each(rows, key).into_iter())?;
    } else {
        while let Some(batch) = input.next() {
            output.write::<T>(&batch?)?;
        }
    }
    output.finish()
}

/// Gives the complete files their names.
pub(crate) fn put_in_place<'a>(finished: impl Iterator<Item = &'a Finished>) -> Result<()> {
    for table in finished {
        files::rename(&files::temporary(&table.path), &table.path)?;
    }
    Ok(())
}

/// Removes Parquet files that are not complete.
pub(crate) fn remove_unfinished(dir: &Path) -> Result<()> {
    for table in TABLE_NAMES {
        let unfinished = files::temporary(&files::parquet_path(dir, table));
        files::remove_if_there(&unfinished)?;
    }
    Ok(())
}

/// Removes what only a recording needs; harmless if it is left behind.
pub(crate) fn remove_leftovers(dir: &Path) -> Result<()> {
    remove_unfinished(dir)?;
    for table in TABLE_NAMES {
        files::remove_if_there(&files::stream_path(dir, table))?;
    }
    files::remove_if_there(&dir.join(JOURNAL_FILE))?;
    files::sync_folder(dir)
}
