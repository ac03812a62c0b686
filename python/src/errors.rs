//! Failures as Python exceptions, with the texts of the command line.

use pagewise_advise::NoAdvice;
use pagewise_replay::ReplayError;
use pagewise_report::error_text;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::exceptions::PyKeyboardInterrupt;

create_exception!(
    pagewise,
    Error,
    PyException,
    "Why something could not be done; the base of all exceptions of this package."
);
create_exception!(
    pagewise,
    TraceError,
    Error,
    "A recording or a trace of references cannot be read."
);
create_exception!(
    pagewise,
    RequestError,
    Error,
    "What is asked for makes no sense; the text says what to ask for instead."
);

pub(crate) fn of_trace(error: &pagewise_trace::TraceError) -> PyErr {
    TraceError::new_err(error_text(error))
}

pub(crate) fn of_replay(error: &ReplayError) -> PyErr {
    match error {
        ReplayError::Trace(inner) => TraceError::new_err(error_text(inner)),
        ReplayError::Asked(text) => RequestError::new_err(text.clone()),
        ReplayError::Stopped => PyKeyboardInterrupt::new_err(()),
    }
}

pub(crate) fn of_advice(error: &NoAdvice) -> PyErr {
    match error {
        NoAdvice::Trace(inner) => of_trace(inner),
        NoAdvice::Lacks(why) => RequestError::new_err(why.clone()),
    }
}

pub(crate) fn asked(error: impl std::fmt::Display) -> PyErr {
    RequestError::new_err(error.to_string())
}
