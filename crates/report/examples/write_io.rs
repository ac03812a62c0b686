//! Writes the trace of a program that scans one file, looks up rows of it, and writes a log. Nothing of it was measured.
//!
//! ```text
//! cargo run --release -p pagewise-report --example write_io -- FOLDER
//! ```

use std::error::Error;
use std::path::Path;

use pagewise_trace::Frame;
use pagewise_trace::IoCache;
use pagewise_trace::IoCacheKind;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoDirection;
use pagewise_trace::IoFile;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::TraceWriter;

const TABLE: u32 = 1;
const LOG: u32 = 2;
const PIECE: u64 = 1 << 20;
const ROW: u64 = 64 << 10;
const PIECES: u64 = 512;

/// A call path by its number: the function that calls, below `main`.
const FUNCTIONS: [(u32, &str); 3] = [(10, "scan"), (11, "look_up"), (12, "write_log")];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: write_io FOLDER")?;
    let mut meta = Meta {
        command: vec!["/opt/table".to_owned()],
        wall_ns: Some(2_000_000_000),
        end_monotonic_ns: Some(2_000_000_000),
        ..Meta::default()
    };
    meta.sensors.insert("io".to_owned(), "on".to_owned());
    let mut writer = TraceWriter::create(Path::new(&folder), meta, Overwrite::Replace)?;
    names(&mut writer)?;
    let mut time_ns = 1000;
    for piece in 0..PIECES {
        let offset = piece * PIECE;
        writer.io_cache.push(brought_in(time_ns, offset))?;
        time_ns += 1_000_000;
        writer
            .io_calls
            .push(call(time_ns, 10, TABLE, offset, PIECE))?;
        // Somewhere in the first half: the multiplier is odd, so that places do not repeat soon.
        let row = piece * 40_503 % (PIECES * PIECE / ROW / 2) * ROW;
        writer
            .io_calls
            .push(call(time_ns + 10, 11, TABLE, row, ROW))?;
        let log = call(time_ns + 20, 12, LOG, piece * 100, 100);
        writer.io_calls.push(IoCall {
            call: IoCallKind::Write,
            direction: IoDirection::Write,
            ..log
        })?;
    }
    writer.close()?;
    Ok(())
}

fn names(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    for (stack, function) in FUNCTIONS {
        for (depth, name, line) in [(0, function, stack), (1, "main", 90)] {
            writer.frames.push(Frame {
                stack,
                depth,
                inline_index: 0,
                function: Some(name.to_owned()),
                file: Some("table.c".to_owned()),
                line: Some(line),
                module: Some("/opt/table".to_owned()),
                inlined: false,
            })?;
        }
    }
    for (file, path, bytes) in [
        (TABLE, "/data/table", PIECES * PIECE),
        (LOG, "/data/log", 0),
    ] {
        writer.io_files.push(IoFile {
            time_ns: 0,
            file,
            space: 1,
            major: 8,
            minor: 1,
            inode: u64::from(file),
            generation: 0,
            bytes,
            filesystem: "ext4".to_owned(),
            path: Some(path.to_owned()),
            unlinked: false,
        })?;
    }
    Ok(())
}

fn brought_in(time_ns: u64, offset: u64) -> IoCache {
    IoCache {
        time_ns,
        kind: IoCacheKind::Added,
        space: Some(1),
        tid: Some(1),
        file: Some(TABLE),
        offset,
        bytes: PIECE,
        stack: Some(10),
    }
}

/// It takes 1 us for each KiB.
fn call(time_ns: u64, stack: u32, file: u32, offset: u64, bytes: u64) -> IoCall {
    IoCall {
        time_ns,
        space: 1,
        tid: 1,
        call: IoCallKind::Pread,
        direction: IoDirection::Read,
        file: Some(file),
        direct: false,
        offset: Some(offset),
        bytes: Some(bytes),
        error: None,
        latency_ns: bytes,
        cached_bytes: Some(if stack == 10 { bytes } else { 0 }),
        ahead_bytes: Some(0),
        stack: Some(stack),
    }
}
