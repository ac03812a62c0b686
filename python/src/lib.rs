//! The native half of the Python package; `pagewise/__init__.py` is what people see.
//!
//! Tables go over as Arrow, documents as JSON text, failures as exceptions. All work is done without Python's lock, and
//! Ctrl-C ends it.

mod errors;
mod interrupt;
mod objects;
mod simulate;
mod source;
mod sums;
mod table;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "DEFAULT_FLUSH_PERIOD",
        pagewise_simulate::DEFAULT_FLUSH_PERIOD,
    )?;
    module.add("Error", py.get_type::<errors::Error>())?;
    module.add("TraceError", py.get_type::<errors::TraceError>())?;
    module.add("RequestError", py.get_type::<errors::RequestError>())?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::policy_sources, module)?)
}
