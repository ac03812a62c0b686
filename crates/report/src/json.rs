//! `report --json`: schema `pagewise.report/1` (docs/json.md). Its own types, so that the contract does not move with
//! the code. Keys may be added, none removed; unknown is `null`.

use std::collections::BTreeMap;

use pagewise_analyze::AVOIDED_SHARE;
use pagewise_analyze::FaultPath;
use pagewise_analyze::Findings;
use pagewise_analyze::Histogram;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::PatternFacts;
use pagewise_analyze::Phase;
use pagewise_trace::Meta;
use serde::Serialize;

use crate::text::own_frames;
use crate::what_if::WhatIf;

/// More than a reader looks through; a recursive program has thousands.
const MOST_FAULT_PATHS: usize = 100;

/// The document.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    summary: Summary,
    objects: Vec<JsonObject>,
    fault_paths: Vec<JsonFaultPath>,
    latency: Latency,
    write_latency: Latency,
    memory_need: JsonMemoryNeed,
    what_if: Option<WhatIf>,
    working_set: Vec<JsonWorkingSet>,
    reconciliation: BTreeMap<String, Reconciled>,
    losses: BTreeMap<String, u64>,
    sampling: Sampling,
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
    dropped_without_write: Option<u64>,
    peak_rss_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    major_faults: Option<u64>,
    file_major_faults: Option<u64>,
    faults_without_exception: Option<u64>,
    estimated_swap_ins: Option<u64>,
    unattributed_swap_ins: Option<u64>,
    counted_events: Option<u64>,
    reclaim_stall_ns: Option<u64>,
    reclaim_in_fault_ns: Option<u64>,
    psi_scope: Option<&'static str>,
    psi_some_ns: Option<u64>,
    psi_full_ns: Option<u64>,
    delay_swapin_ns: Option<u64>,
    delay_freepages_ns: Option<u64>,
    delay_thrashing_ns: Option<u64>,
    delay_blkio_ns: Option<u64>,
}

/// Accessed memory at one look.
#[derive(Debug, Serialize)]
struct JsonWorkingSet {
    time_ns: u64,
    interval_ns: u64,
    accessed_bytes: u64,
    resident_bytes: u64,
}

#[derive(Debug, Serialize)]
struct JsonObject {
    label: String,
    name: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    kind: &'static str,
    bytes: Option<u64>,
    allocations: u64,
    sampled: bool,
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
    pattern_facts: Option<JsonPatternFacts>,
    phases: Vec<JsonPhase>,
    extra_bytes: Option<u64>,
    touched_at: Option<JsonTouch>,
    site: Vec<JsonFrame>,
}

#[derive(Debug, Serialize)]
struct JsonPatternFacts {
    stride_pages: Option<u64>,
    reuse_pages: Option<u64>,
    reuse_ns: Option<u64>,
    agreement: f64,
    steps: u64,
}

/// A time in which an object's pattern stayed the same.
#[derive(Debug, Serialize)]
struct JsonPhase {
    begin_ns: u64,
    end_ns: u64,
    swap_ins: u64,
    stall_ns: Option<u64>,
    pattern: Option<&'static str>,
    pattern_facts: Option<JsonPatternFacts>,
}

/// The program's own code that waited longest for an object.
#[derive(Debug, Serialize)]
struct JsonTouch {
    stall_ns: u64,
    #[serde(flatten)]
    frame: JsonFrame,
}

/// What memory would have avoided the swap-ins.
#[derive(Debug, Serialize)]
struct JsonMemoryNeed {
    avoided_share: f64,
    extra_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    known_swap_ins: Option<u64>,
    unknown_swap_ins: Option<u64>,
    curve: Vec<JsonNeedPoint>,
}

#[derive(Debug, Serialize)]
struct JsonNeedPoint {
    extra_bytes: u64,
    swap_ins: u64,
    stall_ns: u64,
}

#[derive(Debug, Serialize)]
struct JsonFrame {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    module: Option<String>,
    module_offset: Option<u64>,
    inlined: bool,
}

