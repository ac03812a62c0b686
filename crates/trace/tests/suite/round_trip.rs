//! What is pushed comes back, from a closed trace, a live one and a crashed one.

use std::collections::BTreeMap;

use crate::common::Tables;
use crate::common::closed;
use crate::common::copy;
use crate::common::crashed;
use crate::common::create;
use crate::common::file_names;
use crate::common::new_dir;
use pagewise_trace::*;
use proptest::prelude::*;

#[test]
fn every_table_comes_back_from_a_closed_trace() {
    let (_parent, dir) = new_dir();
    let tables = closed(&dir, 1_000);
    assert_eq!(Tables::read(&dir).unwrap(), tables);
    let trace = Trace::open(&dir).unwrap();
    assert!(trace.recovered().is_none() && !trace.in_progress());
    assert_eq!(trace.meta().state, State::Closed);
    assert!(
        TABLE_NAMES
            .iter()
            .all(|&table| trace.meta().row_counts[table] == 1_000)
    );
}

#[test]
fn a_closed_trace_consists_of_parquet_and_meta_only() {
    let (_parent, dir) = new_dir();
    closed(&dir, 3);
    let mut expected: Vec<String> = TABLE_NAMES.iter().map(|t| format!("{t}.parquet")).collect();
    expected.push("meta.json".to_owned());
    expected.sort();
    assert_eq!(file_names(&dir), expected);
}

#[test]
fn named_methods_read_the_same_tables() {
    let (_parent, dir) = new_dir();
    let tables = closed(&dir, 10);
    let trace = Trace::open(&dir).unwrap();
    let events: Vec<Event> = trace.events().unwrap().map(Result::unwrap).collect();
    let allocations: Vec<_> = trace.allocations().unwrap().map(Result::unwrap).collect();
    let releases: Vec<_> = trace.releases().unwrap().map(Result::unwrap).collect();
    let stalls: Vec<_> = trace.stalls().unwrap().map(Result::unwrap).collect();
    let accesses: Vec<_> = trace.accesses().unwrap().map(Result::unwrap).collect();
    let read = Tables {
        events,
        allocations,
        releases,
        stalls,
        run_delays: trace.run_delays().unwrap().map(Result::unwrap).collect(),
        accesses,
        glances: trace.glances().unwrap().map(Result::unwrap).collect(),
        spot_looks: trace.spot_looks().unwrap().map(Result::unwrap).collect(),
        spot_glances: trace.spot_glances().unwrap().map(Result::unwrap).collect(),
        write_looks: trace.write_looks().unwrap().map(Result::unwrap).collect(),
        spaces: trace.spaces().unwrap(),
        moves: trace.moves().unwrap(),
        mappings: trace.mappings().unwrap(),
        stacks: trace.stacks().unwrap(),
        frames: trace.frames().unwrap(),
        sites: trace.sites().unwrap(),
        globals: trace.globals().unwrap(),
        event_counts: trace.rows().unwrap().map(Result::unwrap).collect(),
        stall_counts: trace.rows().unwrap().map(Result::unwrap).collect(),
        samples: trace.samples().unwrap(),
        region_accesses: trace
            .region_accesses()
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        pressure: trace.pressure().unwrap(),
        residency: trace.residency().unwrap().map(Result::unwrap).collect(),
        residency_scans: trace
            .residency_scans()
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        io_calls: trace.io_calls().unwrap().map(Result::unwrap).collect(),
        io_files: trace.io_files().unwrap(),
        io_cache: trace.io_cache().unwrap().map(Result::unwrap).collect(),
        io_sums: trace.io_sums().unwrap().map(Result::unwrap).collect(),
        given_names: trace.given_names().unwrap().map(Result::unwrap).collect(),
        thread_faults: trace.thread_faults().unwrap().map(Result::unwrap).collect(),
        headway: trace.headway().unwrap().map(Result::unwrap).collect(),
    };
    assert_eq!(read, tables);
}

#[test]
fn tables_longer_than_a_batch_come_back() {
    let (_parent, dir) = new_dir();
    let mut writer = create(&dir);
    let events = Tables::numbered(0..200_000).events;
    for (number, event) in events.iter().enumerate() {
        writer.events.push(event.clone()).unwrap();
        if number % 70_001 == 0 {
            writer.flush().unwrap();
        }
    }
    assert_eq!(writer.events.rows(), 200_000);
    writer.flush().unwrap();
    let live: Vec<Event> = Trace::open(&dir)
        .unwrap()
        .events()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(live == events);
    writer.close().unwrap();
    let rows = Trace::open(&dir).unwrap().events().unwrap();
    assert_eq!(rows.size_hint(), (0, Some(200_001)));
    assert!(rows.map(Result::unwrap).eq(events));
}

