//! Faults inside calls that allocate, before the recording tells of the block: from traces written for the purpose.

use pagewise_analyze::Findings;
use pagewise_analyze::analyze;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Release;
use pagewise_trace::Site;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const OURS: &str = "/opt/lib/libpagewise_runtime.so";
const PROGRAM: &str = "/opt/solver";

/// Call paths of allocations, by the line that calls: `first`, `second`.
const FIRST: u32 = 0;
const SECOND: u32 = 1;
/// Call paths of faults: inside a call made by `first`, by `second`, and in the program itself.
const IN_FIRST: u32 = 10;
const IN_SECOND: u32 = 11;
const OUTSIDE: u32 = 12;

fn findings(fill: impl FnOnce(&mut TraceWriter)) -> Findings {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer =
        TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("created");
    let called = |line: u64| [(PROGRAM, line), (PROGRAM, 0x900)];
    for (stack, name, line) in [(FIRST, "first", 0x100), (SECOND, "second", 0x200)] {
        path(
            &mut writer,
            stack,
            &[&[(OURS, 1)], &called(line)[..]].concat(),
        );
        let site = Site {
            stack,
            name: Some(name.to_owned()),
            file: Some("main.c".to_owned()),
            line: Some(line as u32),
            function: Some("main".to_owned()),
            type_name: None,
        };
        writer.sites.push(site).expect("pushed");
    }
    let inside = [(LIBC, 3), (LIBC, 2), (OURS, 1)];
    path(
        &mut writer,
        IN_FIRST,
        &[&inside, &called(0x100)[..]].concat(),
    );
    path(
        &mut writer,
        IN_SECOND,
        &[&inside, &called(0x200)[..]].concat(),
    );
    path(&mut writer, OUTSIDE, &called(0x100));
    fill(&mut writer);
    writer.close().expect("closed");
    analyze(&Trace::open(&dir).expect("opened")).expect("analyzed")
}

fn path(writer: &mut TraceWriter, stack: u32, frames: &[(&str, u64)]) {
    for (depth, &(module, offset)) in (0..).zip(frames) {
        let frame = StackFrame {
            stack,
            depth,
            address: 0x5000_0000 + offset,
            module: Some(module.to_owned()),
            module_offset: Some(offset),
            truncated: false,
        };
        writer.stacks.push(frame).expect("pushed");
    }
}

fn made(
    writer: &mut TraceWriter,
    (tid, time_ns): (u32, u64),
    address: u64,
    stack: u32,
    kind: AllocationKind,
) {
    let allocation = Allocation {
        allocation: time_ns,
        space: 1,
        tid,
        time_ns,
        address,
        bytes: MIB,
        kind,
        stack: Some(stack),
        estimated_bytes: None,
    };
    writer.allocations.push(allocation).expect("pushed");
}

fn fault(writer: &mut TraceWriter, (tid, time_ns): (u32, u64), address: u64, stack: u32) {
    let event = Event {
        time_ns,
        space: 1,
        tid: Some(tid),
        kind: EventKind::SwapIn,
        address,
        latency_ns: Some(1000),
        stack: Some(stack),
    };
    writer.events.push(event).expect("pushed");
}

fn free(writer: &mut TraceWriter, time_ns: u64, address: u64) {
    let release = Release {
        space: 1,
        time_ns,
        address,
        bytes: None,
    };
    writer.releases.push(release).expect("pushed");
}

/// Swap-ins of `first`, of `second`, and of nobody.
fn swap_ins(findings: &Findings) -> [u64; 3] {
    let of = |name: &str| {
        let mut objects = findings.objects.iter();
        let object = objects.find(|object| object.identity.name.as_deref() == Some(name));
        object.map_or(0, |object| object.counts.swap_ins)
    };
    [of("first"), of("second"), findings.unattributed_swap_ins]
}

#[test]
fn what_a_call_touches_is_the_block_that_it_makes() {
    let findings = findings(|writer| {
        for page in 0..3 {
            fault(writer, (7, 10 + page), BASE + page * 4096, IN_FIRST);
        }
        // Of the header, on the page before.
        fault(writer, (7, 14), BASE + 5 * MIB, IN_SECOND);
        made(writer, (7, 20), BASE + 16, FIRST, AllocationKind::Calloc);
    });
    assert_eq!(swap_ins(&findings), [3, 0, 1]);
    assert_eq!(findings.objects[0].distinct_pages, 3);
}

#[test]
fn a_page_is_nobodys_without_proof_that_the_call_is_under_way() {
    let findings = findings(|writer| {
        // The program itself touched it: what was there before is unknown.
        fault(writer, (7, 10), BASE, OUTSIDE);
        // Inside a call by another line, and of another thread.
        fault(writer, (7, 11), BASE, IN_SECOND);
        fault(writer, (8, 12), BASE, IN_FIRST);
        // Outside of what the call makes.
        fault(writer, (7, 13), BASE + 9 * MIB, IN_FIRST);
        made(writer, (7, 20), BASE, FIRST, AllocationKind::Calloc);
        // After it: a call that is never told of.
        fault(writer, (7, 30), BASE + 9 * MIB, IN_FIRST);
    });
    assert_eq!(swap_ins(&findings), [0, 0, 5]);
}

#[test]
fn only_the_threads_next_allocation_counts() {
    let findings = findings(|writer| {
        fault(writer, (7, 10), BASE, IN_FIRST);
        made(
            writer,
            (7, 20),
            BASE + 4 * MIB,
            FIRST,
            AllocationKind::Calloc,
        );
        made(writer, (7, 30), BASE, FIRST, AllocationKind::Calloc);
        // One of another thread in between does not count.
        fault(writer, (7, 40), BASE + 8 * MIB, IN_FIRST);
        made(
            writer,
            (8, 50),
            BASE + 12 * MIB,
            SECOND,
            AllocationKind::Calloc,
        );
        made(
            writer,
            (7, 60),
            BASE + 8 * MIB,
            FIRST,
            AllocationKind::Calloc,
        );
    });
    assert_eq!(swap_ins(&findings), [1, 0, 1]);
}

#[test]
fn realloc_copies_from_the_block_that_was_just_freed() {
    let copied = |kind| {
        let findings = findings(|writer| {
            made(writer, (7, 10), BASE, FIRST, AllocationKind::Malloc);
            free(writer, 20, BASE);
            fault(writer, (7, 30), BASE + 4096, IN_SECOND);
            fault(writer, (7, 31), BASE + 8 * MIB, IN_SECOND);
            made(writer, (7, 40), BASE + 8 * MIB, SECOND, kind);
        });
        swap_ins(&findings)
    };
    assert_eq!(copied(AllocationKind::Realloc), [1, 1, 0]);
    assert_eq!(
        copied(AllocationKind::Calloc),
        [0, 1, 1],
        "calloc reads nothing"
    );
}

#[test]
fn what_is_known_to_lie_there_comes_first() {
    let findings = findings(|writer| {
        made(writer, (8, 10), BASE, SECOND, AllocationKind::Malloc);
        // No call gives out what is in use: the recording lacks a release, or this is a page at its edge.
        fault(writer, (7, 20), BASE, IN_FIRST);
        made(writer, (7, 30), BASE, FIRST, AllocationKind::Calloc);
    });
    assert_eq!(swap_ins(&findings), [0, 1, 0]);
}
