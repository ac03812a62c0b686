//! A table as Arrow record batches, for those who want columns and not rows.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_array::new_null_array;
use arrow_schema::ArrowError;
use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::rows::Batches;
use crate::table::Row;
use crate::table::schema;
use crate::tables::*;
use crate::trace::Trace;

/// The batches of a table, read as they are asked for; columns as in `docs/trace-format.md`.
///
/// After an error there are no more; what came before it is right. An error is an [`ArrowError::ExternalError`] around
/// a [`TraceError`](crate::TraceError).
pub struct TableBatches {
    schema: SchemaRef,
    batches: Batches,
}

impl fmt::Debug for TableBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBatches")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl TableBatches {
    fn of<T: Row>(trace: &Trace) -> Result<Self> {
        Ok(Self {
            schema: schema::<T>(),
            batches: trace.batches_of::<T>()?,
        })
    }

    /// The columns of the schema, in its order. One that an older trace lacks is null.
    fn conform(&self, batch: &RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
        let column = |field: &Arc<arrow_schema::Field>| {
            let column = batch.column_by_name(field.name()).cloned();
            column.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
        };
        let columns = self.schema.fields().iter().map(column).collect();
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl Iterator for TableBatches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.batches.next()? {
            Ok(batch) => self.conform(&batch),
            Err(error) => Err(ArrowError::ExternalError(Box::new(error))),
        })
    }
}

impl RecordBatchReader for TableBatches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

macro_rules! by_name {
    ($( $field:ident: $row:ident, )*) => {
        impl Trace {
            /// Any table as record batches; `None` if no table has that name ([`TABLE_NAMES`]). Of a table with a key
            /// ([`Space`]) every row that was pushed.
            ///
            /// # Errors
            ///
            /// As of [`Trace::rows`].
            pub fn batches(&self, table: &str) -> Result<Option<TableBatches>> {
                Ok(Some(match table {
                    $( stringify!($field) => TableBatches::of::<$row>(self)?, )*
                    _ => return Ok(None),
                }))
            }
        }
    };
}
with_all_tables!(by_name);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Meta;
    use crate::writer::Overwrite;
    use crate::writer::TraceWriter;

    #[test]
    fn a_table_has_its_columns_before_and_after_the_close() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("a trace");
        let event = |time_ns| Event {
            time_ns,
            space: 1,
            tid: None,
            kind: EventKind::Eviction,
            address: 4096,
            latency_ns: None,
            stack: None,
        };
        for time_ns in 0..3 {
            writer.events.push(event(time_ns)).expect("pushed");
        }
        writer.flush().expect("flushed");
        let batches = |table: &str| {
            let trace = Trace::open(&dir).expect("opened");
            let batches = trace.batches(table).expect("readable")?;
            let batches: std::result::Result<Vec<_>, _> = batches.collect();
            Some(batches.expect("read"))
        };
        let recording = batches("events").expect("a table");
        writer.close().expect("closed");
        let closed = batches("events").expect("a table");
        assert_eq!(recording, closed);
        assert_eq!(closed[0].num_rows(), 3);
        assert_eq!(closed[0].schema(), schema::<Event>());
        assert_eq!(batches("stalls").map(|none| none.len()), Some(0));
        assert!(batches("event").is_none());
    }
}
