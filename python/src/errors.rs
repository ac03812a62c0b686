//! Failures as Python exceptions, with the texts of the command line.

use pagewise_advise::NoAdvice;
use pagewise_replay::ReplayError;
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

/// A message and those of its causes, on one line, as the command line prints them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

pub(crate) fn of_trace(error: &pagewise_trace::TraceError) -> PyErr {
    TraceError::new_err(chain(error))
}

pub(crate) fn of_replay(error: &ReplayError) -> PyErr {
    match error {
        ReplayError::Trace(inner) => TraceError::new_err(chain(inner)),
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
