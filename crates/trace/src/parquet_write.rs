//! Turning a stream into its Parquet file, batch by batch.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::basic::Encoding as ParquetEncoding;
use parquet::basic::ZstdLevel;
use parquet::file::properties::EnabledStatistics;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::checksum::SummingWriter;
use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::files::Owner;
use crate::guard::arrow_error;
use crate::guard::parquet_error;
use crate::meta::Checksums;
use crate::table;
use crate::table::Encoding;
use crate::table::Row;

/// Rows kept in memory (encoded) before they are written: about 8 MB of events.
const ROW_GROUP_ROWS: usize = 1 << 20;

type Sink = SummingWriter<BufWriter<File>>;

/// A Parquet file that appears under its name when it is complete.
pub(crate) struct ParquetTable {
    path: PathBuf,
    writer: ArrowWriter<Sink>,
    schema: SchemaRef,
    rows: u64,
}

/// A complete Parquet file, still under its temporary name.
pub(crate) struct Finished {
    pub(crate) path: PathBuf,
    pub(crate) rows: u64,
    pub(crate) checksums: Checksums,
}

impl ParquetTable {
    pub(crate) fn create<T: Row>(dir: &Path, owner: Option<Owner>) -> Result<ParquetTable> {
        let path = files::parquet_path(dir, T::TABLE);
        let file = files::create(&files::temporary(&path), owner)?;
        let sink = SummingWriter::new(BufWriter::new(file));
        let schema = table::schema::<T>();
        let writer = ArrowWriter::try_new(sink, schema.clone(), Some(properties::<T>()))
            .map_err(|error| parquet_error(&path, error))?;
        Ok(ParquetTable {
            path,
            writer,
            schema,
            rows: 0,
        })
    }

    /// Adds a batch of `T`'s rows, whatever version of `T` wrote it.
    pub(crate) fn write<T: Row>(&mut self, batch: &RecordBatch) -> Result<()> {
        if *batch.schema() == *self.schema {
            return self.write_conforming(batch);
        }
        let columns =
            T::view(batch).map_err(|error| TraceError::corrupt(&self.path, error.to_string()))?;
        self.write_rows((0..batch.num_rows()).map(|row| T::get(&columns, row)))
    }

    /// Adds rows; they must fit into memory.
    pub(crate) fn write_rows<T: Row>(&mut self, rows: impl Iterator<Item = T>) -> Result<()> {
        let mut builders = T::Builders::default();
        for row in rows {
            row.append(&mut builders);
        }
        let batch = RecordBatch::try_new(self.schema.clone(), T::finish(&mut builders))
            .map_err(|error| arrow_error(&self.path, error))?;
        self.write_conforming(&batch)
    }

    fn write_conforming(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer
            .write(batch)
            .map_err(|error| parquet_error(&self.path, error))
    }

    /// Ends the file and waits until it is on the disk.
    pub(crate) fn finish(self) -> Result<Finished> {
        let ParquetTable {
            path, writer, rows, ..
        } = self;
        let sink = writer
            .into_inner()
            .map_err(|error| parquet_error(&path, error))?;
        let (sink, checksums) = sink.finish();
        sink.into_inner()
            .map_err(|error| error.into_error())
            .and_then(|file| file.sync_all())
            .map_err(|source| TraceError::io(&path, source))?;
        Ok(Finished {
            path,
            rows,
            checksums,
        })
    }
}

fn properties<T: Row>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("pagewise-trace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for column in T::columns() {
        if column.encoding == Encoding::Delta {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, ParquetEncoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}
