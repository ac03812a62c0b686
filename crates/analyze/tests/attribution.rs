//! Which object an event is given to, over the life of a program: from traces written for the purpose.

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::analyze;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
use pagewise_trace::GivenName;
use pagewise_trace::Mapping;
use pagewise_trace::Meta;
use pagewise_trace::Move;
use pagewise_trace::Overwrite;
use pagewise_trace::Release;
use pagewise_trace::Sample;
use pagewise_trace::Site;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// A trace with two named call paths, `first` (0) and `second` (1), and what `fill` adds.
fn findings(fill: impl FnOnce(&mut TraceWriter)) -> Findings {
    findings_with(Meta::default(), fill)
}

fn findings_with(meta: Meta, fill: impl FnOnce(&mut TraceWriter)) -> Findings {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
    for (stack, name) in [(0, "first"), (1, "second")] {
        let site = Site {
            stack,
            name: Some(name.to_owned()),
            file: Some("main.c".to_owned()),
            line: Some(10 + stack),
            function: Some("main".to_owned()),
            type_name: None,
        };
        writer.sites.push(site).expect("pushed");
    }
    fill(&mut writer);
    writer.close().expect("closed");
    analyze(&Trace::open(&dir).expect("opened")).expect("analyzed")
}

fn allocate(writer: &mut TraceWriter, space: u32, time_ns: u64, address: u64, stack: u32) {
    let allocation = Allocation {
        allocation: time_ns,
        space,
        tid: 1,
        time_ns,
        address,
        bytes: MIB,
        kind: AllocationKind::Malloc,
        stack: Some(stack),
        estimated_bytes: None,
    };
    writer.allocations.push(allocation).expect("pushed");
}

fn release(writer: &mut TraceWriter, time_ns: u64, address: u64, bytes: Option<u64>) {
    writer
        .releases
        .push(Release {
            space: 1,
            time_ns,
            address,
            bytes,
        })
        .expect("pushed");
}

fn swap_in(writer: &mut TraceWriter, space: u32, time_ns: u64, address: u64) {
    let event = Event {
        time_ns,
        space,
        tid: Some(1),
        kind: EventKind::SwapIn,
        address,
        latency_ns: Some(1000),
        stack: None,
    };
    writer.events.push(event).expect("pushed");
}

fn named<'a>(findings: &'a Findings, name: &str) -> &'a Object {
    let object = findings
        .objects
        .iter()
        .find(|object| object.identity.name.as_deref() == Some(name));
    object.unwrap_or_else(|| panic!("no object {name} in {:?}", findings.objects))
}

fn of_kind(findings: &Findings, kind: ObjectKind) -> u64 {
    findings
        .objects
        .iter()
        .filter(|object| object.identity.kind == kind)
        .map(|object| object.counts.swap_ins)
        .sum()
}

fn count(writer: &mut TraceWriter, kind: EventKind, address: u64, bytes: u64, events: u64) {
    let row = EventCount {
        time_ns: 100,
        interval_ns: 50,
        space: 1,
        kind,
        address,
        bytes,
        events,
        latency_ns: (kind == EventKind::SwapIn).then_some(events * 7),
    };
    writer.event_counts.push(row).expect("pushed");
}

#[test]
fn counted_events_are_shared_out_by_pages_and_none_is_lost() {
    let findings = findings(|writer| {
        allocate(writer, 1, 10, BASE, 0);
        swap_in(writer, 1, 20, BASE);
        // Three quarters of the region are the first's, a quarter the second's, which comes during the interval.
        allocate(writer, 1, 120, BASE + MIB, 1);
        count(writer, EventKind::SwapIn, BASE + MIB / 4, MIB, 1001);
        count(writer, EventKind::SwapCacheHit, BASE, 4096, 3);
        count(writer, EventKind::Eviction, BASE + MIB, 4096, 5);
        count(writer, EventKind::ZeroFilled, BASE + 2 * MIB, 4096, 11);
        // What no pagewise writes must do no harm.
        count(writer, EventKind::PageWritten, u64::MAX - 5, u64::MAX, 1);
    });
    let (first, second) = (named(&findings, "first"), named(&findings, "second"));
    assert_eq!(
        (first.counts.swap_ins, first.counts.swap_cache_hits),
        (1 + 750 + 3, 3)
    );
    assert_eq!((second.counts.swap_ins, second.counts.evictions), (251, 5));
    assert_eq!(
        first.counts.stall_ns + second.counts.stall_ns,
        1000 + 1001 * 7
    );
    assert_eq!(findings.totals.swap_ins, 1 + 1001 + 3);
    assert_eq!(findings.counted_events, 1001 + 3 + 5 + 11 + 1);
    assert_eq!(findings.latency.max(), Some(1000), "of listed events only");
}

