//! Events with their recording's labels, in the types that all engines have.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::ArrayRef;
use arrow_array::DictionaryArray;
use arrow_array::Int32Array;
use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::types::Int64Type;
use arrow_array::types::UInt32Type;
use arrow_array::types::UInt64Type;
use arrow_schema::ArrowError;
use arrow_schema::DataType;
use arrow_schema::Field;
use arrow_schema::Schema;
use arrow_schema::SchemaRef;

use crate::parquet::EventRows;

/// The columns that say which recording a row is of; the second and third may be unknown.
const LABELS: [(&str, bool); 3] = [("recording", false), ("service", true), ("release", true)];

/// [`EventRows`] behind the labels of their recording. Whole numbers are signed 64-bit ones: Hive's types have no others
/// as large, and neither addresses of programs nor times reach their sign.
pub(super) struct LabelledRows {
    rows: EventRows,
    labels: [Option<String>; 3],
    schema: SchemaRef,
}

impl LabelledRows {
    pub(super) fn new(rows: EventRows, labels: [Option<&str>; 3]) -> Self {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let labels_of = LABELS.map(|(name, may_lack)| Field::new(name, text.clone(), may_lack));
        let event = rows.schema();
        let of_event = event.fields().iter().map(|field| {
            let signed = match field.data_type() {
                DataType::UInt32 | DataType::UInt64 => DataType::Int64,
                other => other.clone(),
            };
            Field::new(field.name(), signed, field.is_nullable())
        });
        let fields: Vec<Field> = labels_of.into_iter().chain(of_event).collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
            labels: labels.map(|label| label.map(str::to_owned)),
            rows,
        }
    }

    fn labelled(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let label = |text: &Option<String>| repeated(text.as_deref(), batch.num_rows());
        let labels = self.labels.iter().map(label);
        let columns = labels.chain(batch.columns().iter().map(signed)).collect();
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl Iterator for LabelledRows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.rows.next()?;
        Some(batch.and_then(|batch| self.labelled(&batch)))
    }
}

impl RecordBatchReader for LabelledRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn signed(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::UInt64 => {
            let numbers = column.as_primitive::<UInt64Type>();
            Arc::new(numbers.unary::<_, Int64Type>(u64::cast_signed))
        }
        DataType::UInt32 => {
            let numbers = column.as_primitive::<UInt32Type>();
            Arc::new(numbers.unary::<_, Int64Type>(i64::from))
        }
        _ => column.clone(),
    }
}

fn repeated(text: Option<&str>, rows: usize) -> ArrayRef {
    let keys = Int32Array::from(vec![text.map(|_| 0); rows]);
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(text));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}