#[derive(Debug, Serialize)]
struct JsonFaultPath {
    swap_ins: u64,
    stall_ns: u64,
    path: Vec<JsonFrame>,
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

impl Report {
    /// The document of these findings.
    pub fn new(findings: &Findings) -> Self {
        let meta = &findings.meta;
        Self {
            schema: "pagewise.report/1",
            summary: Summary::new(findings),
            objects: findings
                .objects
                .iter()
                .map(|object| JsonObject::new(object, findings))
                .collect(),
            fault_paths: findings
                .fault_paths
                .iter()
                .take(MOST_FAULT_PATHS)
                .map(JsonFaultPath::new)
                .collect(),
            latency: Latency::new(&findings.latency),
            write_latency: Latency::new(&findings.write_latency),
            memory_need: JsonMemoryNeed::new(findings),
            what_if: None,
            working_set: findings
                .working_set
                .iter()
                .map(JsonWorkingSet::new)
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

    /// As text, indented.
    ///
    /// # Errors
    /// Never for documents made by [`Report::new`]; serde asks.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
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

impl Summary {
    fn new(findings: &Findings) -> Self {
        let (meta, totals, waits) = (&findings.meta, &findings.totals, &findings.waits);
        let total = |name: &str| meta.totals.get(name).copied();
        let seen = |count: u64| findings.faults_observed().then_some(count);
        Self {
            wall_ns: meta.wall_ns,
            stall_ns: seen(totals.stall_ns),
            swap_ins: findings.swap_ins_observed().then_some(totals.swap_ins),
            swap_cache_hits: seen(totals.swap_cache_hits),
            pages_read: total("pages_read"),
            evictions: seen(totals.evictions),
            pages_written: seen(totals.pages_written),
            zero_filled: findings.zeros_observed().then_some(totals.zero_filled),
            dropped_without_write: findings.dropped_without_write,
            peak_rss_bytes: meta.peak_rss_bytes,
            limit_bytes: meta.limit.bytes,
            major_faults: total("major_faults"),
            file_major_faults: total("file_major_faults"),
            faults_without_exception: total("faults_without_exception"),
            estimated_swap_ins: seen(findings.estimated_swap_ins),
            unattributed_swap_ins: seen(findings.unattributed_swap_ins),
            counted_events: seen(findings.counted_events),
            reclaim_stall_ns: waits.reclaim_stall_ns,
            reclaim_in_fault_ns: waits.reclaim_in_fault_ns,
            psi_scope: waits.psi_scope.map(pagewise_analyze::PsiScope::name),
            psi_some_ns: waits.psi_some_ns,
            psi_full_ns: waits.psi_full_ns,
            delay_swapin_ns: waits.delay_swapin_ns,
            delay_freepages_ns: waits.delay_freepages_ns,
            delay_thrashing_ns: waits.delay_thrashing_ns,
            delay_blkio_ns: waits.delay_blkio_ns,
        }
    }
}

impl JsonObject {
    fn new(object: &Object, findings: &Findings) -> Self {
        let identity = &object.identity;
        let (observed, zeros) = (findings.faults_observed(), findings.zeros_observed());
        let seen = |count: u64| observed.then_some(count);
        let swap_in = |count: u64| findings.swap_ins_observed().then_some(count);
        Self {
            label: identity.to_string(),
            name: identity.name.clone(),
            file: identity.file.clone(),
            line: identity.line,
            function: identity.function.clone(),
            kind: identity.kind.name(),
            bytes: object.bytes,
            allocations: object.allocations,
            sampled: object.sampled,
            swap_ins: swap_in(object.counts.swap_ins),
            swap_cache_hits: seen(object.counts.swap_cache_hits),
            evictions: seen(object.counts.evictions),
            pages_written: seen(object.counts.pages_written),
            zero_filled: zeros.then_some(object.counts.zero_filled),
            stall_ns: seen(object.counts.stall_ns),
            resident_share: object.resident_share,
            accessed_share: object.accessed_share,
            distinct_pages: swap_in(object.distinct_pages),
            pattern: object.pattern.map(pagewise_analyze::Pattern::name),
            pattern_facts: object.pattern_facts.as_ref().map(JsonPatternFacts::new),
            phases: object
                .phases
                .iter()
                .map(|phase| JsonPhase::new(phase, observed))
                .collect(),
            extra_bytes: object.extra_bytes,
            touched_at: JsonTouch::new(object, findings),
            site: object.site.iter().map(JsonFrame::new).collect(),
        }
    }
}

impl JsonPatternFacts {
    fn new(facts: &PatternFacts) -> Self {
        Self {
            stride_pages: facts.stride_pages,
            reuse_pages: facts.reuse_pages,
            reuse_ns: facts.reuse_ns,
            agreement: facts.agreement,
            steps: facts.steps,
        }
    }
}

impl JsonPhase {
    fn new(phase: &Phase, latencies_observed: bool) -> Self {
        Self {
            begin_ns: phase.begin_ns,
            end_ns: phase.end_ns,
            swap_ins: phase.swap_ins,
            stall_ns: latencies_observed.then_some(phase.stall_ns),
            pattern: phase.facts.map(|facts| facts.pattern.name()),
            pattern_facts: phase.facts.as_ref().map(JsonPatternFacts::new),
        }
    }
}

impl JsonTouch {
    fn new(object: &Object, findings: &Findings) -> Option<Self> {
        let worst = object.worst_path?;
        let frames = &findings.fault_paths.get(worst.fault_path)?.frames;
        let frame = own_frames(frames).next().or(frames.first())?;
        Some(Self {
            stall_ns: worst.stall_ns,
            frame: JsonFrame::new(frame),
        })
    }
}

impl JsonMemoryNeed {
    fn new(findings: &Findings) -> Self {
        let need = &findings.memory_need;
        let seen = |count: u64| findings.faults_observed().then_some(count);
        Self {
            avoided_share: AVOIDED_SHARE,
            extra_bytes: need.extra_bytes,
            limit_bytes: need.limit_bytes,
            known_swap_ins: seen(need.known_swap_ins),
            unknown_swap_ins: seen(need.unknown_swap_ins),
            curve: need
                .curve
                .iter()
                .map(|point| JsonNeedPoint {
                    extra_bytes: point.extra_bytes,
                    swap_ins: point.swap_ins,
                    stall_ns: point.stall_ns,
                })
                .collect(),
        }
    }
}

impl JsonFaultPath {
    fn new(path: &FaultPath) -> Self {
        Self {
            swap_ins: path.swap_ins,
            stall_ns: path.stall_ns,
            path: path.frames.iter().map(JsonFrame::new).collect(),
        }
    }
}

impl JsonWorkingSet {
    fn new(look: &pagewise_analyze::WorkingSet) -> Self {
        Self {
            time_ns: look.time_ns,
            interval_ns: look.interval_ns,
            accessed_bytes: look.accessed_bytes,
            resident_bytes: look.resident_bytes,
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
            module_offset: frame.module_offset,
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
    let reclaims = Reconciled {
        recorded: findings.waits.reclaims,
        kernel: findings.waits.kernel_reclaims,
    };
    BTreeMap::from([
        ("reclaims".to_owned(), reclaims),
        pair("pages_read", total("pages_read"), "pswpin"),
        pair("pages_written", Some(totals.pages_written), "pswpout"),
        pair("zero_filled", zeros, "swpout_zero"),
        pair("evictions", Some(totals.evictions), "pgsteal_anon"),
    ])
}
