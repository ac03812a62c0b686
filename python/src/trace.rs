//! Recordings.

use std::path::Path;
use std::path::PathBuf;

use pagewise_analyze::Findings;
use pagewise_analyze::Observed;
use pagewise_analyze::analyze;
use pagewise_analyze::sum_by_object;
use pagewise_host::MemorySize;
use pagewise_host::lockable_bytes;
use pagewise_host::page_bytes;
use pagewise_report::json::Report;
use pagewise_trace::META_FILE;
use pagewise_trace::TABLE_NAMES;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::errors::asked;
use crate::errors::of_advice;
use crate::errors::of_trace;
use crate::interrupt::interruptible;
use crate::objects;
use crate::source::Source;
use crate::sums;
use crate::table::Content;
use crate::table::Table;

/// A recording of `pagewise record`.
#[pyclass(frozen, module = "pagewise._native")]
pub(crate) struct Trace {
    path: PathBuf,
}

#[pymethods]
impl Trace {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        pagewise_trace::Trace::open(&path).map_err(|error| of_trace(&error))?;
        Ok(Self { path })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// `meta.json` as text.
    fn meta_json(&self) -> PyResult<String> {
        let file = self.path.join(META_FILE);
        std::fs::read_to_string(&file)
            .map_err(|error| Error::new_err(format!("cannot read {}: {error}", file.display())))
    }

    #[staticmethod]
    fn table_names() -> Vec<&'static str> {
        TABLE_NAMES.to_vec()
    }

    fn table(&self, name: &str) -> PyResult<Table> {
        if !TABLE_NAMES.contains(&name) {
            let names = TABLE_NAMES.join(", ");
            return Err(PyKeyError::new_err(format!(
                "no table {name}; there are: {names}"
            )));
        }
        let content = Content::OfTrace(Source::Table(self.path.clone(), name.to_owned()));
        Ok(Table { content })
    }

    /// Every event with its object beside it.
    fn events(&self) -> Table {
        Table {
            content: Content::OfTrace(Source::Events(self.path.clone())),
        }
    }

    /// A row an object, most stall first.
    fn objects(&self, py: Python<'_>) -> PyResult<Table> {
        let path = self.path.clone();
        let batch = interruptible(py, move || {
            let findings = findings(&path)?;
            objects::table(&findings).map_err(|error| Error::new_err(error.to_string()))
        })?;
        Ok(Table {
            content: Content::Batch(batch?),
        })
    }

    /// A row an object with an event, most stall first: counts only.
    fn sums(&self, py: Python<'_>) -> PyResult<Table> {
        let path = self.path.clone();
        let batch = interruptible(py, move || {
            let trace = pagewise_trace::Trace::open(&path).map_err(|error| of_trace(&error))?;
            let sums = sum_by_object(&trace).map_err(|error| of_trace(&error))?;
            let batch = sums::table(&sums, Observed::of(trace.meta()));
            batch.map_err(|error| Error::new_err(error.to_string()))
        })?;
        Ok(Table {
            content: Content::Batch(batch?),
        })
    }

    /// The document `pagewise.report/1` as text.
    fn report_json(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.path.clone();
        interruptible(py, move || {
            let findings = findings(&path)?;
            let mut text = Vec::new();
            let written = Report::new(&findings).write(&mut text);
            written.map_err(|error| Error::new_err(error.to_string()))?;
            String::from_utf8(text).map_err(|error| Error::new_err(error.to_string()))
        })?
    }

    /// The document `pagewise.plan/1`, and the plan itself as TOML.
    #[pyo3(signature = (memory=None))]
    fn plan(&self, py: Python<'_>, memory: Option<&str>) -> PyResult<(String, String)> {
        let memory: Option<MemorySize> = memory.map(str::parse).transpose().map_err(asked)?;
        let path = self.path.clone();
        interruptible(py, move || plan(&path, memory))?
    }
}

fn findings(path: &Path) -> PyResult<Findings> {
    let trace = pagewise_trace::Trace::open(path).map_err(|error| of_trace(&error))?;
    analyze(&trace).map_err(|error| of_trace(&error))
}

fn plan(path: &Path, memory: Option<MemorySize>) -> PyResult<(String, String)> {
    let of_trace = |error| of_trace(&error);
    let trace = pagewise_trace::Trace::open(path).map_err(of_trace)?;
    let findings = analyze(&trace).map_err(of_trace)?;
    let peak = pagewise_advise::peak_bytes(&trace).map_err(of_trace)?;
    let memory = memory.map(|memory| memory.resolve(peak, page_bytes()));
    let memory = memory.transpose().map_err(asked)?;
    // Without one, the plan has no curve; the command line says why on standard error.
    let model = pagewise_predict::Model::read(&trace).ok();
    let request = pagewise_advise::Request {
        memory_bytes: memory,
        lockable_bytes: lockable_bytes(),
        ..pagewise_advise::Request::default()
    };
    let advice = pagewise_advise::advise_on_all(&trace, &findings, model.as_ref(), &request);
    let advice = advice.map_err(|error| of_advice(&error))?;
    Ok((
        advice.to_json().map_err(asked)?,
        advice.plan.to_toml().map_err(asked)?,
    ))
}
