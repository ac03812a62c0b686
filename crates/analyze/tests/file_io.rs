//! Contexts of input and output, from traces written for the purpose.

use pagewise_analyze::file_io::Advice;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;
use pagewise_analyze::file_io::WhyNothing;
use pagewise_analyze::file_io::analyze_file_io;
use pagewise_trace::Frame;
use pagewise_trace::IoCache;
use pagewise_trace::IoCacheKind;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoDirection;
use pagewise_trace::IoFile;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

const PIECE: u64 = 128 << 10;
const BIG: u32 = 1;
const HOT: u32 = 2;
const SCAN: u32 = 10;
const SERVE: u32 = 11;

fn analyzed(sensor: &str, fill: impl FnOnce(&mut TraceWriter)) -> Option<FileIo> {
    analyzed_under(None, sensor, fill)
}

fn analyzed_under(
    limit: Option<u64>,
    sensor: &str,
    fill: impl FnOnce(&mut TraceWriter),
) -> Option<FileIo> {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut meta = Meta::default();
    meta.limit.bytes = limit;
    meta.sensors.insert("io".to_owned(), sensor.to_owned());
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
    for (stack, function) in [(SCAN, "scan"), (SERVE, "serve")] {
        let frame = Frame {
            stack,
            depth: 0,
            inline_index: 0,
            function: Some(function.to_owned()),
            file: Some("program.c".to_owned()),
            line: Some(stack),
            module: Some("/opt/program".to_owned()),
            inlined: false,
        };
        writer.frames.push(frame).expect("pushed");
    }
    fill(&mut writer);
    writer.close().expect("closed");
    analyze_file_io(&Trace::open(&dir).expect("opened")).expect("analyzed")
}

fn file(number: u32, inode: u64, filesystem: &str) -> IoFile {
    IoFile {
        time_ns: 0,
        file: number,
        space: 1,
        major: 8,
        minor: 1,
        inode,
        generation: 0,
        bytes: 1 << 30,
        filesystem: filesystem.to_owned(),
        path: Some(format!("/data/{inode}")),
        unlinked: false,
    }
}

fn read(time_ns: u64, stack: u32, file: u32, offset: u64, bytes: u64) -> IoCall {
    IoCall {
        time_ns,
        space: 1,
        tid: stack,
        call: IoCallKind::Read,
        direction: IoDirection::Read,
        file: Some(file),
        direct: false,
        offset: Some(offset),
        bytes: Some(bytes),
        error: None,
        latency_ns: 50,
        cached_bytes: Some(0),
        ahead_bytes: Some(0),
        stack: Some(stack),
    }
}

fn change(time_ns: u64, kind: IoCacheKind, stack: Option<u32>, offset: u64, bytes: u64) -> IoCache {
    IoCache {
        time_ns,
        kind,
        file: Some(BIG),
        offset,
        bytes,
        space: stack.map(|_| 1),
        tid: stack,
        stack,
    }
}

fn scan(writer: &mut TraceWriter, pieces: u64) {
    for piece in 0..pieces {
        let (time_ns, offset) = (1000 + piece * 100, piece * PIECE);
        let added = change(time_ns, IoCacheKind::Added, Some(SCAN), offset, PIECE);
        writer.io_cache.push(added).expect("pushed");
        let mut call = read(time_ns + 60, SCAN, BIG, offset, PIECE);
        call.cached_bytes = Some(PIECE);
        writer.io_calls.push(call).expect("pushed");
    }
}

fn context(io: &FileIo, function: &str) -> IoContext {
    let found = io.contexts.iter().find(|context| {
        let place = context.place();
        place.and_then(|frame| frame.function.as_deref()) == Some(function)
    });
    found.expect("a context").clone()
}

#[test]
fn a_scan_of_a_large_file_is_to_be_dropped_behind() {
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        scan(writer, 1000);
        let evicted = change(500_000, IoCacheKind::Evicted, None, 0, 10 * PIECE);
        writer.io_cache.push(evicted).expect("pushed");
    });
    let io = io.expect("recorded");
    let scan = context(&io, "scan");
    assert_eq!(scan.class().as_deref(), Some("SEQUENTIAL DONTNEED"));
    assert_eq!(scan.advice, Advice::DropBehind);
    assert_eq!((scan.calls, scan.bytes), (1000, 1000 * PIECE));
    assert_eq!(scan.in_vain_bytes, Some(1000 * PIECE));
    assert_eq!(scan.miss_ratio(), Some(1.0));
    assert_eq!(io.files[0].read_again_bytes, Some(0));
    assert_eq!(io.files[0].contexts, [(0, 1000 * PIECE)]);
}

