//! Replacement policies on traces.

use std::path::PathBuf;

use pagewise_replay::Findings;
use pagewise_replay::Request;
use pagewise_replay::replay;
use pagewise_simulate::PolicyKind;
use pyo3::prelude::*;

use crate::errors::asked;
use crate::errors::of_replay;
use crate::interrupt::Signals;

/// Replays a trace; the document `pagewise.simulate/1` as text, and what is to be said beside it.
#[pyfunction]
#[pyo3(signature = (
    trace, *, policies, memory, storage, storage_models, sweep, curve, sample, baseline, warmup, flush, classify, format, columns, page_size,
    skip_bad, jobs
))]
#[expect(clippy::too_many_arguments, reason = "they are keywords there")]
pub(crate) fn simulate(
    py: Python<'_>,
    trace: PathBuf,
    policies: Vec<String>,
    memory: Vec<String>,
    storage: &str,
    storage_models: Option<PathBuf>,
    sweep: Option<&str>,
    curve: bool,
    sample: Option<&str>,
    baseline: bool,
    warmup: u64,
    flush: Option<u64>,
    classify: Option<&str>,
    format: Option<&str>,
    columns: Option<&str>,
    page_size: Option<u64>,
    skip_bad: bool,
    jobs: Option<usize>,
) -> PyResult<(String, Vec<String>)> {
    let request = Request {
        policies: self::policies(&policies)?,
        sizes: each(&memory)?,
        page_bytes: page_size,
        devices: storage.parse().map_err(asked)?,
        storage_models,
        sweep: sweep.map(str::parse).transpose().map_err(asked)?,
        warmup,
        flush_period: flush,
        jobs,
        curve,
        sample: sample.map(str::parse).transpose().map_err(asked)?,
        beside_clock: baseline,
        format: format.map(str::parse).transpose().map_err(asked)?,
        classify: classify.map(str::parse).transpose().map_err(asked)?,
        columns: columns.map(str::parse).transpose().map_err(asked)?,
        skip_bad,
    };
    let findings = run(py, trace, &request)?;
    let document = findings.to_json(false).map_err(asked)?;
    Ok((document, findings.notes))
}

fn run(py: Python<'_>, trace: PathBuf, request: &Request) -> PyResult<Findings> {
    let mut signals = Signals::new();
    let done = py.detach(|| replay(&trace, request, &mut signals));
    match signals.raised {
        Some(raised) => Err(raised),
        None => done.map_err(|error| of_replay(&error)),
    }
}

fn policies(names: &[String]) -> PyResult<Vec<PolicyKind>> {
    if names.iter().any(|name| name == "all") {
        return Ok(PolicyKind::ALL.to_vec());
    }
    each(names)
}

fn each<T: std::str::FromStr<Err: std::fmt::Display>>(texts: &[String]) -> PyResult<Vec<T>> {
    texts
        .iter()
        .map(|text| text.parse().map_err(asked))
        .collect()
}

/// Names of all policies, with the source of each.
#[pyfunction]
pub(crate) fn policy_sources() -> Vec<(String, &'static str)> {
    let policies = PolicyKind::ALL.iter();
    policies
        .map(|policy| (policy.to_string(), policy.source()))
        .collect()
}
