//! Sums over the whole program, and what the kernel counted beside.

use std::collections::BTreeMap;

use pagewise_analyze::Findings;
use pagewise_trace::Meta;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    wall_ns: Option<u64>,
    stall_ns: Option<u64>,
    swap_ins: Option<u64>,
    swap_cache_hits: Option<u64>,
    pages_read: Option<u64>,
    evictions: Option<u64>,
    pages_written: Option<u64>,
    zero_filled: Option<u64>,
    dropped_without_write: Option<u64>,
    shared_pages_gone: Option<u64>,
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
    run_delay_ns: Option<u64>,
    psi_scope: Option<&'static str>,
    psi_some_ns: Option<u64>,
    psi_full_ns: Option<u64>,
    delay_swapin_ns: Option<u64>,
    delay_freepages_ns: Option<u64>,
    delay_thrashing_ns: Option<u64>,
    delay_blkio_ns: Option<u64>,
}

/// What the recording counted beside what the kernel counted over the same time, on the whole machine.
#[derive(Debug, Serialize)]
pub(super) struct Reconciled {
    recorded: Option<u64>,
    kernel: Option<u64>,
}

impl Summary {
    pub(super) fn new(findings: &Findings) -> Self {
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
            shared_pages_gone: findings.shared_pages_gone,
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
            run_delay_ns: waits.run_delay_ns,
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

fn increase(meta: &Meta, counter: &str) -> Option<u64> {
    meta.counters
        .get(counter)
        .map(|counter| counter.end.saturating_sub(counter.begin))
}

pub(super) fn reconciliation(findings: &Findings) -> BTreeMap<String, Reconciled> {
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