#[test]
fn the_length_of_what_was_cut_short_is_that_of_its_samples() {
    let sample = |time_ns| Sample {
        time_ns,
        rss_bytes: None,
        swap_bytes: None,
        limit_bytes: None,
    };
    let length = |times: &[u64]| {
        let fill = |writer: &mut TraceWriter| {
            swap_in(writer, 1, 1, BASE);
            for time_ns in times {
                writer.samples.push(sample(*time_ns)).expect("pushed");
            }
        };
        findings(fill).meta.wall_ns
    };
    assert_eq!(length(&[5, 1005, 2005]), Some(2000));
    assert_eq!(length(&[5]), None, "one moment is no length");
    assert_eq!(length(&[]), None);
}

#[test]
fn an_address_belongs_to_whom_it_was_given_last() {
    let findings = findings(|writer| {
        allocate(writer, 1, 10, BASE, 0);
        swap_in(writer, 1, 20, BASE + 5);
        release(writer, 30, BASE, None);
        swap_in(writer, 1, 35, BASE + 5);
        allocate(writer, 1, 40, BASE, 1);
        swap_in(writer, 1, 50, BASE + 5);
        swap_in(writer, 1, 60, BASE + MIB - 1);
    });
    assert_eq!(
        (
            named(&findings, "first").counts.swap_ins,
            named(&findings, "second").counts.swap_ins
        ),
        (1, 2)
    );
    assert_eq!(of_kind(&findings, ObjectKind::Unknown), 1);
    assert_eq!(named(&findings, "second").counts.stall_ns, 2000);
    assert_eq!(findings.totals.swap_ins, 4);
}

#[test]
fn a_size_is_the_most_that_was_alive_at_once() {
    let findings = findings(|writer| {
        for round in 0..10 {
            allocate(writer, 1, 10 + round * 10, BASE, 0);
            release(writer, 15 + round * 10, BASE, None);
        }
        allocate(writer, 1, 200, BASE, 1);
        allocate(writer, 1, 201, BASE + 2 * MIB, 1);
    });
    assert_eq!(named(&findings, "first").bytes, Some(MIB));
    assert_eq!(named(&findings, "first").allocations, 10);
    assert_eq!(named(&findings, "second").bytes, Some(2 * MIB));
}

#[test]
fn what_the_program_calls_an_allocation_it_is_called_from_its_beginning() {
    let findings = findings(|writer| {
        let mut name = |time_ns, address, name: &str| {
            let row = GivenName {
                time_ns,
                space: 1,
                address,
                name: name.to_owned(),
            };
            writer.given_names.push(row).expect("pushed");
        };
        name(12, BASE + 8, "grid");
        name(14, BASE, "cells");
        name(35, BASE, "nobody's: it was released");
        name(36, BASE + 9 * MIB, "of nothing");
        allocate(writer, 1, 10, BASE, 0);
        swap_in(writer, 1, 11, BASE);
        release(writer, 30, BASE, None);
        allocate(writer, 1, 40, BASE, 0);
        swap_in(writer, 1, 50, BASE);
        swap_in(writer, 1, 60, BASE + 4096);
    });
    let names: Vec<_> = findings
        .objects
        .iter()
        .filter(|object| object.counts.swap_ins > 0)
        .map(|object| {
            (
                object.identity.name.as_deref(),
                object.identity.line,
                object.counts.swap_ins,
            )
        })
        .collect();
    let line = named(&findings, "first").identity.line;
    assert_eq!(names, [(Some("first"), line, 2), (Some("cells"), line, 1)]);
}

