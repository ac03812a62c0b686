//! What a reader must know before trusting the numbers.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_trace::Meta;

use super::Style;
use super::attribution;
use crate::units::count;
use crate::units::percent;

/// Losses, sensors that were missing, and how numbers came about.
pub(crate) fn remarks(text: &mut String, findings: &Findings, style: Style) {
    let meta = &findings.meta;
    let losses: Vec<String> = meta
        .losses
        .iter()
        .filter(|(_, lost)| **lost > 0)
        .map(|(what, lost)| format!("{} {}", style.clean(what), count(*lost)))
        .collect();
    if !losses.is_empty() {
        let _ = writeln!(
            text,
            "{}",
            style.bold(&format!("Lost: {}", losses.join(", ")))
        );
    }
    if let Some(reason) = &meta.exit.reason {
        let _ = writeln!(text, "{}", style.bold(&style.clean_sentence(reason)));
    }
    for (sensor, state) in &meta.sensors {
        if state.starts_with("missing: ") {
            let line = format!("The sensor {sensor} is {state}");
            let _ = writeln!(text, "{}", style.clean_sentence(&line));
        }
    }
    for line in page_out(meta) {
        let _ = writeln!(text, "{}", style.bold(&style.clean_sentence(&line)));
    }
    for line in unattributed_io(meta).into_iter().chain(polled_rings(meta)) {
        let _ = writeln!(text, "{line}");
    }
    if findings.shared_pages_gone.is_some_and(|gone| gone > 0) {
        let _ = writeln!(
            text,
            "Of this program's shared memory (tmpfs, System V, memfd) evictions are not told, as the kernel lays them to nobody; \
             nor, without root, what found its page still in the swap cache."
        );
    }
    attribution::remarks(text, findings, style);
    need(text, findings);
    let lineless = |object: &&Object| {
        object.identity.kind == ObjectKind::Allocation && object.identity.line.is_none()
    };
    if findings
        .objects
        .iter()
        .take(style.objects)
        .any(|object| lineless(&object))
    {
        let _ = writeln!(
            text,
            "Objects without a line come from code without debug information: compile with -g, install the package's \
             debug symbols, or record with --debuginfod to name them."
        );
    }
    if let Some(imported) = &meta.imported {
        let _ = writeln!(
            text,
            "Imported ({}) from {}: its table region_accesses is for other tools to read.",
            style.clean(&imported.format),
            style.clean(&imported.file)
        );
    } else if meta.recovered.is_some() || meta.end_monotonic_ns.is_none() {
        let _ = writeln!(
            text,
            "The recording was cut short: the above is what there was until then."
        );
    }
    if findings.counted_events > 0 {
        let _ = writeln!(
            text,
            "{} events were counted by regions of 2 MiB, not listed (--max-size): latencies and patterns are of the others.",
            count(findings.counted_events)
        );
    }
    if let Some(raised) = meta
        .cost
        .get("limit_raised_times")
        .filter(|&&times| times > 0.0)
    {
        let _ = writeln!(
            text,
            "The limit was raised by 1 MiB {raised} times, for a moment each: the kernel's reclaim (cgroup v1) had given up."
        );
    }
    if let Some(unseen) = meta
        .totals
        .get("faults_without_exception")
        .filter(|&&unseen| unseen > 0)
    {
        let _ = writeln!(
            text,
            "{} further major faults were taken inside system calls (mlock and the like), without address or latency.",
            count(*unseen)
        );
    }
}

/// What else pages memory out on the machine, and what that means here.
pub(crate) fn page_out(meta: &Meta) -> impl Iterator<Item = String> {
    let lines = meta.host.page_out.iter().flatten();
    lines.map(|line| {
        format!(
            "{line}: evictions, what comes back after them, and times may be its doing, whatever the limit."
        )
    })
}

/// Input and output that the kernel did later, on behalf of calls that say little.
pub(crate) fn unattributed_io(meta: &Meta) -> Option<String> {
    let calls = meta.losses.get("io_of_other_threads");
    let calls = calls.filter(|&&calls| calls > 0)?;
    Some(format!(
        "io_uring or AIO was used by this program: {} calls asked for input and output that is in no call path and no file here.",
        count(*calls)
    ))
}

/// Requests whose call path nobody can tell.
pub(crate) fn polled_rings(meta: &Meta) -> Option<String> {
    let rings = meta.totals.get("polled_rings");
    let rings = rings.filter(|&&rings| rings > 0)?;
    Some(format!(
        "A thread of the kernel submits what this program asks of io_uring (IORING_SETUP_SQPOLL, {} rings): such input and output has no call path.",
        count(*rings)
    ))
}

/// How the memory was found that would have avoided it.
fn need(text: &mut String, findings: &Findings) {
    let need = &findings.memory_need;
    if need.extra_bytes.is_none() {
        if need.known_swap_ins + need.unknown_swap_ins > 0 && findings.faults_observed() {
            let _ = writeln!(
                text,
                "How much memory would avoid it cannot be told: the recording did not see most pages leave memory."
            );
        }
        return;
    }
    let _ = writeln!(
        text,
        "What it needs is told from the order in which pages left memory, as if those used longest ago always left first."
    );
    if need.unknown_swap_ins > 0 {
        let all = need.known_swap_ins + need.unknown_swap_ins;
        let _ = writeln!(
            text,
            "It is not known for {} of the swap-ins ({}): their eviction was not seen.",
            count(need.unknown_swap_ins),
            percent(need.unknown_swap_ins, all)
        );
    }
}