#[test]
fn a_live_recording_reads_as_of_its_last_flush() {
    let (_parent, dir) = new_dir();
    let mut writer = create(&dir);
    let flushed = Tables::numbered(0..50);
    flushed.push_to(&mut writer);
    writer.flush().unwrap();
    Tables::numbered(50..90).push_to(&mut writer);
    let trace = Trace::open(&dir).unwrap();
    assert!(trace.in_progress() && trace.recovered().is_none());
    assert_eq!(Tables::read(&dir).unwrap(), flushed);
    assert!(matches!(recover(&dir), Err(TraceError::InUse { .. })));
    writer.close().unwrap();
    assert_eq!(Tables::read(&dir).unwrap(), Tables::numbered(0..90));
}

#[test]
fn a_crashed_recording_reads_the_same_before_and_after_recovery() {
    let (_parent, dir) = new_dir();
    let tables = crashed(&dir, 4, 25);
    assert_eq!(Tables::read(&dir).unwrap(), tables);
    let trace = Trace::open(&dir).unwrap();
    assert_eq!(trace.recovered(), Some(&Recovered::default()));
    assert_eq!(recover(&dir).unwrap(), Recovered::default());
    assert_eq!(Tables::read(&dir).unwrap(), tables);
    assert_eq!(
        Trace::open(&dir).unwrap().recovered(),
        Some(&Recovered::default())
    );
}

#[test]
fn late_tables_can_be_added_to_a_crashed_recording() {
    let (_parent, dir) = new_dir();
    let mut expected = crashed(&dir, 2, 25);
    let late = Tables::numbered(50..60);
    let mut writer = TraceWriter::resume(&dir).unwrap().unwrap();
    late.push_to(&mut writer);
    writer.flush().unwrap();
    late.push_to(&mut writer);
    writer.close().unwrap();
    let read = Tables::read(&dir).unwrap();
    expected
        .frames
        .extend([&late.frames[..], &late.frames].concat());
    expected
        .events
        .extend([&late.events[..], &late.events].concat());
    assert_eq!(read.frames, expected.frames);
    assert_eq!(read.events, expected.events);
    assert!(TraceWriter::resume(&dir).unwrap().is_none());
}

#[test]
fn closing_again_changes_nothing() {
    let (_parent, dir) = new_dir();
    let tables = closed(&dir, 20);
    let before = std::fs::read(dir.join("events.parquet")).unwrap();
    assert_eq!(recover(&dir).unwrap(), Recovered::default());
    assert_eq!(std::fs::read(dir.join("events.parquet")).unwrap(), before);
    assert_eq!(Tables::read(&dir).unwrap(), tables);
}

#[test]
fn the_last_row_of_a_space_counts() {
    let (parent, dir) = new_dir();
    let mut writer = create(&dir);
    let mut spaces = Tables::numbered(0..3).spaces;
    spaces
        .iter()
        .for_each(|space| writer.spaces.push(space.clone()).unwrap());
    spaces[1].end_ns = Some(77);
    spaces[1].command = "renamed".to_owned();
    writer.spaces.push(spaces[1].clone()).unwrap();
    writer.flush().unwrap();
    assert_eq!(Trace::open(&dir).unwrap().spaces().unwrap(), spaces);
    let raw = Trace::open(&dir).unwrap().rows::<Space>().unwrap().count();
    assert_eq!(raw, 4);
    // A crash at this point, without the lock of the recorder.
    let crashed = parent.path().join("crashed");
    copy(&dir, &crashed);
    recover(&crashed).unwrap();
    let trace = Trace::open(&crashed).unwrap();
    assert_eq!(trace.spaces().unwrap(), spaces);
    assert_eq!(trace.meta().row_counts["spaces"], 3);
    assert_eq!(writer.close().unwrap().row_counts["spaces"], 3);
}

