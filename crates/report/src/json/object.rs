//! Objects.

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::PatternFacts;
use pagewise_analyze::Phase;
use serde::Serialize;
use serde::Serializer;

use super::code::JsonFrame;
use crate::text::own_frames;

/// All objects, each made when its turn has come: of a million the text alone has a gigabyte.
#[derive(Debug)]
pub(super) struct Objects<'a>(pub(super) &'a Findings);

impl Serialize for Objects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let objects = self.0.objects.iter();
        serializer.collect_seq(objects.map(|object| JsonObject::new(object, self.0)))
    }
}

#[derive(Debug, Serialize)]
struct JsonObject<'a> {
    label: String,
    name: Option<&'a str>,
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    function: Option<&'a str>,
    kind: &'static str,
    bytes: Option<u64>,
    allocations: u64,
    sampled: bool,
    swap_ins: Option<u64>,
    swap_cache_hits: Option<u64>,
    evictions: Option<u64>,
    pages_written: Option<u64>,
    zero_filled: Option<u64>,
    write_share: Option<f64>,
    stall_ns: Option<u64>,
    resident_share: Option<f64>,
    accessed_share: Option<f64>,
    distinct_pages: Option<u64>,
    pattern: Option<&'static str>,
    pattern_facts: Option<JsonPatternFacts>,
    phases: Vec<JsonPhase>,
    extra_bytes: Option<u64>,
    touched_at: Option<JsonTouch<'a>>,
    site: Vec<JsonFrame<'a>>,
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
    distinct_pages: u64,
    write_share: Option<f64>,
    pattern: Option<&'static str>,
    pattern_facts: Option<JsonPatternFacts>,
}

/// The program's own code that waited longest for an object.
#[derive(Debug, Serialize)]
struct JsonTouch<'a> {
    stall_ns: u64,
    #[serde(flatten)]
    frame: JsonFrame<'a>,
}

impl<'a> JsonObject<'a> {
    fn new(object: &'a Object, findings: &'a Findings) -> Self {
        let identity = &object.identity;
        let (observed, zeros) = (findings.faults_observed(), findings.zeros_observed());
        let seen = |count: u64| observed.then_some(count);
        let swap_in = |count: u64| findings.swap_ins_observed().then_some(count);
        Self {
            label: identity.to_string(),
            name: identity.name.as_deref(),
            type_name: object.type_name.as_deref(),
            file: identity.file.as_deref(),
            line: identity.line,
            function: identity.function.as_deref(),
            kind: identity.kind.name(),
            bytes: object.bytes,
            allocations: object.allocations,
            sampled: object.sampled,
            swap_ins: swap_in(object.counts.swap_ins),
            swap_cache_hits: seen(object.counts.swap_cache_hits),
            evictions: object.counts.known_evictions().and_then(seen),
            pages_written: seen(object.counts.pages_written),
            zero_filled: zeros.then_some(object.counts.zero_filled),
            write_share: findings.write_share(&object.counts),
            stall_ns: seen(object.counts.stall_ns),
            resident_share: object.resident_share,
            accessed_share: object.accessed_share,
            distinct_pages: swap_in(object.distinct_pages),
            pattern: object.pattern.map(pagewise_analyze::Pattern::name),
            pattern_facts: object.pattern_facts.as_deref().map(JsonPatternFacts::new),
            phases: object
                .phases
                .iter()
                .map(|phase| JsonPhase::new(phase, findings, observed))
                .collect(),
            extra_bytes: object.extra_bytes,
            touched_at: JsonTouch::new(object, findings),
            site: object
                .site
                .iter()
                .map(|frame| JsonFrame::new(frame))
                .collect(),
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
    fn new(phase: &Phase, findings: &Findings, latencies_observed: bool) -> Self {
        Self {
            begin_ns: phase.begin_ns,
            end_ns: phase.end_ns,
            swap_ins: phase.swap_ins,
            stall_ns: latencies_observed.then_some(phase.stall_ns),
            distinct_pages: phase.distinct_pages,
            write_share: findings.write_share(&phase.others),
            pattern: phase.facts.map(|facts| facts.pattern.name()),
            pattern_facts: phase.facts.as_ref().map(JsonPatternFacts::new),
        }
    }
}

impl<'a> JsonTouch<'a> {
    fn new(object: &'a Object, findings: &'a Findings) -> Option<Self> {
        let worst = object.worst_path?;
        let frames = &findings.fault_paths.get(worst.fault_path)?.frames;
        let frame = own_frames(frames).next();
        let frame = frame.or(frames.first().map(AsRef::as_ref))?;
        Some(Self {
            stall_ns: worst.stall_ns,
            frame: JsonFrame::new(frame),
        })
    }
}
