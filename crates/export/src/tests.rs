//! Every format, from one small trace whose sums are known.

use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;

use flate2::read::GzDecoder;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
use pagewise_trace::Frame;
use pagewise_trace::Global;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Sample;
use pagewise_trace::Site;
use pagewise_trace::Space;
use pagewise_trace::Stall;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;
use tempfile::TempDir;

use crate::CallPathOf;
use crate::ExportError;
use crate::Format;
use crate::Options;
use crate::Weight;
use crate::export;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const GRID: u64 = 0x7f00_0000_0000;
pub(crate) const TABLE: u64 = 0x60_0000;
pub(crate) const NOWHERE: u64 = 0x1000_0000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A trace with what `events` says happened, and its folder.
pub(crate) fn trace_of(events: &[Event]) -> (TempDir, Trace) {
    trace_with(events, &[])
}

/// As [`trace_of`], with waits beside the events.
pub(crate) fn trace_with(events: &[Event], stalls: &[Stall]) -> (TempDir, Trace) {
    trace_with_all(events, stalls, &[])
}

/// As [`trace_with`], with events that were counted and not listed.
pub(crate) fn trace_with_all(
    events: &[Event],
    stalls: &[Stall],
    counts: &[EventCount],
) -> (TempDir, Trace) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("pagewise.data");
    write_trace(&dir, events, stalls, counts).expect("written");
    let trace = Trace::open(&dir).expect("opened");
    (folder, trace)
}

fn write_trace(
    dir: &Path,
    events: &[Event],
    stalls: &[Stall],
    counts: &[EventCount],
) -> Result<(), pagewise_trace::TraceError> {
    let mut meta = Meta {
        command: vec!["./sweep".to_owned(), "a b".to_owned()],
        wall_ns: Some(3 * SECOND),
        ..Meta::default()
    };
    meta.clock.start_monotonic_ns = Some(SECOND);
    meta.clock.start_realtime_ns = Some(1_700_000_000 * SECOND);
    meta.clock.boot_offset_ns = Some(7);
    let mut writer = TraceWriter::create(dir, meta, Overwrite::Refuse)?;
    for stall in stalls {
        writer.stalls.push(stall.clone())?;
    }
    writer.spaces.push(Space {
        space: 0,
        pid: 4242,
        start_time_ns: 1,
        exec_epoch: 1,
        parent_space: None,
        begin_ns: SECOND,
        end_ns: None,
        command: "sweep".to_owned(),
        executable: Some("/usr/bin/sweep".to_owned()),
    })?;
    writer.allocations.push(Allocation {
        estimated_bytes: None,
        allocation: 0,
        space: 0,
        tid: 4242,
        time_ns: SECOND,
        address: GRID,
        bytes: 16 * PAGE,
        kind: AllocationKind::Malloc,
        stack: Some(5),
    })?;
    writer.globals.push(Global {
        space: 0,
        start: TABLE,
        bytes: 4 * PAGE,
        name: "table, \"big\"".to_owned(),
        file: None,
        line: None,
        module: "/usr/bin/sweep".to_owned(),
        type_name: None,
    })?;
    // Innermost: inlined `new_grid` in `setup<[u8; 4]>`, called by `main`.
    for (depth, inline_index, function, line) in [
        (1, 0, "main", 40),
        (0, 1, "setup<[u8; 4]>", 31),
        (0, 0, "new_grid", 12),
    ] {
        writer.frames.push(Frame {
            stack: 5,
            depth,
            inline_index,
            function: Some(function.to_owned()),
            file: Some("src/sweep.c".to_owned()),
            line: Some(line),
            module: Some("/usr/bin/sweep".to_owned()),
            inlined: inline_index == 0 && depth == 0,
        })?;
    }
    writer.sites.push(Site {
        stack: 5,
        name: Some("grid".to_owned()),
        file: Some("src/sweep.c".to_owned()),
        line: Some(12),
        function: Some("new_grid".to_owned()),
        type_name: None,
    })?;
    for second in 1..=2 {
        writer.samples.push(Sample {
            time_ns: second * SECOND,
            rss_bytes: Some(second << 20),
            swap_bytes: Some(0),
            limit_bytes: None,
        })?;
    }
    for event in events {
        writer.events.push(event.clone())?;
    }
    for row in counts {
        writer.event_counts.push(row.clone())?;
    }
    writer.close()?;
    Ok(())
}

