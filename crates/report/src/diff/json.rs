//! `report --diff --json`: schema `pagewise.diff/1` (docs/json.md).

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::Pattern;
use serde::Serialize;

use super::Difference;
use super::MatchedBy;
use super::NOISE_OF_TOTAL;
use super::NOISE_SHARE;
use super::ObjectChange;

#[derive(Serialize)]
struct Document<'findings> {
    schema: &'static str,
    change: &'static str,
    compared_by: &'static str,
    noise_share: f64,
    noise_of_total: f64,
    before: Side<'findings>,
    after: Side<'findings>,
    objects: Vec<JsonChange<'findings>>,
}

#[derive(Serialize)]
struct Side<'findings> {
    command: &'findings [String],
    wall_ns: Option<u64>,
    stall_ns: Option<u64>,
    swap_ins: Option<u64>,
    evictions: Option<u64>,
    pages_written: Option<u64>,
    limit_bytes: Option<u64>,
    peak_rss_bytes: Option<u64>,
    needed_bytes: Option<u64>,
}

#[derive(Serialize)]
struct JsonChange<'findings> {
    name: Option<&'findings str>,
    file: Option<&'findings str>,
    function: Option<&'findings str>,
    kind: &'static str,
    change: &'static str,
    matched_by: Option<&'static str>,
    before: Option<ObjectSide>,
    after: Option<ObjectSide>,
}

#[derive(Serialize)]
struct ObjectSide {
    line: Option<u32>,
    bytes: Option<u64>,
    swap_ins: Option<u64>,
    evictions: Option<u64>,
    stall_ns: Option<u64>,
    pattern: Option<&'static str>,
}

/// The document, indented.
///
/// # Errors
/// Never; serde asks.
pub fn to_json(difference: &Difference) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Document {
        schema: "pagewise.diff/1",
        change: difference.change.name(),
        compared_by: match difference.by_stall {
            true => "stall_ns",
            false => "swap_ins",
        },
        noise_share: NOISE_SHARE,
        noise_of_total: NOISE_OF_TOTAL,
        before: side(difference.before),
        after: side(difference.after),
        objects: difference
            .objects
            .iter()
            .filter_map(|object| object_change(object, difference))
            .collect(),
    })
}

fn side(findings: &Findings) -> Side<'_> {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let seen = |count: u64| findings.faults_observed().then_some(count);
    Side {
        command: &meta.command,
        wall_ns: meta.wall_ns,
        stall_ns: seen(totals.stall_ns),
        swap_ins: findings.swap_ins_observed().then_some(totals.swap_ins),
        evictions: seen(totals.evictions),
        pages_written: seen(totals.pages_written),
        limit_bytes: meta.limit.bytes,
        peak_rss_bytes: meta.peak_rss_bytes,
        needed_bytes: findings.memory_need.limit_bytes,
    }
}

fn object_change<'findings>(
    object: &ObjectChange<'findings>,
    difference: &Difference,
) -> Option<JsonChange<'findings>> {
    let identity = &object.after.or(object.before)?.identity;
    Some(JsonChange {
        name: identity.name.as_deref(),
        file: identity.file.as_deref(),
        function: identity.function.as_deref(),
        kind: identity.kind.name(),
        change: object.change.name(),
        matched_by: object.matched_by.map(MatchedBy::name),
        before: object
            .before
            .map(|side| object_side(side, difference.before)),
        after: object.after.map(|side| object_side(side, difference.after)),
    })
}

fn object_side(object: &Object, findings: &Findings) -> ObjectSide {
    let seen = |count: u64| findings.faults_observed().then_some(count);
    ObjectSide {
        line: object.identity.line,
        bytes: object.bytes,
        swap_ins: findings
            .swap_ins_observed()
            .then_some(object.counts.swap_ins),
        evictions: object.counts.known_evictions().and_then(seen),
        stall_ns: seen(object.counts.stall_ns),
        pattern: object.pattern.map(Pattern::name),
    }
}
