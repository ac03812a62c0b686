//! Errors and the summary as people read them.

use std::fmt::Write as _;

use pagewise_abi::guard::Access;
use pagewise_abi::guard::Compaction;
use pagewise_abi::guard::FaultKind;
use pagewise_abi::guard::HISTOGRAM;
use pagewise_abi::guard::Summary;
use pagewise_attribute::Frame;
use pagewise_attribute::display_file;
use pagewise_report::bytes;

use super::findings::Finding;
use super::findings::functions;
use super::session::Ran;

/// Bytes in a row of those near an address.
const ROW: usize = 16;

/// One error: what, where, and the call paths.
pub(super) fn finding(finding: &Finding) -> String {
    let mut text = format!("pagewise: {}: {}", finding.kind(), what(finding));
    if let Some(place) = finding.place() {
        let _ = write!(text, " ({})", source(place).unwrap_or_default());
    }
    text.push('\n');
    let fault = &finding.fault;
    if fault.access == Access::EarlierWrite {
        text.push_str("  seen when it was given back, or at the end:\n");
    }
    path(&mut text, &finding.access);
    if !finding.allocation.is_empty() {
        let _ = writeln!(text, "  allocated by {}:", thread(fault.threads[0]));
        path(&mut text, &finding.allocation);
    }
    if !finding.release.is_empty() {
        let _ = writeln!(text, "  given back by {}:", thread(fault.threads[1]));
        path(&mut text, &finding.release);
    }
    near(&mut text, finding);
    let _ = write!(text, "  process {}, {}", fault.pid, thread(fault.tid));
    text
}

fn thread(number: u32) -> String {
    match number {
        0 => "an unknown thread".to_owned(),
        number => format!("thread {number}"),
    }
}

fn count(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {name}{plural}")
}

fn processes(number: usize) -> String {
    let plural = if number == 1 { "" } else { "es" };
    format!("{number} process{plural}")
}

/// The error in words.
pub(super) fn what(finding: &Finding) -> String {
    let fault = &finding.fault;
    let object = fault.object.map_or_else(
        || "no object".to_owned(),
        |object| {
            let freed = if object.is_freed { "freed " } else { "" };
            format!("a {freed}{}-byte object", object.bytes)
        },
    );
    let position = position(finding).unwrap_or_default();
    match fault.kind {
        FaultKind::Overflow | FaultKind::Underflow | FaultKind::UseAfterFree => {
            let access = finding.access_name().unwrap_or("access");
            let bytes = fault.access_bytes.map(|bytes| count(bytes.into(), "byte"));
            let bytes = bytes.map_or(String::new(), |bytes| format!(" of {bytes}"));
            let by = finding
                .function()
                .map_or(String::new(), |name| format!(" by {name}()"));
            format!("{access}{bytes}{by}, {position}{object}")
        }
        FaultKind::DoubleFree => format!("{object} given back again"),
        FaultKind::InvalidFree if fault.object.is_some() => {
            format!("given back {position}{object}, not at its begin")
        }
        FaultKind::InvalidFree => {
            format!("{:#x} was given back, where no object is", fault.address)
        }
        FaultKind::Mismatch => {
            let made_by = fault.object.map_or("", |object| functions(object.family).0);
            let given_to = functions(fault.given_to).1;
            let is_same = fault
                .object
                .is_some_and(|object| object.family == fault.given_to);
            let how = match fault.access_bytes {
                Some(bytes) => format!(" as one of {}", count(bytes.into(), "byte")),
                None if is_same => " as one of another alignment".to_owned(),
                None => String::new(),
            };
            format!("{object} of {made_by} given back by {given_to}{how}")
        }
        FaultKind::Wild => {
            let access = finding.access_name().unwrap_or("access");
            match fault.address {
                0 => format!("{access} where no address can be, or at address 0"),
                address => format!("{access} at {address:#x}, where nothing is"),
            }
        }
        FaultKind::Overlap => format!(
            "{}() of {} onto a part of itself",
            finding.function().unwrap_or("a copy"),
            count(fault.access_bytes.unwrap_or(0).into(), "byte")
        ),
        FaultKind::Leak => format!(
            "{} in {} that nothing points to",
            bytes(fault.leaked[1]),
            count(fault.leaked[0], "object")
        ),
    }
}

