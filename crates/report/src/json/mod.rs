//! `report --json`: schema `pagewise.report/1` (docs/json.md). Its own types, so that the contract does not move with
//! the code. Keys may be added, none removed; unknown is `null`.

mod code;
mod file_io;
mod memory;
mod object;
mod summary;

use std::collections::BTreeMap;
use std::io::Write;

use pagewise_analyze::Findings;
use pagewise_analyze::Histogram;
use pagewise_analyze::file_io::FileIo;
use serde::Serialize;

use crate::what_if::WhatIf;
use code::JsonFaultPath;
use file_io::JsonContext;
use file_io::JsonIoFile;
use memory::JsonCoverage;
use memory::JsonMemoryNeed;
use memory::JsonWorkingSet;
use object::Objects;
use summary::Reconciled;
use summary::Summary;
use summary::reconciliation;

/// More than a reader looks through; a recursive program has thousands.
const MOST_FAULT_PATHS: usize = 100;

/// The document.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    summary: Summary,
    objects: Objects<'a>,
    fault_paths: Vec<JsonFaultPath<'a>>,
    contexts: Option<Vec<JsonContext<'a>>>,
    io_files: Option<Vec<JsonIoFile<'a>>>,
    latency: Latency,
    write_latency: Latency,
    memory_need: JsonMemoryNeed,
    what_if: Option<WhatIf>,
    working_set: Vec<JsonWorkingSet>,
    coverage: Vec<JsonCoverage<'a>>,
    reconciliation: BTreeMap<String, Reconciled>,
    losses: BTreeMap<String, u64>,
    sampling: Sampling,
    sensors: BTreeMap<String, String>,
    cost: BTreeMap<String, f64>,
    page_out: Option<Vec<String>>,
    command: Vec<String>,
    exit: Exit,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// Which allocations were recorded.
#[derive(Debug, Serialize)]
struct Sampling {
    threshold_bytes: Option<u64>,
    sample_bytes: Option<u64>,
    sparsest_sample_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
    reason: Option<String>,
}

impl<'a> Report<'a> {
    /// The document of these findings.
    pub fn new(findings: &'a Findings) -> Self {
        let meta = &findings.meta;
        Self {
            schema: "pagewise.report/1",
            summary: Summary::new(findings),
            objects: Objects(findings),
            fault_paths: findings
                .fault_paths
                .iter()
                .take(MOST_FAULT_PATHS)
                .map(JsonFaultPath::new)
                .collect(),
            contexts: None,
            io_files: None,
            latency: Latency::new(&findings.latency),
            write_latency: Latency::new(&findings.write_latency),
            memory_need: JsonMemoryNeed::new(findings),
            what_if: None,
            working_set: findings
                .working_set
                .iter()
                .map(JsonWorkingSet::new)
                .collect(),
            coverage: findings
                .coverage
                .iter()
                .map(|process| JsonCoverage::new(process, findings.page_bytes()))
                .collect(),
            reconciliation: reconciliation(findings),
            losses: meta.losses.clone(),
            sampling: Sampling {
                threshold_bytes: meta.sampling.threshold_bytes,
                sample_bytes: meta.sampling.sample_bytes,
                sparsest_sample_bytes: meta.sampling.sparsest_sample_bytes,
            },
            sensors: meta.sensors.clone(),
            cost: meta.cost.clone(),
            page_out: meta.host.page_out.clone(),
            command: meta.command.clone(),
            exit: Exit {
                code: meta.exit.code,
                signal: meta.exit.signal,
                reason: meta.exit.reason.clone(),
            },
            complete: meta.recovered.is_none() && meta.end_monotonic_ns.is_some(),
        }
    }

    /// With answers on other sizes of memory.
    pub fn with_what_if(self, what_if: Option<WhatIf>) -> Self {
        Self { what_if, ..self }
    }

    /// With what is said of input and output; `None`: it was not recorded.
    pub fn with_file_io(self, io: Option<&'a FileIo>) -> Self {
        let (contexts, io_files) = file_io::document(io);
        let mut losses = self.losses;
        losses.extend(io.map(|io| ("io_bytes_not_followed".to_owned(), io.beyond_bytes)));
        Self {
            contexts,
            io_files,
            losses,
            ..self
        }
    }

    /// As text, indented.
    ///
    /// # Errors
    /// Never for documents made by [`Report::new`]; serde asks.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Writes the same, piece by piece.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, out: impl Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, self)
    }
}

impl Latency {
    fn new(latency: &Histogram) -> Self {
        Self {
            p50_ns: latency.quantile(0.5),
            p90_ns: latency.quantile(0.9),
            p99_ns: latency.quantile(0.99),
            max_ns: latency.max(),
        }
    }
}