pub(crate) fn event(kind: EventKind, time_ns: u64, address: u64) -> Event {
    Event {
        time_ns,
        space: 0,
        tid: None,
        kind,
        address,
        latency_ns: None,
        stack: None,
    }
}

pub(crate) fn swap_in(time_ns: u64, address: u64, latency_ns: u64) -> Event {
    Event {
        tid: Some(4243),
        latency_ns: Some(latency_ns),
        ..event(EventKind::SwapIn, time_ns, address)
    }
}

/// Three swap-ins and a swap-cache hit of `grid`, one of `table`, one of nothing known; two evictions.
pub(crate) fn usual_events() -> Vec<Event> {
    let hit = Event {
        tid: Some(4242),
        ..event(EventKind::SwapCacheHit, 2 * SECOND + 600, GRID + 3 * PAGE)
    };
    vec![
        event(EventKind::PageWritten, 2 * SECOND - 200, GRID),
        event(EventKind::Eviction, 2 * SECOND - 100, GRID),
        event(EventKind::Eviction, 2 * SECOND - 90, TABLE),
        event(EventKind::ZeroFilled, 2 * SECOND - 80, TABLE + PAGE),
        swap_in(2 * SECOND, GRID, 50),
        // Begins 10 ns before the one before has ended.
        swap_in(2 * SECOND + 100, GRID + PAGE, 110),
        swap_in(2 * SECOND + 300, TABLE, 20),
        swap_in(2 * SECOND + 500, GRID + 2 * PAGE, 40),
        hit,
        swap_in(2 * SECOND + 900, NOWHERE, 7),
    ]
}

pub(crate) fn exported(trace: &Trace, format: Format, options: Options) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(trace, format, options, &mut bytes).expect("exported");
    bytes
}

fn text(trace: &Trace, format: Format, options: Options) -> String {
    String::from_utf8(exported(trace, format, options)).expect("text")
}

pub(crate) fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
    plain
}

#[test]
fn folded_stacks_end_in_the_object() {
    let (_folder, trace) = trace_of(&usual_events());
    let of = |weight| {
        let options = Options {
            weight,
            ..Options::default()
        };
        text(&trace, Format::Folded, options)
    };
    assert_eq!(
        of(Weight::SwapIns),
        "(memory of no recorded object) 1\n\
         main;setup<[u8: 4]>;new_grid;grid (sweep.c:12) 4\n\
         table, \"big\" 1\n"
    );
    assert_eq!(
        of(Weight::StallNs),
        "(memory of no recorded object) 7\n\
         main;setup<[u8: 4]>;new_grid;grid (sweep.c:12) 200\n\
         table, \"big\" 20\n"
    );
    assert_eq!(
        of(Weight::Evictions),
        "main;setup<[u8: 4]>;new_grid;grid (sweep.c:12) 1\ntable, \"big\" 1\n"
    );
}

#[test]
fn csv_has_a_line_for_each_event() {
    let (_folder, trace) = trace_of(&usual_events());
    let text = text(&trace, Format::Csv, Options::default());
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(
        lines.len(),
        12,
        "header, ten events, nothing after the last: {text}"
    );
    assert_eq!(lines[0], crate::csv::COLUMNS.join(","));
    assert_eq!(
        lines[5],
        "2000000000,0,4242,4243,swap_in,139637976727552,50,grid (sweep.c:12),allocation,grid,src/sweep.c,12,new_grid,0"
    );
    assert_eq!(
        lines[4],
        "1999999920,0,4242,,zero_filled,6295552,,\"table, \"\"big\"\"\",global,\"table, \"\"big\"\"\",,,,1"
    );
    assert_eq!(
        lines[10],
        "2000000900,0,4242,4243,swap_in,268435456,7,(memory of no recorded object),unknown,,,,,"
    );
    assert_eq!(lines[11], "");
}

