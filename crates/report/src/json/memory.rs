//! How much memory would have avoided the swap-ins, and how much was in use.

use pagewise_analyze::AVOIDED_SHARE;
use pagewise_analyze::Findings;
use serde::Serialize;

/// Accessed memory at one look.
#[derive(Debug, Serialize)]
pub(super) struct JsonWorkingSet {
    time_ns: u64,
    interval_ns: u64,
    accessed_bytes: u64,
    resident_bytes: u64,
}

/// What of a process is in huge pages, and how much of the rest was accessed.
#[derive(Debug, Serialize)]
pub(super) struct JsonCoverage<'a> {
    pid: Option<u32>,
    command: &'a str,
    resident_bytes: u64,
    huge_bytes: u64,
    buckets: Vec<JsonBucket>,
}

#[derive(Debug, Serialize)]
struct JsonBucket {
    regions: u64,
    resident_bytes: u64,
}

/// What memory would have avoided the swap-ins.
#[derive(Debug, Serialize)]
pub(super) struct JsonMemoryNeed {
    avoided_share: f64,
    extra_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    known_swap_ins: Option<u64>,
    unknown_swap_ins: Option<u64>,
    curve: Vec<JsonNeedPoint>,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonNeedPoint {
    extra_bytes: u64,
    swap_ins: u64,
    stall_ns: u64,
}

impl JsonMemoryNeed {
    pub(super) fn new(findings: &Findings) -> Self {
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

impl JsonWorkingSet {
    pub(super) fn new(look: &pagewise_analyze::WorkingSet) -> Self {
        Self {
            time_ns: look.time_ns,
            interval_ns: look.interval_ns,
            accessed_bytes: look.accessed_bytes,
            resident_bytes: look.resident_bytes,
        }
    }
}

impl<'a> JsonCoverage<'a> {
    pub(super) fn new(process: &'a pagewise_analyze::Coverage, page_bytes: u64) -> Self {
        let buckets = process.buckets(page_bytes).into_iter();
        Self {
            pid: process.pid,
            command: &process.command,
            resident_bytes: process.resident_bytes(page_bytes),
            huge_bytes: process.huge_bytes(),
            buckets: buckets
                .map(|bucket| JsonBucket {
                    regions: bucket.regions,
                    resident_bytes: bucket.resident_bytes,
                })
                .collect(),
        }
    }
}