/// `3 bytes after `, and so on.
fn position(finding: &Finding) -> Option<String> {
    let (object, offset) = (finding.fault.object?, finding.offset()?);
    let end = object.bytes as i64;
    Some(if offset < 0 {
        format!("{} before ", count(offset.unsigned_abs(), "byte"))
    } else if offset >= end {
        format!("{} after ", count((offset - end).unsigned_abs(), "byte"))
    } else {
        format!("{} inside ", count(offset.unsigned_abs(), "byte"))
    })
}

fn source(frame: &Frame) -> Option<String> {
    let file = frame.file.as_deref()?;
    Some(match frame.line {
        Some(line) => format!("{}:{line}", display_file(file)),
        None => display_file(file).to_owned(),
    })
}

fn path(text: &mut String, frames: &[Frame]) {
    for (number, frame) in frames.iter().enumerate() {
        let function = frame.function.as_deref().unwrap_or("?");
        let place = source(frame).unwrap_or_else(|| {
            let module = frame.module.as_deref().map_or("?", display_file);
            format!("{module}+{:#x}", frame.module_offset.unwrap_or(0))
        });
        let _ = writeln!(text, "    #{number} {function}  {place}");
    }
}

/// Rows of bytes; those of the object in brackets.
fn near(text: &mut String, finding: &Finding) {
    let Some(object) = finding.fault.object.filter(|_| !finding.near.is_empty()) else {
        return;
    };
    let range = object.address..object.address + object.bytes;
    text.push_str("  bytes there ([ ]: of the object):\n");
    for (row, bytes) in finding.near.chunks(ROW).enumerate() {
        let address = finding.fault.near_address + (row * ROW) as u64;
        let _ = write!(text, "    {address:#x}:");
        for (at, byte) in bytes.iter().enumerate() {
            let here = address + at as u64;
            let before = if here == range.start { '[' } else { ' ' };
            let after = if here + 1 == range.end { "]" } else { "" };
            let _ = write!(text, "{before}{byte:02x}{after}");
        }
        text.push('\n');
    }
}

/// What is told at the end, always.
pub(super) fn summary(ran: &Ran) -> String {
    let errors = count(ran.findings.len() as u64, "error");
    if ran.guarded == 0 {
        return "pagewise: nothing was guarded: the library was not loaded, or could not reach this process; \
                is LD_PRELOAD taken out of its environment?"
            .to_owned();
    }
    let all = || ran.summaries.values();
    let sum = |field: fn(&Summary) -> u64| all().map(field).sum::<u64>();
    let allocations = sum(|summary| summary.allocations);
    let peak = all().max_by_key(|summary| summary.peak_objects);
    let mut text = match peak {
        None => format!(
            "pagewise: {errors}; no process told a summary: killed, or it ran another program"
        ),
        Some(peak) => format!(
            "pagewise: {errors} in {} by {}; at most {} ({}) at once, {} of bookkeeping",
            count(allocations, "allocation"),
            processes(ran.summaries.len()),
            count(peak.peak_objects, "object"),
            bytes(peak.peak_bytes),
            bytes(peak.own_bytes)
        ),
    };
    let live = sum(|summary| summary.live_objects);
    if live > 0 {
        let _ = write!(
            text,
            "\npagewise: alive at the end: {} ({}){}",
            count(live, "object"),
            bytes(sum(|summary| summary.live_bytes)),
            sizes(ran, |summary| summary.sizes)
        );
    }
    compaction(&mut text, ran);
    let unguarded = sum(|summary| summary.unguarded);
    if unguarded > 0 {
        let _ = write!(
            text,
            "\npagewise: {} not guarded: no address space or mapping was left; see ulimit -v and sysctl vm.max_map_count",
            count(unguarded, "object")
        );
    }
    let reused = sum(|summary| summary.reused_early);
    if reused > 0 {
        let _ = write!(
            text,
            "\npagewise: {} made where others were given back shortly before, whose later use may be missed: no other \
             addresses were left; see ulimit -v",
            count(reused, "object")
        );
    }
    // Who makes no object has not tried.
    if all().any(|summary| summary.allocations > 0 && !summary.has_guard_regions) {
        text.push_str(
            "\npagewise: guards by mprotect, for at most some 30,000 objects at once; guard regions need Linux 6.13",
        );
    }
    let left_out = sum(|summary| summary.left_out);
    if left_out > 0 {
        let _ = write!(
            text,
            "\npagewise: {} left without a guard, as asked for by --sample, --min or --max",
            count(left_out, "object")
        );
    }
    if ran.suppressed > 0 {
        let _ = write!(
            text,
            "\npagewise: {} suppressed",
            count(ran.suppressed, "error")
        );
    }
    if allocations == 0 && left_out == 0 && peak.is_some() {
        text.push_str(
            "\npagewise: no allocation was seen: the program makes none, or has an allocator of its own",
        );
    }
    if ran.unserved > 0 {
        let _ = write!(
            text,
            "\npagewise: {} without a place to tell errors to, which are missing here: too many at once; see ulimit -n",
            processes(usize::try_from(ran.unserved).unwrap_or(usize::MAX))
        );
    }
    if ran.lost > 0 {
        let _ = write!(
            text,
            "\npagewise: {} lost, as the ring was full",
            count(ran.lost, "report")
        );
    }
    text
}

