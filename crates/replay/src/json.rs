//! The document pagewise.simulate/1, described in docs/json.md.

use pagewise_simulate::Storage;
use serde::Serialize;

use crate::curves::Curve;
use crate::curves::Point;
use crate::outcome::Findings;
use crate::outcome::Row;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    trace: Trace,
    storage: Devices,
    sampling_rate: f64,
    warmup_references: u64,
    flush_references: Option<u64>,
    rows: Vec<JsonRow>,
    curves: Vec<JsonCurve>,
}

#[derive(Serialize)]
struct JsonCurve {
    policy: &'static str,
    sampling_rate: f64,
    mean_absolute_error: f64,
    points: Vec<JsonPoint>,
}

#[derive(Serialize)]
struct JsonPoint {
    memory_pages: u32,
    miss_ratio: f64,
    io_ns: u64,
}

impl JsonCurve {
    fn new(curve: &Curve) -> Self {
        let point = |point: &Point| JsonPoint {
            memory_pages: point.frames,
            miss_ratio: point.miss_ratio,
            io_ns: point.io_ns,
        };
        Self {
            policy: curve.policy.as_str(),
            sampling_rate: curve.rate,
            mean_absolute_error: curve.error,
            points: curve.points.iter().map(point).collect(),
        }
    }
}

#[derive(Serialize)]
struct Trace {
    path: String,
    format: &'static str,
    classify: Option<String>,
    page_bytes: u64,
    references: u64,
    writes: u64,
    file_references: u64,
    pages: Option<u32>,
    footprint_bytes: Option<u64>,
    skipped_lines: u64,
}

#[derive(Serialize)]
struct Devices {
    file: Device,
    swap: Device,
    fault_ns: u64,
}

#[derive(Serialize)]
struct Device {
    name: String,
    read_ns: u64,
    write_ns: u64,
}

/// One row, also of the CSV: its columns are these keys.
#[derive(Serialize)]
pub(crate) struct JsonRow {
    policy: &'static str,
    memory_pages: u32,
    memory_bytes: u64,
    write_read_ratio: Option<u32>,
    references: u64,
    misses: u64,
    miss_ratio: Option<f64>,
    miss_ratio_error: Option<f64>,
    first_touches: u64,
    evictions: u64,
    file_reads: u64,
    file_writes: u64,
    swap_reads: u64,
    swap_writes: u64,
    io_ns: u64,
    file_read_ns: u64,
    file_write_ns: u64,
    swap_read_ns: u64,
    swap_write_ns: u64,
    software_ns: u64,
    io_vs_clock: Option<f64>,
    misses_vs_optimum: Option<f64>,
}

impl JsonRow {
    pub(crate) fn new(row: &Row, page_bytes: u64) -> Self {
        let (outcome, io) = (&row.outcome, &row.io);
        Self {
            policy: row.policy.as_str(),
            memory_pages: row.frames,
            memory_bytes: u64::from(row.frames) * page_bytes,
            write_read_ratio: row.write_read_ratio,
            references: outcome.references,
            misses: outcome.misses(),
            miss_ratio: outcome.miss_ratio(),
            miss_ratio_error: row.miss_ratio_error,
            first_touches: outcome.first_touches,
            evictions: outcome.evictions,
            file_reads: outcome.file_reads,
            file_writes: outcome.file_writes,
            swap_reads: outcome.swap_reads,
            swap_writes: outcome.swap_writes,
            io_ns: io.io_ns(),
            file_read_ns: io.file_read_ns,
            file_write_ns: io.file_write_ns,
            swap_read_ns: io.swap_read_ns,
            swap_write_ns: io.swap_write_ns,
            software_ns: io.software_ns,
            io_vs_clock: row.io_vs_clock,
            misses_vs_optimum: row.misses_vs_optimum,
        }
    }
}

impl Findings {
    /// The document `pagewise.simulate/1` (docs/json.md), on one line or indented.
    pub fn to_json(&self, indented: bool) -> Result<String, serde_json::Error> {
        let document = document(self);
        match indented {
            true => serde_json::to_string_pretty(&document).map(|text| text + "\n"),
            false => serde_json::to_string(&document),
        }
    }
}

fn document(findings: &Findings) -> Document {
    let plan = &findings.plan;
    let storage = &plan.storages[0].1;
    Document {
        schema: "pagewise.simulate/1",
        trace: trace(findings),
        storage: devices(findings, storage),
        sampling_rate: findings.sampling_rate(),
        warmup_references: plan.warmup,
        flush_references: plan.flush_period,
        rows: (findings.rows.iter())
            .map(|row| JsonRow::new(row, plan.page_bytes))
            .collect(),
        curves: findings.curves.iter().map(JsonCurve::new).collect(),
    }
}

fn trace(findings: &Findings) -> Trace {
    let input = &findings.trace;
    Trace {
        path: input.path.display().to_string(),
        format: input.format.as_str(),
        classify: input.classify.map(|classify| classify.to_string()),
        page_bytes: findings.plan.page_bytes,
        references: input.facts.references,
        writes: input.facts.writes,
        file_references: input.facts.of_files,
        pages: input.facts.pages,
        footprint_bytes: findings.footprint_bytes(),
        skipped_lines: input.facts.skipped,
    }
}

fn devices(findings: &Findings, storage: &Storage) -> Devices {
    let names = &findings.plan.devices;
    Devices {
        file: Device {
            name: names.file.clone(),
            read_ns: storage.file.read_ns,
            write_ns: storage.file.write_ns,
        },
        swap: Device {
            name: names.swap.clone(),
            read_ns: storage.swap.read_ns,
            write_ns: storage.swap.write_ns,
        },
        fault_ns: storage.fault_ns,
    }
}