#[test]
fn meta_comes_back() {
    let (_parent, dir) = new_dir();
    let meta = Meta {
        command: vec!["a b".to_owned(), "\u{e9}\n".to_owned()],
        working_directory: "/tmp".to_owned(),
        host: Host {
            kernel: "6.18".to_owned(),
            cpus: Some(2),
            ..Host::default()
        },
        clock: Clock {
            start_realtime_ns: Some(u64::MAX),
            ..Clock::default()
        },
        limit: Limit {
            bytes: Some(1 << 28),
            kind: Some("memory.high".to_owned()),
        },
        exit: Exit {
            signal: Some(9),
            ..Exit::default()
        },
        losses: BTreeMap::from([("events".to_owned(), 3)]),
        counters: BTreeMap::from([("pswpin".to_owned(), Counter { begin: 1, end: 2 })]),
        ..Meta::default()
    };
    let mut writer = TraceWriter::create(&dir, meta.clone(), Overwrite::Refuse).unwrap();
    writer
        .update_meta(|meta| {
            meta.state = State::Closed;
            meta.wall_ns = Some(5);
            meta.cost.insert("cpu_share".to_owned(), 0.01);
            meta.cost.insert("unknown".to_owned(), f64::NAN);
        })
        .unwrap();
    let text = std::fs::read_to_string(dir.join(META_FILE)).unwrap();
    assert!(
        text.contains("\"state\": \"recording\"") && !text.contains("unknown"),
        "{text}"
    );
    writer.close().unwrap();
    let read = Trace::open(&dir).unwrap().meta().clone();
    assert_eq!(read.schema, "pagewise.trace/1");
    assert_eq!(read.version, FORMAT_VERSION);
    assert_eq!(read.cost, BTreeMap::from([("cpu_share".to_owned(), 0.01)]));
    let expected = Meta {
        schema: read.schema.clone(),
        version: read.version,
        state: State::Closed,
        pagewise_version: env!("CARGO_PKG_VERSION").to_owned(),
        wall_ns: Some(5),
        cost: read.cost.clone(),
        row_counts: read.row_counts.clone(),
        checksums: read.checksums.clone(),
        ..meta
    };
    assert_eq!(read, expected);
}

#[test]
fn kinds_have_stable_names() {
    let events: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(
        events,
        [
            "swap_in",
            "swap_cache_hit",
            "eviction",
            "page_written",
            "zero_filled"
        ]
    );
    let allocations: Vec<_> = AllocationKind::ALL
        .iter()
        .map(|kind| kind.to_string())
        .collect();
    assert_eq!(
        allocations,
        ["malloc", "calloc", "realloc", "aligned", "mmap", "brk"]
    );
    assert!(
        EventKind::ALL
            .iter()
            .all(|kind| EventKind::from_name(kind.as_str()) == Some(*kind))
    );
    assert_eq!(EventKind::from_name("Swap_in"), None);
}

fn any_event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(EventKind::ALL);
    (
        any::<u64>(),
        any::<u32>(),
        any::<Option<u32>>(),
        kind,
        any::<u64>(),
        any::<Option<u64>>(),
        any::<Option<u32>>(),
    )
        .prop_map(
            |(time_ns, space, tid, kind, address, latency_ns, stack)| Event {
                time_ns,
                space,
                tid,
                kind,
                address,
                latency_ns,
                stack,
            },
        )
}

fn any_frame() -> impl Strategy<Value = StackFrame> {
    (
        any::<u32>(),
        any::<u16>(),
        any::<u64>(),
        any::<Option<String>>(),
        any::<Option<u64>>(),
        any::<bool>(),
    )
        .prop_map(
            |(stack, depth, address, module, module_offset, truncated)| StackFrame {
                stack,
                depth,
                address,
                module,
                module_offset,
                truncated,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_values_come_back(
        events in prop::collection::vec(any_event(), 0..300),
        frames in prop::collection::vec(any_frame(), 0..60),
        flush_every in 1_usize..100,
    ) {
        let (_parent, dir) = new_dir();
        let mut writer = create(&dir);
        for (number, event) in events.iter().enumerate() {
            writer.events.push(event.clone()).unwrap();
            if number % flush_every == 0 {
                writer.flush().unwrap();
            }
        }
        frames.iter().for_each(|frame| writer.stacks.push(frame.clone()).unwrap());
        writer.close().unwrap();
        let trace = Trace::open(&dir).unwrap();
        let read: Vec<Event> = trace.events().unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, events);
        prop_assert_eq!(trace.stacks().unwrap(), frames);
    }
}
