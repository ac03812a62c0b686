//! Iterating over a table, one batch in memory at a time.

use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatch;

use crate::ahead::Ahead;
use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::parquet_read::ParquetBatches;
use crate::stream_read::StreamBatches;
use crate::table::Row;

/// Where a table's batches come from.
pub(crate) enum Batches {
    /// The trace has no such table.
    None,
    Stream(StreamBatches),
    // Boxed: the Parquet reader is by far the largest.
    Parquet(Box<ParquetBatches>),
    /// They are decoded by another thread.
    Ahead(Ahead),
}

impl Batches {
    pub(crate) fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self {
            Batches::None => None,
            Batches::Stream(batches) => batches.next(),
            Batches::Parquet(batches) => batches.next(),
            Batches::Ahead(ahead) => ahead.next(),
        }
    }

    pub(crate) fn rows_left(&self) -> u64 {
        match self {
            Batches::None => 0,
            Batches::Stream(batches) => batches.rows_left(),
            Batches::Parquet(batches) => batches.rows_left(),
            Batches::Ahead(ahead) => ahead.rows_left(),
        }
    }
}

/// The rows of one table in the order they were pushed, read as they are asked for.
///
/// After an error the iterator ends; the rows before it are right.
pub struct Rows<T: Row> {
    path: PathBuf,
    batches: Batches,
    columns: Option<T::Columns>,
    row: usize,
    rows: usize,
}

impl<T: Row> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<T: Row> Rows<T> {
    pub(crate) fn new(dir: &Path, batches: Batches) -> Self {
        let path = match batches {
            Batches::Stream(_) => files::stream_path(dir, T::TABLE),
            _ => files::parquet_path(dir, T::TABLE),
        };
        Rows {
            path,
            batches,
            columns: None,
            row: 0,
            rows: 0,
        }
    }

    /// Lets another thread read and decode, a few batches ahead: for those who have work of their own with each row.
    #[must_use]
    pub fn read_ahead(mut self) -> Self {
        self.batches = Ahead::of(self.batches);
        self
    }

    /// Goes to the next batch that has rows; `None` at the end.
    fn next_batch(&mut self) -> Option<Result<()>> {
        loop {
            self.columns = None;
            (self.row, self.rows) = (0, 0);
            let batch = match self.batches.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            if batch.num_rows() == 0 {
                continue;
            }
            match T::view(&batch) {
                Ok(columns) => {
                    self.columns = Some(columns);
                    self.rows = batch.num_rows();
                    return Some(Ok(()));
                }
                Err(error) => {
                    self.batches = Batches::None;
                    return Some(Err(TraceError::corrupt(&self.path, error.to_string())));
                }
            }
        }
    }
}

impl<T: Row> Iterator for Rows<T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        if self.row == self.rows
            && let Err(error) = self.next_batch()?
        {
            return Some(Err(error));
        }
        let row = self.row;
        self.row += 1;
        self.columns
            .as_ref()
            .map(|columns| Ok(T::get(columns, row)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error may cut it short, so nothing is sure but the upper bound.
        let left = self.batches.rows_left() as usize;
        (
            0,
            left.checked_add(self.rows - self.row)
                .and_then(|n| n.checked_add(1)),
        )
    }
}

impl<T: Row> std::iter::FusedIterator for Rows<T> {}
