//! Columns for Python, by the Arrow PyCapsule interface: pyarrow, pandas, Polars and DuckDB take them without copying.

use std::ffi::CStr;

use arrow_array::RecordBatch;
use arrow_array::RecordBatchIterator;
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::of_trace;
use crate::source::Source;

/// The name that the interface gives a stream's capsule.
const STREAM: &CStr = c"arrow_array_stream";

/// A table: columns of Arrow, read when they are asked for.
#[pyclass(frozen, module = "pagewise._native")]
pub(crate) struct Table {
    pub(crate) content: Content,
}

/// What a table is made of.
pub(crate) enum Content {
    /// Held.
    Batch(RecordBatch),
    /// Read from a recording each time.
    OfTrace(Source),
}

impl Content {
    fn reader(&self) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        match self {
            Self::Batch(batch) => {
                let batches: Vec<Result<_, ArrowError>> = vec![Ok(batch.clone())];
                Ok(Box::new(RecordBatchIterator::new(batches, batch.schema())))
            }
            Self::OfTrace(source) => source.reader().map_err(|error| of_trace(&error)),
        }
    }
}

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface: a stream of record batches. A schema that is asked for is not looked at, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = FFI_ArrowArrayStream::new(self.content.reader()?);
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> PyResult<Vec<String>> {
        let schema = self.content.reader()?.schema();
        let fields = schema.fields().iter();
        Ok(fields.map(|field| field.name().clone()).collect())
    }
}
