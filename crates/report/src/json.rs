//! `report --json`: schema `pagewise.report/1` (docs/json.md). Its own types, so that the contract does not move with
//! the code. Keys may be added, none removed; unknown is `null`.

use std::collections::BTreeMap;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectFrame;
use pagewise_trace::Meta;
use serde::Serialize;

/// The document.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    summary: Summary,
    objects: Vec<JsonObject>,
    latency: Latency,
    reconciliation: BTreeMap<String, Reconciled>,
    losses: BTreeMap<String, u64>,
    sensors: BTreeMap<String, String>,
    cost: BTreeMap<String, f64>,
    command: Vec<String>,
    exit: Exit,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    wall_ns: Option<u64>,
    stall_ns: Option<u64>,
    swap_ins: Option<u64>,
    swap_cache_hits: Option<u64>,
    pages_read: Option<u64>,
    evictions: Option<u64>,
    pages_written: Option<u64>,
    zero_filled: Option<u64>,
    peak_rss_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    major_faults: Option<u64>,
    file_major_faults: Option<u64>,
    faults_without_exception: Option<u64>,
}

#[derive(Debug, Serialize)]
struct JsonObject {
    name: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    kind: &'static str,
    bytes: Option<u64>,
    allocations: u64,
    swap_ins: Option<u64>,
    swap_cache_hits: Option<u64>,
    evictions: Option<u64>,
    pages_written: Option<u64>,
    zero_filled: Option<u64>,
    stall_ns: Option<u64>,
    resident_share: Option<f64>,
    accessed_share: Option<f64>,
    distinct_pages: Option<u64>,
    pattern: Option<&'static str>,
    site: Vec<JsonFrame>,
}

#[derive(Debug, Serialize)]
struct JsonFrame {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    module: Option<String>,
    inlined: bool,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// What the recording counted beside what the kernel counted over the same time, on the whole machine.
#[derive(Debug, Serialize)]
struct Reconciled {
    recorded: Option<u64>,
    kernel: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
    reason: Option<String>,
}

impl Report {
    /// The document of these findings.
    pub fn new(findings: &Findings) -> Self {
        let meta = &findings.meta;
        let observed = findings.faults_observed();
        Self {
            schema: "pagewise.report/1",
            summary: Summary::new(findings),
            objects: findings
                .objects
                .iter()
                .map(|object| JsonObject::new(object, observed, findings.zeros_observed()))
                .collect(),
            latency: Latency {
                p50_ns: findings.latency.quantile(0.5),
                p90_ns: findings.latency.quantile(0.9),
                p99_ns: findings.latency.quantile(0.99),
                max_ns: findings.latency.max(),
            },
            reconciliation: reconciliation(findings),
            losses: meta.losses.clone(),
            sensors: meta.sensors.clone(),
            cost: meta.cost.clone(),
            command: meta.command.clone(),
            exit: Exit {
                code: meta.exit.code,
                signal: meta.exit.signal,
                reason: meta.exit.reason.clone(),
            },
            complete: meta.recovered.is_none() && meta.end_monotonic_ns.is_some(),
        }
    }

    /// As text, indented.
    ///
    /// # Errors
    /// Never for documents made by [`Report::new`]; serde asks.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl Summary {
    fn new(findings: &Findings) -> Self {
        let (meta, totals) = (&findings.meta, &findings.totals);
        let total = |name: &str| meta.totals.get(name).copied();
        let seen = |count: u64| findings.faults_observed().then_some(count);
        Self {
            wall_ns: meta.wall_ns,
            stall_ns: seen(totals.stall_ns),
            swap_ins: seen(totals.swap_ins),
            swap_cache_hits: seen(totals.swap_cache_hits),
            pages_read: total("pages_read"),
            evictions: seen(totals.evictions),
            pages_written: seen(totals.pages_written),
            zero_filled: findings.zeros_observed().then_some(totals.zero_filled),
            peak_rss_bytes: meta.peak_rss_bytes,
            limit_bytes: meta.limit.bytes,
            major_faults: total("major_faults"),
            file_major_faults: total("file_major_faults"),
            faults_without_exception: total("faults_without_exception"),
        }
    }
}

impl JsonObject {
    fn new(object: &Object, observed: bool, zeros: bool) -> Self {
        let identity = &object.identity;
        let seen = |count: u64| observed.then_some(count);
        Self {
            name: identity.name.clone(),
            file: identity.file.clone(),
            line: identity.line,
            function: identity.function.clone(),
            kind: identity.kind.name(),
            bytes: object.bytes,
            allocations: object.allocations,
            swap_ins: seen(object.swap_ins),
            swap_cache_hits: seen(object.swap_cache_hits),
            evictions: seen(object.evictions),
            pages_written: seen(object.pages_written),
            zero_filled: zeros.then_some(object.zero_filled),
            stall_ns: seen(object.stall_ns),
            resident_share: None,
            accessed_share: None,
            distinct_pages: seen(object.distinct_pages),
            pattern: object.pattern.map(pagewise_analyze::Pattern::name),
            site: object.site.iter().map(JsonFrame::new).collect(),
        }
    }
}

impl JsonFrame {
    fn new(frame: &ObjectFrame) -> Self {
        Self {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
            module: frame.module.clone(),
            inlined: frame.inlined,
        }
    }
}

fn increase(meta: &Meta, counter: &str) -> Option<u64> {
    meta.counters
        .get(counter)
        .map(|counter| counter.end.saturating_sub(counter.begin))
}

fn reconciliation(findings: &Findings) -> BTreeMap<String, Reconciled> {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let total = |name: &str| meta.totals.get(name).copied();
    let pair = |name: &str, recorded: Option<u64>, counter: &str| {
        let recorded = recorded.filter(|_| findings.faults_observed());
        (
            name.to_owned(),
            Reconciled {
                recorded,
                kernel: increase(meta, counter),
            },
        )
    };
    let zeros = findings.zeros_observed().then_some(totals.zero_filled);
    BTreeMap::from([
        pair("pages_read", total("pages_read"), "pswpin"),
        pair("pages_written", Some(totals.pages_written), "pswpout"),
        pair("zero_filled", zeros, "swpout_zero"),
        pair("evictions", Some(totals.evictions), "pgsteal_anon"),
    ])
}
