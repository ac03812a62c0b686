//! The JSON document `pagewise.guard/1` (`docs/json.md`).

use std::collections::BTreeMap;

use pagewise_abi::guard as abi;
use pagewise_attribute::Frame;
use serde::Serialize;

use super::findings::Finding;
use super::findings::functions;
use super::session::Ran;
use super::session::Side;

#[derive(Serialize)]
struct Document<'ran> {
    schema: &'static str,
    errors: Vec<ErrorEntry<'ran>>,
    summary: Summary,
}

#[derive(Serialize)]
struct ErrorEntry<'ran> {
    kind: &'static str,
    /// Which end of objects touched a guard in the run that found it.
    side: &'static str,
    access: Option<&'static str>,
    access_bytes: Option<u32>,
    /// Of the C library, whose arguments were wrong.
    call: Option<&'ran str>,
    address: u64,
    offset: Option<i64>,
    object_bytes: Option<u64>,
    object_address: Option<u64>,
    object_is_freed: Option<bool>,
    made_by: Option<&'static str>,
    given_back_by: Option<&'static str>,
    leaked_objects: Option<u64>,
    leaked_bytes: Option<u64>,
    near_address: Option<u64>,
    /// Two digits each.
    near_bytes: Option<String>,
    file: Option<&'ran str>,
    line: Option<u32>,
    pid: u32,
    tid: Option<u32>,
    allocation_tid: Option<u32>,
    free_tid: Option<u32>,
    stacks: Stacks<'ran>,
}

#[derive(Serialize)]
struct Stacks<'ran> {
    access: Vec<FrameEntry<'ran>>,
    allocation: Vec<FrameEntry<'ran>>,
    free: Vec<FrameEntry<'ran>>,
}

#[derive(Serialize)]
struct FrameEntry<'ran> {
    function: Option<&'ran str>,
    file: Option<&'ran str>,
    line: Option<u32>,
    module: Option<&'ran str>,
    inlined: bool,
}

#[derive(Serialize)]
struct Summary {
    errors: usize,
    exit_code: u8,
    guarded_programs: u64,
    lost_reports: u64,
    suppressed: u64,
    runs: u8,
    processes: Vec<Process>,
}

#[derive(Serialize)]
struct Process {
    pid: u32,
    side: &'static str,
    guards: &'static str,
    allocations: u64,
    unguarded: u64,
    peak_objects: u64,
    peak_bytes: u64,
    live_objects: u64,
    live_bytes: u64,
    own_bytes: u64,
    repaired_instructions: u64,
    paths: u64,
    cut_paths: u64,
    left_out: u64,
    reused_early: u64,
    /// Live objects of up to 2^n bytes, and beyond.
    sizes: Vec<u64>,
    /// Null: no limit was asked for.
    compaction: Option<Compaction>,
}

#[derive(Serialize)]
struct Compaction {
    state: &'static str,
    errno: Option<u32>,
    objects: u64,
    bytes: u64,
    store_bytes: u64,
    resident_bytes: u64,
    compactions: u64,
    restores: u64,
    sizes: Vec<u64>,
}

fn compaction(summary: &abi::Summary) -> Option<Compaction> {
    let state = match summary.compaction {
        abi::Compaction::NotWanted => return None,
        abi::Compaction::NotNeeded => "not-needed",
        abi::Compaction::Done => "on",
        abi::Compaction::Refused => "refused",
    };
    Some(Compaction {
        state,
        errno: Some(summary.compaction_errno).filter(|&errno| errno != 0),
        objects: summary.compacted_objects,
        bytes: summary.compacted_bytes,
        store_bytes: summary.store_bytes,
        resident_bytes: summary.resident_bytes,
        compactions: summary.compactions,
        restores: summary.restores,
        sizes: summary.compacted_sizes.to_vec(),
    })
}

fn frames(path: &[Frame]) -> Vec<FrameEntry<'_>> {
    path.iter()
        .map(|frame| FrameEntry {
            function: frame.function.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            module: frame.module.as_deref(),
            inlined: frame.inlined,
        })
        .collect()
}

fn entry(finding: &Finding) -> ErrorEntry<'_> {
    use pagewise_abi::guard::FaultKind;
    let fault = &finding.fault;
    let object = fault.object;
    let place = finding.place();
    let known = |thread: u32| (thread != 0).then_some(thread);
    let is_leak = fault.kind == FaultKind::Leak;
    ErrorEntry {
        kind: finding.kind(),
        side: finding.side.name(),
        access: finding.access_name(),
        access_bytes: fault.access_bytes,
        call: finding.function(),
        address: fault.address,
        offset: finding.offset(),
        object_bytes: object.map(|object| object.bytes),
        object_address: object.map(|object| object.address),
        object_is_freed: object.map(|object| object.is_freed),
        made_by: object.map(|object| functions(object.family).0),
        given_back_by: (fault.kind == FaultKind::Mismatch).then(|| functions(fault.given_to).1),
        leaked_objects: is_leak.then_some(fault.leaked[0]),
        leaked_bytes: is_leak.then_some(fault.leaked[1]),
        near_address: finding.near_text().map(|_| fault.near_address),
        near_bytes: finding.near_text(),
        file: place.and_then(|frame| frame.file.as_deref()),
        line: place.and_then(|frame| frame.line),
        pid: fault.pid,
        tid: known(fault.tid),
        allocation_tid: known(fault.threads[0]),
        free_tid: known(fault.threads[1]),
        stacks: Stacks {
            access: frames(&finding.access),
            allocation: frames(&finding.allocation),
            free: frames(&finding.release),
        },
    }
}

/// The document, with a line's end.
pub(super) fn document(ran: &Ran) -> String {
    let first = ran.summaries.values().map(|summary| (Side::End, summary));
    let second = ran.second.iter().flat_map(BTreeMap::values);
    let processes = first.chain(second.map(|summary| (Side::Begin, summary)));
    let processes = processes.map(|(side, summary)| Process {
        pid: summary.pid,
        side: side.name(),
        guards: match summary.has_guard_regions {
            true => "guard-regions",
            false => "mprotect",
        },
        allocations: summary.allocations,
        unguarded: summary.unguarded,
        peak_objects: summary.peak_objects,
        peak_bytes: summary.peak_bytes,
        live_objects: summary.live_objects,
        live_bytes: summary.live_bytes,
        own_bytes: summary.own_bytes,
        repaired_instructions: summary.repaired,
        paths: summary.paths,
        cut_paths: summary.cut_paths,
        left_out: summary.left_out,
        reused_early: summary.reused_early,
        sizes: summary.sizes.to_vec(),
        compaction: compaction(summary),
    });
    let document = Document {
        schema: "pagewise.guard/1",
        errors: ran.findings.iter().map(entry).collect(),
        summary: Summary {
            errors: ran.findings.len(),
            exit_code: ran.exit_code,
            guarded_programs: ran.guarded,
            lost_reports: ran.lost,
            suppressed: ran.suppressed,
            runs: 1 + u8::from(ran.second.is_some()),
            processes: processes.collect(),
        },
    };
    // Of numbers and text: it cannot fail.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}
