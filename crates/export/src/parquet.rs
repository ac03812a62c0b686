//! Each event as a row of one table, with its object's names beside it: no join is needed.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::DictionaryArray;
use arrow_array::Int32Array;
use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_array::StringArray;
use arrow_array::UInt32Array;
use arrow_array::UInt64Array;
use arrow_array::types::Int32Type;
use arrow_schema::ArrowError;
use arrow_schema::DataType;
use arrow_schema::Field;
use arrow_schema::Schema;
use arrow_schema::SchemaRef;
use pagewise_analyze::Identity;
use pagewise_trace::EventKind;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::basic::Encoding;
use parquet::basic::ZstdLevel;
use parquet::errors::ParquetError;
use parquet::file::properties::EnabledStatistics;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::error::ExportError;
use crate::events::Events;
use crate::events::LocatedEvent;

/// Rows that are built at once.
const BATCH_ROWS: usize = 1 << 14;
/// Rows that the writer holds, encoded, until they are written.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Of these the difference to the row before is small.
const DELTA_COLUMNS: &[&str] = &["time_ns", "address", "latency_ns", "page"];

pub(crate) fn write<W: Write + Send>(
    rows: impl RecordBatchReader,
    out: &mut W,
) -> Result<(), ExportError> {
    // Without the Arrow schema, readers see plain text columns and not dictionaries.
    let options = ArrowWriterOptions::new()
        .with_properties(properties())
        .with_skip_arrow_metadata(true);
    let mut table = ArrowWriter::try_new_with_options(out, rows.schema(), options)?;
    for batch in rows {
        table.write(&batch.map_err(from_arrow)?)?;
    }
    table.close()?;
    Ok(())
}

/// What [`EventRows`] wrapped.
fn from_arrow(error: ArrowError) -> ExportError {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<TraceError>() {
            Ok(error) => ExportError::Trace(*error),
            Err(inner) => ParquetError::External(inner).into(),
        },
        error => ParquetError::from(error).into(),
    }
}

/// The events as record batches: what [`Format::Parquet`](crate::Format::Parquet) writes.
pub struct EventRows {
    events: Events,
    schema: SchemaRef,
    kinds: ArrayRef,
    names: Names,
}

impl std::fmt::Debug for EventRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRows").finish_non_exhaustive()
    }
}

impl EventRows {
    /// Of a recording. Errors later on are [`ArrowError::ExternalError`]s around a [`TraceError`].
    ///
    /// # Errors
    ///
    /// [`TraceError`] if a table cannot be read.
    pub fn open(trace: &Trace) -> Result<Self, TraceError> {
        Ok(Self::new(Events::open(trace)?))
    }

    pub(crate) fn new(events: Events) -> Self {
        Self {
            events,
            schema: schema(),
            kinds: text_values(EventKind::ALL.iter().map(|kind| Some(kind.as_str()))),
            names: Names::default(),
        }
    }
}

impl RecordBatchReader for EventRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Iterator for EventRows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rows: Vec<LocatedEvent> = Vec::with_capacity(BATCH_ROWS);
        while rows.len() < BATCH_ROWS {
            match self.events.next() {
                Ok(Some(event)) => rows.push(event),
                Ok(None) => break,
                Err(error) => return Some(Err(ArrowError::ExternalError(Box::new(error)))),
            }
        }
        if rows.is_empty() {
            return None;
        }
        self.names.follow(&self.events);
        let columns = columns(&self.events, &rows, &self.kinds, &self.names);
        Some(RecordBatch::try_new(self.schema.clone(), columns))
    }
}

fn schema() -> SchemaRef {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("time_ns", DataType::UInt64, false),
        Field::new("space", DataType::UInt32, false),
        Field::new("pid", DataType::UInt32, true),
        Field::new("tid", DataType::UInt32, true),
        Field::new("kind", text(), false),
        Field::new("address", DataType::UInt64, false),
        Field::new("latency_ns", DataType::UInt64, true),
        Field::new("object", text(), false),
        Field::new("object_kind", text(), false),
        Field::new("name", text(), true),
        Field::new("file", text(), true),
        Field::new("line", DataType::UInt32, true),
        Field::new("function", text(), true),
        Field::new("page", DataType::UInt64, true),
    ]))
}

fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("pagewise ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for column in DELTA_COLUMNS {
        let path = ColumnPath::from(*column);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn text_values<'text>(values: impl Iterator<Item = Option<&'text str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

/// The texts of all objects known so far, by number, and which of them are there.
#[derive(Default)]
struct Names {
    columns: Vec<TextColumn>,
    objects: usize,
}

struct TextColumn {
    /// Each once, as pandas wants the categories of a column.
    values: ArrayRef,
    /// Which of them the object of that number has.
    keys: Vec<Option<i32>>,
}

impl Names {
    /// Adds the objects that have turned up since.
    fn follow(&mut self, events: &Events) {
        if self.objects == events.objects() && !self.columns.is_empty() {
            return;
        }
        self.objects = events.objects();
        let labels: Vec<String> = (0..self.objects)
            .map(|object| events.identity(object).to_string())
            .collect();
        let of_identity = |text: fn(&Identity) -> Option<&str>| {
            column((0..self.objects).map(|object| text(events.identity(object))))
        };
        self.columns = vec![
            column(labels.iter().map(|label| Some(label.as_str()))),
            of_identity(|identity| Some(identity.kind.name())),
            of_identity(|identity| identity.name.as_deref()),
            of_identity(|identity| identity.file.as_deref()),
            of_identity(|identity| identity.function.as_deref()),
        ];
    }

    /// One of the text columns, for these rows.
    fn of(&self, column: usize, rows: &[LocatedEvent]) -> ArrayRef {
        let TextColumn { values, keys } = &self.columns[column];
        let of_rows = rows.iter().map(|row| keys[row.place.object]);
        dictionary(of_rows.collect(), values)
    }
}

fn column<'text>(texts: impl Iterator<Item = Option<&'text str>>) -> TextColumn {
    let mut numbers: HashMap<&str, i32> = HashMap::new();
    let mut values = Vec::new();
    let keys = texts.map(|text| {
        let text = text?;
        let number = numbers.entry(text).or_insert_with(|| {
            values.push(Some(text));
            values.len() as i32 - 1
        });
        Some(*number)
    });
    TextColumn {
        keys: keys.collect(),
        values: text_values(values.into_iter()),
    }
}

fn dictionary(keys: Int32Array, values: &ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values.clone()))
}

fn columns(
    events: &Events,
    rows: &[LocatedEvent],
    kinds: &ArrayRef,
    names: &Names,
) -> Vec<ArrayRef> {
    let kind_of = |row: &LocatedEvent| Some(row.event.kind as i32);
    vec![
        numbers_64(rows, |row| Some(row.event.time_ns)),
        numbers_32(rows, |row| Some(row.event.space)),
        numbers_32(rows, |row| events.pid(row.event.space)),
        numbers_32(rows, |row| row.event.tid),
        dictionary(rows.iter().map(kind_of).collect(), kinds),
        numbers_64(rows, |row| Some(row.event.address)),
        numbers_64(rows, |row| row.event.latency_ns),
        names.of(0, rows),
        names.of(1, rows),
        names.of(2, rows),
        names.of(3, rows),
        numbers_32(rows, |row| events.identity(row.place.object).line),
        names.of(4, rows),
        numbers_64(rows, |row| row.place.page),
    ]
}

fn numbers_64(rows: &[LocatedEvent], value: impl Fn(&LocatedEvent) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt64Array>())
}

fn numbers_32(rows: &[LocatedEvent], value: impl Fn(&LocatedEvent) -> Option<u32>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt32Array>())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

    use super::*;
    use crate::Format;
    use crate::Options;
    use crate::tests::exported;
    use crate::tests::trace_of;
    use crate::tests::usual_events;

    #[test]
    fn rows_come_back_with_plain_texts() {
        let (_folder, trace) = trace_of(&usual_events());
        let bytes = exported(&trace, Format::Parquet, Options::default());
        let reader = ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 100);
        let batch = reader.expect("opened").next().expect("rows").expect("read");
        assert_eq!(batch.num_rows(), 10);
        let text = |name: &str, row: usize| {
            let column = batch
                .column_by_name(name)
                .expect("a column")
                .as_string::<i32>();
            column.is_valid(row).then(|| column.value(row).to_owned())
        };
        assert_eq!(text("kind", 4).as_deref(), Some("swap_in"));
        assert_eq!(text("object", 4).as_deref(), Some("grid (sweep.c:12)"));
        assert_eq!(text("name", 4).as_deref(), Some("grid"));
        assert_eq!(text("name", 9), None);
        assert_eq!(text("object_kind", 9).as_deref(), Some("unknown"));
        let pages = batch
            .column_by_name("page")
            .expect("a column")
            .as_primitive::<UInt64Type>();
        assert!(pages.value(5) == 1 && pages.is_null(9));
    }

    #[test]
    fn the_columns_are_those_of_the_text() {
        let schema = schema();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names, crate::csv::COLUMNS);
    }
}