/// What became of the limit of memory, if there is one.
fn compaction(text: &mut String, ran: &Ran) {
    let with = |state| {
        let all = ran.summaries.values();
        all.filter(move |summary| summary.compaction == state)
    };
    let done = || with(Compaction::Done);
    let sum = |field: fn(&Summary) -> u64| done().map(field).sum::<u64>();
    if done().next().is_some() {
        let _ = write!(
            text,
            "\npagewise: compacted {}, restored {}; at the end {} ({}) in {} of store, {} of other objects' pages{}",
            times(sum(|summary| summary.compactions)),
            times(sum(|summary| summary.restores)),
            count(sum(|summary| summary.compacted_objects), "object"),
            bytes(sum(|summary| summary.compacted_bytes)),
            bytes(sum(|summary| summary.store_bytes)),
            bytes(sum(|summary| summary.resident_bytes)),
            sizes(ran, |summary| summary.compacted_sizes)
        );
    } else if with(Compaction::NotNeeded).next().is_some() {
        text.push_str("\npagewise: --memory was not exceeded, nothing was compacted");
    }
    if let Some(refused) = with(Compaction::Refused).next() {
        let why = std::io::Error::from_raw_os_error(refused.compaction_errno as i32);
        let _ = write!(
            text,
            "\npagewise: --memory was exceeded: {} without compaction, which needs guard regions and userfaultfd with the \
             kernel's faults ({why}); type: sudo pagewise guard --as-root, or sysctl vm.unprivileged_userfaultfd=1",
            processes(with(Compaction::Refused).count())
        );
    }
}

/// `once`, `7 times`.
fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        _ => format!("{number} times"),
    }
}

/// `; up to 16 bytes 3, 32 bytes 7`.
fn sizes(ran: &Ran, of: fn(&Summary) -> [u64; HISTOGRAM]) -> String {
    let mut text = String::new();
    let classes = ran.summaries.values().map(of);
    let sums = classes.fold([0u64; HISTOGRAM], |mut sums, sizes| {
        sums.iter_mut()
            .zip(sizes)
            .for_each(|(sum, size)| *sum += size);
        sums
    });
    for (class, &objects) in sums.iter().enumerate().filter(|(_, objects)| **objects > 0) {
        let size = match class + 1 < sums.len() {
            true => format!("up to {}", bytes(1 << class)),
            false => "more".to_owned(),
        };
        let _ = write!(
            text,
            "{} {size}: {objects}",
            if text.is_empty() { ";" } else { "," }
        );
    }
    text
}