#[test]
fn the_begin_of_a_file_that_grew_is_not_all_of_it() {
    const HEADER: u64 = 4096;
    let io = analyzed("on", |writer| {
        let empty = IoFile {
            bytes: 0,
            ..file(BIG, 4, "ext4")
        };
        writer.io_files.push(empty).expect("pushed");
        for piece in 0..100 {
            let mut call = read(1000 + piece, SERVE, BIG, piece * PIECE, PIECE);
            call.direction = IoDirection::Write;
            writer.io_calls.push(call).expect("pushed");
        }
        for again in 0..1000 {
            let call = read(2000 + again, SCAN, BIG, 0, HEADER);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    let header = context(&io, "scan");
    assert_eq!(header.runs.whole_file_bytes, 0);
    assert_eq!(header.class().as_deref(), Some("RANDOM WILLNEED"));
    assert_eq!(io.files[0].bytes, 100 * PIECE);
}

#[test]
fn call_paths_beyond_those_that_are_told_apart_are_no_other_path() {
    const PATHS: u32 = 70_000;
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for path in 0..PATHS {
            let call = read(1000 + u64::from(path), 100 + path, BIG, 0, 4096);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    assert_eq!(io.calls, u64::from(PATHS));
    assert_eq!(io.paths_beyond, u64::from(PATHS) - 65_534);
    let told: Vec<u32> = (io.contexts.iter())
        .flat_map(|context| context.stacks.iter().copied())
        .collect();
    assert_eq!(told.len(), 65_534, "the first of those beyond is none");
    assert!(
        !told.contains(&(100 + PATHS - 1)),
        "nobody's evidence is another's"
    );
}

#[test]
fn a_recursion_is_one_context_however_deep_it_is() {
    const DEEPEST: u32 = 20;
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for path in 0..DEEPEST {
            let own =
                (0..=path).map(|depth| ("walk", if depth == 0 { 15 } else { 20 + depth % 2 }));
            for (depth, (function, line)) in own.chain([("main", 5)]).enumerate() {
                let frame = Frame {
                    stack: 100 + path,
                    depth: depth as u16,
                    inline_index: 0,
                    function: Some(function.to_owned()),
                    file: Some("program.c".to_owned()),
                    line: Some(line),
                    module: Some("/opt/program".to_owned()),
                    inlined: false,
                };
                writer.frames.push(frame).expect("pushed");
            }
            let offset = u64::from(path) * PIECE;
            let call = read(1000 + u64::from(path), 100 + path, BIG, offset, PIECE);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    assert_eq!(io.contexts.len(), 1, "{:#?}", io.contexts);
    let walk = context(&io, "walk");
    assert_eq!((walk.calls, walk.frames.len()), (u64::from(DEEPEST), 2));
    // Each is known again by its own path.
    assert_eq!(walk.stacks, (100..100 + DEEPEST).collect::<Vec<_>>());
}

/// Scans the big file twice, which leaves the page cache in between but for `kept` pieces. Another path reads a piece of the other file
/// in order, and has as much read ahead elsewhere, in vain.
fn scan_twice_beside_vain_readahead(writer: &mut TraceWriter, kept: u64) {
    const PIECES: u64 = 1000;
    for (number, inode) in [(BIG, 4), (HOT, 5)] {
        writer
            .io_files
            .push(file(number, inode, "ext4"))
            .expect("pushed");
    }
    scan(writer, PIECES);
    let evicted = change(
        200_000,
        IoCacheKind::Evicted,
        None,
        kept * PIECE,
        (PIECES - kept) * PIECE,
    );
    writer.io_cache.push(evicted).expect("pushed");
    for piece in 0..PIECES {
        let (time_ns, offset) = (300_000 + piece * 100, piece * PIECE);
        if piece >= kept {
            let added = change(time_ns, IoCacheKind::Added, Some(SCAN), offset, PIECE);
            writer.io_cache.push(added).expect("pushed");
        }
        let again = read(time_ns + 60, SCAN, BIG, offset, PIECE);
        writer.io_calls.push(again).expect("pushed");
        for place in [offset, offset + PIECES * PIECE] {
            let mut added = change(time_ns + 70, IoCacheKind::Added, Some(SERVE), place, PIECE);
            added.file = Some(HOT);
            writer.io_cache.push(added).expect("pushed");
        }
        let mut other = read(time_ns + 80, SERVE, HOT, offset, PIECE);
        other.cached_bytes = Some(PIECE);
        other.ahead_bytes = Some(PIECE);
        writer.io_calls.push(other).expect("pushed");
    }
}

#[test]
fn what_had_left_the_page_cache_is_dropped_where_something_pays_for_the_rest() {
    let advice = |limit, kept| {
        let io = analyzed_under(limit, "on", |writer| {
            scan_twice_beside_vain_readahead(writer, kept);
        });
        let io = io.expect("recorded");
        let scan = context(&io, "scan");
        let reuse = scan.reuse.expect("known");
        assert_eq!(reuse.again_bytes, 1000 * PIECE);
        assert_eq!(reuse.again_cached_bytes, Some(kept * PIECE));
        let serve = context(&io, "serve");
        assert_eq!(serve.unused_ahead_bytes, Some(1000 * PIECE));
        assert_eq!(serve.advice, Advice::RandomDropBehind);
        scan.advice
    };
    let limit = Some(64 << 20);
    assert_eq!(advice(limit, 10), Advice::DropBehind);
    assert_eq!(advice(limit, 150), Advice::DropBehind, "paid for");
    assert_eq!(advice(limit, 250), Advice::KeepResident, "used too often");
    assert_eq!(advice(None, 150), Advice::Keep, "nobody knows the memory");
}

#[test]
fn what_is_read_again_after_eviction_is_told() {
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        scan(writer, 10);
        let evicted = change(9_000, IoCacheKind::Evicted, None, 0, 4 * PIECE);
        writer.io_cache.push(evicted).expect("pushed");
        let again = change(9_100, IoCacheKind::Added, Some(SERVE), 0, 2 * PIECE);
        writer.io_cache.push(again).expect("pushed");
        for call in 0..8 {
            let place = (1 - call % 2) * 8 * PIECE;
            let row = read(9_200 + call, SERVE, BIG, place, PIECE);
            writer.io_calls.push(row).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    assert_eq!(context(&io, "serve").refaulted_bytes, Some(2 * PIECE));
    // The ninth piece was still there, the first one was not.
    assert_eq!(context(&io, "scan").in_vain_bytes, Some(9 * PIECE));
    assert_eq!(io.files[0].read_again_bytes, Some(2 * PIECE));
    assert!(io.files[0].contexts_disagree, "one in order, one anywhere");
}

#[test]
fn a_file_with_two_numbers_is_one_and_files_in_memory_get_no_advice() {
    let io = analyzed("on", |writer| {
        for number in [BIG, HOT] {
            writer
                .io_files
                .push(file(number, 4, "tmpfs"))
                .expect("pushed");
        }
        for (time, number) in [(1, BIG), (2, HOT)] {
            for call in 0..1000 {
                let row = read(time * 100_000 + call, SCAN, number, call * PIECE, PIECE);
                writer.io_calls.push(row).expect("pushed");
            }
        }
    });
    let io = io.expect("recorded");
    assert_eq!(io.files.len(), 1);
    assert_eq!(io.files[0].read_again_bytes, Some(1000 * PIECE));
    let scan = context(&io, "scan");
    assert_eq!(scan.does, Use::Read);
    assert_eq!(scan.advice, Advice::Nothing(WhyNothing::InMemory));
}

#[test]
fn many_small_files_are_followed() {
    const FILES: u32 = 70_000;
    let io = analyzed("on", |writer| {
        for number in 0..FILES {
            let row = file(number + 1, u64::from(number) + 4, "ext4");
            writer.io_files.push(row).expect("pushed");
        }
        for number in 0..FILES {
            let call = read(1000 + u64::from(number), SCAN, number + 1, 0, 4096);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    let reuse = context(&io, "scan").reuse.expect("known");
    assert_eq!(reuse.bytes, u64::from(FILES) * 4096);
    assert_eq!(reuse.again_bytes, 0);
    assert_eq!(io.beyond_bytes, 0);
}

#[test]
fn two_places_of_the_code_read_a_file_in_order() {
    const RECORD: u64 = 16 + 4096;
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for record in 0..50_000 {
            let (time_ns, offset) = (1000 + record * 100, record * RECORD);
            let header = read(time_ns, SCAN, BIG, offset, 16);
            let mut body = read(time_ns + 50, SERVE, BIG, offset + 16, 4096);
            body.tid = header.tid;
            writer.io_calls.push(header).expect("pushed");
            writer.io_calls.push(body).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    let body = context(&io, "serve");
    assert_eq!(body.class().as_deref(), Some("SEQUENTIAL DONTNEED"));
    assert_eq!(body.advice, Advice::DropBehind);
    let read_again = io.contexts.iter().filter_map(|context| context.reuse);
    assert_eq!(read_again.map(|reuse| reuse.again_bytes).sum::<u64>(), 0);
}

#[test]
fn threads_and_places_append_lines_to_a_log_once() {
    const LINE: u64 = 100;
    let io = analyzed("on", |writer| {
        let empty = IoFile {
            bytes: 0,
            ..file(BIG, 4, "ext4")
        };
        writer.io_files.push(empty).expect("pushed");
        for line in 0..50_000 {
            let stack = if line % 3 == 0 { SCAN } else { SERVE };
            let mut call = read(1000 + line * 100, stack, BIG, line * LINE, LINE);
            call.tid = 1 + (line % 5) as u32;
            call.direction = IoDirection::Write;
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    for function in ["scan", "serve"] {
        let class = context(&io, function).class();
        assert_eq!(class.as_deref(), Some("SEQUENTIAL WRITE-ONCE"));
    }
}

#[test]
fn what_was_spilled_anew_is_not_read_again() {
    const PIECES: u64 = 1000;
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for turn in 0..4 * PIECES {
            let offset = turn % PIECES * PIECE;
            let writes = (turn / PIECES).is_multiple_of(2);
            let stack = if writes { SERVE } else { SCAN };
            let mut call = read(1000 + turn * 100, stack, BIG, offset, PIECE);
            if writes {
                call.direction = IoDirection::Write;
            }
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    let reads = context(&io, "scan");
    assert_eq!(reads.class().as_deref(), Some("SEQUENTIAL DONTNEED"));
    let writes = context(&io, "serve").reuse.expect("known");
    assert_eq!(writes.again_bytes, writes.bytes);
}

#[test]
fn small_files_that_are_written_anew_are_not_read_again() {
    const ROUNDS: u64 = 20;
    let io = analyzed("on", |writer| {
        let empty = IoFile {
            bytes: 0,
            ..file(BIG, 4, "ext4")
        };
        writer.io_files.push(empty).expect("pushed");
        for round in 0..ROUNDS {
            let mut write = read(1000 + round * 100, SERVE, BIG, 0, 100);
            write.direction = IoDirection::Write;
            writer.io_calls.push(write).expect("pushed");
            let call = read(1050 + round * 100, SCAN, BIG, 0, 100);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let reuse = context(&io.expect("recorded"), "scan").reuse;
    let reuse = reuse.expect("known");
    assert_eq!((reuse.bytes, reuse.again_bytes), (ROUNDS * 4096, 0));
}

#[test]
fn a_file_that_was_forgotten_may_have_left_the_page_cache() {
    let again_cached = |second: u32| {
        let io = analyzed_under(Some(64 << 20), "on", |writer| {
            for number in [BIG, HOT] {
                let row = file(number, 4, "ext4");
                writer.io_files.push(row).expect("pushed");
            }
            for (time, number) in [(1, BIG), (2, second)] {
                for call in 0..1000 {
                    let row = read(time * 100_000 + call, SCAN, number, call * PIECE, PIECE);
                    writer.io_calls.push(row).expect("pushed");
                }
            }
        });
        let reuse = context(&io.expect("recorded"), "scan").reuse;
        let reuse = reuse.expect("known");
        assert_eq!(reuse.again_bytes, 1000 * PIECE);
        reuse.again_cached_bytes
    };
    assert_eq!(again_cached(BIG), Some(1000 * PIECE));
    assert_eq!(again_cached(HOT), Some(0), "known by another number");
}

#[test]
fn what_was_not_recorded_is_not_zero() {
    assert!(analyzed("off", |_| {}).is_none());
    assert!(analyzed("on", |_| {}).is_some_and(|io| io.contexts.is_empty()));
}

#[test]
fn of_calls_smaller_than_a_page_pages_are_missed() {
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for page in 0..1000 {
            // Neighbours are far apart.
            let mut call = read(1000 + page, SCAN, BIG, page * 7 % 1000 * 4096, 100);
            call.cached_bytes = Some(if page < 100 { 4096 } else { 0 });
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let scan = context(&io.expect("recorded"), "scan");
    assert_eq!(scan.missed_bytes, Some(100 * 4096));
    assert_eq!(scan.miss_ratio(), Some(0.1));
}

#[test]
fn who_reads_alike_but_wants_it_kept_disagrees_with_who_does_not() {
    const PIECES: u64 = 100;
    let disagree = |readers: &[u32]| {
        let io = analyzed("on", |writer| {
            writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
            for (round, &reader) in (0..).zip(readers) {
                for piece in 0..PIECES {
                    let time_ns = 1000 + (round * PIECES + piece) * 100;
                    let call = read(time_ns, reader, BIG, piece * PIECE, PIECE);
                    writer.io_calls.push(call).expect("pushed");
                }
            }
        });
        let io = io.expect("recorded");
        let serve = context(&io, "serve");
        assert_eq!(serve.class().as_deref(), Some("SEQUENTIAL WILLNEED"));
        io.files[0].contexts_disagree
    };
    assert!(disagree(&[SERVE, SERVE, SERVE, SCAN]));
    assert!(!disagree(&[
        SERVE, SCAN, SERVE, SCAN, SERVE, SCAN, SERVE, SCAN
    ]));
}

#[test]
fn generated_code_is_one_context_whatever_process_and_compilation_it_is_of() {
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for (stack, names) in [
            (100, "/tmp/perf-7.map"),
            (101, "/tmp/perf-7.map"),
            (102, "/proc/9/root/tmp/perf-1.map"),
        ] {
            let address = 0x7f00_0000_0000 + u64::from(stack) * 4096;
            writer
                .frames
                .push(Frame {
                    stack,
                    depth: 0,
                    inline_index: 0,
                    function: Some("Shop.scan()".to_owned()),
                    file: None,
                    line: None,
                    module: Some(names.to_owned()),
                    inlined: false,
                })
                .expect("pushed");
            writer
                .stacks
                .push(StackFrame {
                    stack,
                    depth: 0,
                    address,
                    module: Some(names.to_owned()),
                    module_offset: Some(address),
                    truncated: false,
                })
                .expect("pushed");
            let call = read(1000 + u64::from(stack), stack, BIG, 0, PIECE);
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let io = io.expect("recorded");
    assert_eq!(io.contexts.len(), 1, "{:#?}", io.contexts);
    assert_eq!(io.contexts[0].stacks, [100, 101, 102]);
    let frame = &io.contexts[0].frames[0];
    assert_eq!(frame.module.as_deref(), Some("[generated code]"));
}

#[test]
fn without_a_look_at_the_page_cache_what_follows_from_it_is_unknown_and_the_rest_is_told() {
    let recorded = |state: &str, cached_bytes| {
        analyzed_under(Some(64 << 20), state, |writer| {
            for (number, inode) in [(BIG, 4), (HOT, 5)] {
                let row = file(number, inode, "ext4");
                writer.io_files.push(row).expect("pushed");
            }
            for call in 0..4000 {
                let unseen = |row| IoCall {
                    cached_bytes,
                    ahead_bytes: cached_bytes,
                    ..row
                };
                let scan = read(call, SCAN, BIG, call * PIECE, PIECE);
                let serve = read(call, SERVE, HOT, call * 7 % 500 * 2 * PIECE, PIECE);
                writer.io_calls.push(unseen(scan)).expect("pushed");
                writer.io_calls.push(unseen(serve)).expect("pushed");
            }
        })
    };
    let io = recorded("in part: the C library's calls", None).expect("recorded");
    assert!(io.cache_unseen);
    let (scan, serve) = (context(&io, "scan"), context(&io, "serve"));
    assert_eq!(scan.class().as_deref(), Some("SEQUENTIAL DONTNEED"));
    assert_eq!(scan.advice, Advice::DropBehind);
    assert_eq!(serve.class().as_deref(), Some("RANDOM WILLNEED"));
    assert_eq!(serve.advice, Advice::Keep, "whether it reads ahead in vain");
    for context in [&scan, &serve] {
        assert_eq!((context.missed_bytes, context.ahead_bytes), (None, None));
        assert_eq!(context.unused_ahead_bytes, None);
        assert_eq!(context.in_vain_bytes, None);
        assert_eq!(context.refaulted_bytes, None);
        assert_eq!(context.miss_ratio(), None);
        let reuse = context.reuse.expect("told by the calls alone");
        assert_eq!(reuse.again_cached_share(), None);
    }
    let seen = recorded("on", Some(0)).expect("recorded");
    assert!(!seen.cache_unseen);
    assert_eq!(context(&seen, "scan").in_vain_bytes, Some(0));
    assert!(recorded("missing (static program)", None).is_none());
}

const LOG: u32 = 3;
const TABLE: u32 = 4;

/// Both written by one call path; the table, or both, read back by another.
fn logs_and_tables(writer: &mut TraceWriter, pieces_of_table: u64, read_back: &[u32]) {
    for (number, name) in [(LOG, "log.0"), (TABLE, "table.0")] {
        let mut named = file(number, u64::from(number), "ext4");
        named.path = Some(format!("/data/{name}"));
        named.bytes = 0;
        writer.io_files.push(named).expect("pushed");
    }
    let of = |number| if number == LOG { 1000 } else { pieces_of_table };
    let mut time_ns = 0;
    for piece in 0..1000 {
        for number in [LOG, TABLE] {
            time_ns += 100;
            let mut call = read(time_ns, SCAN, number, piece * PIECE, PIECE);
            (call.call, call.direction) = (IoCallKind::Write, IoDirection::Write);
            if piece < of(number) {
                writer.io_calls.push(call).expect("pushed");
            }
        }
    }
    for &number in read_back {
        for piece in 0..of(number) {
            time_ns += 100;
            let call = read(time_ns, SERVE, number, piece * PIECE, PIECE);
            writer.io_calls.push(call).expect("pushed");
        }
    }
}

#[test]
fn a_call_path_that_does_two_jobs_has_a_context_for_each_kind_of_files() {
    for pieces_of_table in [900, 90] {
        let io = analyzed("on", |writer| {
            logs_and_tables(writer, pieces_of_table, &[TABLE]);
        });
        let io = io.expect("recorded");
        let writes = |context: &&IoContext| context.does == Use::Write;
        let [logs, tables] = &io.contexts.iter().filter(writes).collect::<Vec<_>>()[..] else {
            panic!("{:?}", io.contexts);
        };
        assert_eq!(logs.class().as_deref(), Some("SEQUENTIAL WRITE-ONCE"));
        assert_eq!(logs.advice, Advice::DropWritten);
        assert_eq!((logs.calls, logs.bytes), (1000, 1000 * PIECE));
        let names: Vec<Option<&str>> = (logs.files.iter())
            .map(|&(file, _)| io.files[file].path.as_deref())
            .collect();
        assert_eq!(names, [Some("/data/log.0")]);
        assert_eq!(tables.class().as_deref(), Some("SEQUENTIAL"));
        assert!(matches!(tables.advice, Advice::Nothing(_)));
        assert_eq!(tables.bytes, pieces_of_table * PIECE);
        assert!(logs.is_by_files && tables.is_by_files);
        assert_eq!(logs.stacks, tables.stacks);
        assert_eq!((io.call_paths, io.contexts.len()), (2, 3));
        assert_eq!(io.written_bytes, (1000 + pieces_of_table) * PIECE);
    }
}

#[test]
fn a_call_path_that_uses_all_files_alike_is_one_context() {
    for read_back in [&[][..], &[LOG, TABLE]] {
        let io = analyzed("on", |writer| logs_and_tables(writer, 900, read_back));
        let io = io.expect("recorded");
        let writes = io.contexts.iter().filter(|one| one.does == Use::Write);
        let [both] = &writes.collect::<Vec<_>>()[..] else {
            panic!("{:?}", io.contexts);
        };
        assert_eq!((both.bytes, both.is_by_files), (1900 * PIECE, false));
        assert_eq!(both.files.len(), 2);
    }
}

#[test]
fn what_is_asked_for_by_io_uring_is_told_apart() {
    let io = analyzed("on", |writer| {
        writer.io_files.push(file(BIG, 4, "ext4")).expect("pushed");
        for (number, kind) in [IoCallKind::UringRead, IoCallKind::Pread, IoCallKind::Read]
            .into_iter()
            .enumerate()
        {
            let mut call = read(1000 + number as u64, SCAN, BIG, 0, 4096);
            call.call = kind;
            writer.io_calls.push(call).expect("pushed");
        }
    });
    let scan = context(&io.expect("recorded"), "scan");
    assert_eq!((scan.bytes, scan.requested_bytes), (3 * 4096, 4096));
}
