//! Reading a closed table.

use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use crate::checksum::CheckedFile;
use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::guard::arrow_error;
use crate::guard::guard;
use crate::guard::parquet_error;
use crate::meta::Meta;
use crate::parquet_pages;
use crate::table::Row;

/// Small enough for a batch to stay in the processor's cache.
const BATCH_ROWS: usize = 16_384;

/// The batches of a Parquet table.
pub(crate) struct ParquetBatches {
    path: PathBuf,
    file: CheckedFile,
    /// `None` after the end or an error.
    reader: Option<ParquetRecordBatchReader>,
    rows_left: u64,
}

impl ParquetBatches {
    /// Opens the table; `None` if the trace has none of that name, being older than it.
    pub(crate) fn open<T: Row>(dir: &Path, meta: &Meta) -> Result<Option<Self>> {
        let path = files::parquet_path(dir, T::TABLE);
        let expected_rows = meta.row_counts.get(T::TABLE).copied();
        if !path.exists() {
            return match expected_rows {
                None => Ok(None),
                Some(rows) => Err(TraceError::corrupt(
                    &path,
                    format!("the file is missing, with its {rows} rows"),
                )),
            };
        }
        let file = CheckedFile::open(&path, meta.checksums.get(T::TABLE))?;
        let (reader, rows) = guard(&path, || {
            start::<T>(&file).map_err(|error| because(&file, parquet_error(&path, error)))
        })?;
        if expected_rows.is_some_and(|expected| expected != rows) {
            let detail = format!("it has {rows} rows, not as many as meta.json says");
            return Err(TraceError::corrupt(&path, detail));
        }
        Ok(Some(ParquetBatches {
            path,
            file,
            reader: Some(reader),
            rows_left: rows,
        }))
    }

    pub(crate) fn rows_left(&self) -> u64 {
        self.rows_left
    }

    pub(crate) fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut reader = self.reader.take()?;
        let next = guard(&self.path, || {
            let batch = reader.next().transpose();
            batch.map_err(|error: ArrowError| arrow_error(&self.path, error))
        });
        match next.and_then(|batch| self.count(batch)) {
            Ok(None) => None,
            Ok(Some(batch)) => {
                self.reader = Some(reader);
                Some(Ok(batch))
            }
            Err(error) => Some(Err(because(&self.file, error))),
        }
    }

    /// Checks that the pages hold as many rows as the file's footer says.
    fn count(&mut self, batch: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        let Some(batch) = batch else {
            return match self.rows_left {
                0 => Ok(None),
                missing => Err(TraceError::corrupt(
                    &self.path,
                    format!("it lacks {missing} of its rows"),
                )),
            };
        };
        let left = self.rows_left.checked_sub(batch.num_rows() as u64);
        self.rows_left = left.ok_or_else(|| {
            TraceError::corrupt(&self.path, "it has more rows than its footer says")
        })?;
        Ok(Some(batch))
    }
}

/// Reads the footer and prepares to read the columns that `T` knows.
fn start<T: Row>(
    file: &CheckedFile,
) -> std::result::Result<(ParquetRecordBatchReader, u64), ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    let is_known = |name: &str| T::columns().iter().any(|column| column.name == name);
    parquet_pages::check(file, builder.metadata(), is_known)?;
    let rows = builder.metadata().file_metadata().num_rows();
    let rows = u64::try_from(rows)
        .map_err(|_| ParquetError::General(format!("the footer counts {rows} rows")))?;
    let known = T::columns();
    let wanted = builder.schema().fields().iter().enumerate();
    let wanted = wanted
        .filter(|(_, field)| known.iter().any(|column| column.name == field.name()))
        .map(|(index, _)| index)
        .collect::<Vec<_>>();
    let columns = ProjectionMask::roots(builder.parquet_schema(), wanted);
    let reader = builder
        .with_projection(columns)
        .with_batch_size(BATCH_ROWS)
        .build()?;
    Ok((reader, rows))
}

/// Prefers the failure of the file below to what the library made of it.
fn because(file: &CheckedFile, error: TraceError) -> TraceError {
    file.take_failure().unwrap_or(error)
}