#[test]
fn a_moved_mapping_keeps_its_name_and_a_hole_has_none() {
    let findings = findings(|writer| {
        allocate(writer, 1, 10, BASE, 0);
        release(writer, 20, BASE + 4096, Some(4096));
        swap_in(writer, 1, 30, BASE + 4096);
        let moved = Move {
            space: 1,
            time_ns: 40,
            old_address: BASE,
            old_bytes: MIB,
            new_address: BASE + 64 * MIB,
            new_bytes: MIB,
        };
        writer.moves.push(moved).expect("pushed");
        swap_in(writer, 1, 50, BASE + 64 * MIB + 9000);
        swap_in(writer, 1, 60, BASE);
    });
    assert_eq!(named(&findings, "first").counts.swap_ins, 1);
    assert_eq!(of_kind(&findings, ObjectKind::Unknown), 2);
}

#[test]
fn a_forked_child_has_its_parents_objects() {
    let space = |space, pid, parent_space, begin_ns| Space {
        space,
        pid,
        start_time_ns: begin_ns,
        exec_epoch: 1,
        parent_space,
        begin_ns,
        end_ns: None,
        command: "program".to_owned(),
        executable: None,
    };
    let findings = findings(|writer| {
        writer.spaces.push(space(1, 100, None, 1)).expect("pushed");
        allocate(writer, 1, 10, BASE, 0);
        writer
            .spaces
            .push(space(2, 101, Some(1), 20))
            .expect("pushed");
        swap_in(writer, 2, 30, BASE + 4096);
        // After exec the same process has other memory.
        writer
            .spaces
            .push(space(3, 101, Some(2), 40))
            .expect("pushed");
        swap_in(writer, 3, 50, BASE + 4096);
        // So has a process that was made by vfork and exec: no row tells of it in between.
        let spawned = Space {
            exec_epoch: 2,
            ..space(4, 102, Some(1), 60)
        };
        writer.spaces.push(spawned).expect("pushed");
        swap_in(writer, 4, 70, BASE + 4096);
    });
    assert_eq!(named(&findings, "first").counts.swap_ins, 1);
    assert_eq!(of_kind(&findings, ObjectKind::Unknown), 2);
}

#[test]
fn the_heap_grows_on_behind_its_mapping() {
    let heap = 0x5555_0000_0000;
    let findings = findings(|writer| {
        let mapping = Mapping {
            space: 1,
            time_ns: 1,
            start: heap,
            end: heap + 132 * 1024,
            permissions: "rw-p".to_owned(),
            offset: 0,
            path: "[heap]".to_owned(),
        };
        writer.mappings.push(mapping).expect("pushed");
        swap_in(writer, 1, 10, heap + 4096);
        swap_in(writer, 1, 20, heap + 300 * MIB);
        swap_in(writer, 1, 30, BASE);
    });
    assert_eq!(of_kind(&findings, ObjectKind::Heap), 2);
    assert_eq!(of_kind(&findings, ObjectKind::Unknown), 1);
}

#[test]
fn numbers_that_no_recorder_writes_do_no_harm() {
    for page_bytes in [0, 1, 3, 4096, 1 << 63, u64::MAX] {
        let mut meta = Meta::default();
        meta.host.page_bytes = Some(page_bytes);
        let findings = findings_with(meta, |writer| {
            let numbers = [0, 1, 4095, BASE, 1 << 63, u64::MAX - 1, u64::MAX];
            for (address, bytes) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
                let allocation = Allocation {
                    estimated_bytes: None,
                    allocation: address,
                    space: 1,
                    tid: 1,
                    time_ns: 5,
                    address,
                    bytes,
                    kind: AllocationKind::Mmap,
                    stack: Some(0),
                };
                writer.allocations.push(allocation).expect("pushed");
                writer
                    .moves
                    .push(Move {
                        space: 1,
                        time_ns: bytes,
                        old_address: address,
                        old_bytes: bytes,
                        new_address: bytes,
                        new_bytes: address,
                    })
                    .expect("pushed");
                release(writer, address, bytes, Some(address));
                let mapping = Mapping {
                    space: 1,
                    time_ns: 3,
                    start: address,
                    end: bytes,
                    permissions: "rw-p".to_owned(),
                    offset: 0,
                    path: "[heap]".to_owned(),
                };
                writer.mappings.push(mapping).expect("pushed");
                swap_in(writer, 1, address, bytes);
            }
        });
        assert_eq!(findings.totals.swap_ins, 49);
    }
}