#[test]
fn what_was_only_counted_is_in_the_sums_with_its_object() {
    let row = EventCount {
        time_ns: 2 * SECOND,
        interval_ns: SECOND,
        space: 0,
        kind: EventKind::SwapIn,
        address: GRID,
        bytes: 8 * PAGE,
        events: 10,
        latency_ns: Some(1_000),
    };
    let (_folder, trace) = trace_with_all(&[], &[], &[row]);
    for (weight, sum) in [(Weight::SwapIns, 10), (Weight::StallNs, 1_000)] {
        let options = Options {
            weight,
            ..Options::default()
        };
        assert_eq!(
            text(&trace, Format::Folded, options),
            format!("grid (sweep.c:12) {sum}\n")
        );
    }
}

#[test]
fn a_trace_without_events_is_exported_too() {
    let (_folder, trace) = trace_of(&[]);
    for &format in Format::ALL {
        let bytes = exported(&trace, format, Options::default());
        assert_eq!(bytes.is_empty(), format == Format::Folded, "{format}");
    }
}

#[test]
fn damage_is_told_and_not_exported_as_an_end() {
    let (folder, trace) = trace_of(&usual_events());
    let events = folder.path().join("pagewise.data/events.parquet");
    let mut bytes = fs::read(&events).expect("read");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x10;
    fs::write(&events, bytes).expect("written");
    for &format in Format::ALL {
        let error =
            export(&trace, format, Options::default(), &mut Vec::new()).expect_err("refused");
        assert!(
            error.to_string().contains("events.parquet"),
            "{format}: {error}"
        );
    }
}

/// Takes so many bytes and then no more.
struct Limited {
    left: usize,
    error: io::ErrorKind,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 && !bytes.is_empty() {
            return Err(self.error.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn wherever_the_output_ends_the_reason_is_kept() {
    let events: Vec<Event> = usual_events().into_iter().cycle().take(20_000).collect();
    let (_folder, trace) = trace_of(&events);
    for &format in Format::ALL {
        let whole = exported(&trace, format, Options::default()).len();
        for left in [0, 1, whole / 2, whole - 1] {
            let output = |error| {
                let mut out = Limited { left, error };
                export(&trace, format, Options::default(), &mut out).expect_err("it ends")
            };
            assert!(
                output(io::ErrorKind::BrokenPipe).is_broken_pipe(),
                "{format} after {left}"
            );
            match output(io::ErrorKind::StorageFull) {
                ExportError::Output(error) => {
                    assert_eq!(
                        error.kind(),
                        io::ErrorKind::StorageFull,
                        "{format} after {left}"
                    );
                }
                other => panic!("{format} after {left}: {other:?}"),
            }
        }
    }
}

#[test]
fn call_paths_of_faults_are_used_where_they_were_recorded() {
    let (_folder, trace) = trace_of(&usual_events());
    let options = Options {
        call_path_of: CallPathOf::Fault,
        ..Options::default()
    };
    let error = export(&trace, Format::Folded, options, &mut Vec::new()).expect_err("refused");
    assert!(matches!(error, ExportError::NoFaultPaths));

    let mut events = usual_events();
    for event in &mut events[5..8] {
        event.stack = Some(5);
    }
    let (_folder, trace) = trace_of(&events);
    assert_eq!(
        text(&trace, Format::Folded, options),
        "(no call path);(memory of no recorded object) 1\n\
         (no call path);grid (sweep.c:12) 2\n\
         main;setup<[u8: 4]>;new_grid;grid (sweep.c:12) 2\n\
         main;setup<[u8: 4]>;new_grid;table, \"big\" 1\n"
    );
}
