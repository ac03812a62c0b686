//! Writes a small sample trace, with rows in every table, for trying other tools on it:
//!
//! ```text
//! cargo run -p pagewise-trace --example write_sample -- FOLDER [--crash]
//! ```
//!
//! With `--crash` the recording is left as a killed recorder would leave it.

use std::error::Error;
use std::path::Path;

use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::PageState;
use pagewise_trace::TraceWriter;

const PAGES: u64 = 2_000;
const HEAP: u64 = 0x7f00_0000_0000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: write_sample FOLDER [--crash]")?;
    let crash = arguments
        .next()
        .is_some_and(|argument| argument == "--crash");

    let mut writer = TraceWriter::create(Path::new(&folder), meta(), Overwrite::Replace)?;
    write_program(&mut writer)?;
    write_events(&mut writer)?;
    write_names(&mut writer)?;
    write_region_accesses(&mut writer)?;
    write_io(&mut writer)?;
    writer.flush()?;
    if !crash {
        writer.close()?;
    }
    Ok(())
}

fn meta() -> Meta {
    Meta {
        command: vec![
            "./sweep".to_owned(),
            "--pages".to_owned(),
            PAGES.to_string(),
        ],
        wall_ns: Some(PAGES * 6_000),
        ..Meta::default()
    }
}

fn write_program(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    let space = pagewise_trace::Space {
        space: 0,
        pid: 4242,
        start_time_ns: 1_000_000,
        exec_epoch: 1,
        parent_space: None,
        begin_ns: 0,
        end_ns: None,
        command: "sweep".to_owned(),
        executable: Some("/usr/bin/sweep".to_owned()),
    };
    writer.spaces.push(space.clone())?;
    writer.spaces.push(pagewise_trace::Space {
        end_ns: Some(PAGES * 6_000),
        ..space
    })?;
    writer.allocations.push(pagewise_trace::Allocation {
        allocation: 0,
        space: 0,
        tid: 4242,
        time_ns: 10,
        address: HEAP,
        bytes: PAGES * 4096,
        kind: AllocationKind::Malloc,
        stack: Some(0),
        estimated_bytes: None,
    })?;
    writer.releases.push(pagewise_trace::Release {
        space: 0,
        time_ns: PAGES * 6_000,
        address: HEAP,
        bytes: None,
    })?;
    writer.moves.push(pagewise_trace::Move {
        space: 0,
        time_ns: 20,
        old_address: HEAP - 8192,
        old_bytes: 4096,
        new_address: HEAP - 65_536,
        new_bytes: 8192,
    })?;
    writer.given_names.push(pagewise_trace::GivenName {
        time_ns: 11,
        space: 0,
        address: HEAP,
        name: "array".to_owned(),
    })?;
    writer.mappings.push(pagewise_trace::Mapping {
        space: 0,
        time_ns: 1,
        start: 0x40_0000,
        end: 0x40_1000,
        permissions: "r-xp".to_owned(),
        offset: 4096,
        path: "/usr/bin/sweep".to_owned(),
    })?;
    for second in 0..3 {
        writer.samples.push(pagewise_trace::Sample {
            time_ns: second * 1_000_000_000,
            rss_bytes: Some(PAGES * 2048),
            swap_bytes: Some(second * 4096),
            limit_bytes: None,
        })?;
    }
    add_waits_and_accesses(writer)?;
    write_residency(writer)
}

/// Two scans: all is in memory, then one half is in swap.
fn write_residency(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    let half = PAGES * 2048;
    let seen = [
        (1, HEAP, 2 * half, PageState::Resident),
        (2, HEAP + half, half, PageState::Swapped),
    ];
    for (scan, address, bytes, state) in seen {
        let time_ns = scan * 200_000;
        writer.residency.push(pagewise_trace::Residency {
            time_ns: time_ns + 500,
            space: 0,
            address,
            bytes,
            state,
            file: (state == PageState::Resident).then_some(false),
            mapped: None,
        })?;
        writer.residency_scans.push(pagewise_trace::ResidencyScan {
            time_ns,
            space: 0,
            end_ns: time_ns + 900,
            cost_ns: 900,
            resident_bytes: 2 * half - (scan - 1) * half,
            swapped_bytes: (scan - 1) * half,
            huge_bytes: Some(0),
            complete: true,
        })?;
        writer.thread_faults.push(pagewise_trace::ThreadFaults {
            time_ns,
            space: 0,
            tid: 4242,
            major_faults: scan * 10,
            minor_faults: scan * 100,
        })?;
        writer.headway.push(pagewise_trace::Headway {
            time_ns,
            space: 0,
            user_ns: scan * 10_000_000,
            major_faults: scan * 10,
        })?;
    }
    Ok(())
}

fn add_waits_and_accesses(writer: &mut TraceWriter) -> Result<(), pagewise_trace::TraceError> {
    writer.stalls.push(pagewise_trace::Stall {
        time_ns: 1_000,
        space: 1,
        tid: 100,
        kind: pagewise_trace::StallKind::MemcgReclaim,
        duration_ns: 70_000,
        in_fault: false,
    })?;
    writer.run_delays.push(pagewise_trace::RunDelay {
        time_ns: 5_000_000,
        space: 1,
        tid: 100,
        duration_ns: 4_000_000,
    })?;
    writer.pressure.push(pagewise_trace::Pressure {
        time_ns: 1_000_000_000,
        psi_some_ns: None,
        psi_full_ns: None,
        machine_psi_some_ns: Some(80_000),
        machine_psi_full_ns: Some(70_000),
        delay_swapin_ns: None,
        delay_freepages_ns: None,
        delay_thrashing_ns: None,
        delay_blkio_ns: None,
    })?;
    writer.glances.push(pagewise_trace::Glance {
        time_ns: 1_004_000_000,
        interval_ns: 4_000_000,
        space: 1,
        address: 0x7f00_0000_0000,
        pages: 4,
        map: Some(format!("f{}", "0".repeat(127))),
    })?;
    writer.write_looks.push(pagewise_trace::WriteLook {
        time_ns: 1_005_000_000,
        space: 1,
        address: 0x7f00_0000_3000,
        written: true,
    })?;
    writer.accesses.push(pagewise_trace::Access {
        time_ns: 2_000_000_000,
        interval_ns: 1_000_000_000,
        space: 1,
        address: 0x7f00_0000_0000,
        resident_pages: 512,
        accessed_pages: 64,
        dirty_pages: 512,
        huge: false,
        swapped_pages: 0,
        resident_map: None,
        accessed_map: Some("10".repeat(64)),
    })
}

fn write_region_accesses(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    for interval in 1..=3 {
        writer.region_accesses.push(pagewise_trace::RegionAccess {
            time_ns: interval * 100_000_000,
            interval_ns: 100_000_000,
            space: 0,
            target: Some(4242),
            start: HEAP,
            bytes: PAGES * 4096,
            accesses: interval as u32,
            checks: Some(20),
            age: None,
        })?;
    }
    Ok(())
}

/// A file read in pieces of 128 KiB, each brought in by its call.
fn write_io(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    const PIECE: u64 = 128 << 10;
    writer.io_files.push(pagewise_trace::IoFile {
        time_ns: 100,
        file: 1,
        space: 0,
        major: 8,
        minor: 1,
        inode: 4711,
        generation: 0,
        bytes: 16 * PIECE,
        filesystem: "ext4".to_owned(),
        path: Some("/data/input".to_owned()),
        unlinked: false,
    })?;
    writer.io_sums.push(pagewise_trace::IoSum {
        time_ns: 2_000_000,
        interval_ns: 1_000_000,
        stack: Some(0),
        file: Some(1),
        direction: pagewise_trace::IoDirection::Read,
        direct: false,
        latency_octave: 16,
        calls: 16,
        failed: 0,
        continued: 15,
        bytes: 16 * PIECE,
        latency_ns: 16 * 71_000,
        cached_bytes: Some(16 * PIECE),
        ahead_bytes: Some(0),
    })?;
    for piece in 0..16 {
        let time_ns = 1_000 + piece * 90_000;
        writer.io_cache.push(pagewise_trace::IoCache {
            time_ns,
            kind: pagewise_trace::IoCacheKind::Added,
            file: Some(1),
            offset: piece * PIECE,
            bytes: PIECE,
            space: Some(0),
            tid: Some(4242),
            stack: Some(0),
        })?;
        writer.io_calls.push(pagewise_trace::IoCall {
            time_ns: time_ns + 70_000,
            space: 0,
            tid: 4242,
            call: pagewise_trace::IoCallKind::Read,
            direction: pagewise_trace::IoDirection::Read,
            file: Some(1),
            direct: false,
            offset: Some(piece * PIECE),
            bytes: Some(PIECE),
            error: None,
            latency_ns: 71_000,
            cached_bytes: Some(PIECE),
            ahead_bytes: Some(0),
            stack: Some(0),
        })?;
    }
    Ok(())
}

/// A sweep: each page comes in, and another one is written and leaves for it.
fn write_events(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    for page in 0..PAGES {
        let time_ns = page * 6_000;
        let victim = HEAP + (page + PAGES / 2) % PAGES * 4096;
        let event = |kind, address, after_ns| Event {
            time_ns: time_ns + after_ns,
            space: 0,
            tid: None,
            kind,
            address,
            latency_ns: None,
            stack: None,
        };
        writer
            .events
            .push(event(EventKind::PageWritten, victim, 0))?;
        writer
            .events
            .push(event(EventKind::Eviction, victim, 700))?;
        writer.events.push(Event {
            tid: Some(4242),
            latency_ns: Some(2_900 + page % 97),
            stack: Some(0),
            ..event(EventKind::SwapIn, HEAP + page * 4096, 2_900)
        })?;
    }
    Ok(())
}

fn write_names(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    writer.stacks.push(pagewise_trace::StackFrame {
        stack: 0,
        depth: 0,
        address: 0x40_1136,
        module: Some("/usr/bin/sweep".to_owned()),
        module_offset: Some(0x1136),
        truncated: false,
    })?;
    writer.frames.push(pagewise_trace::Frame {
        stack: 0,
        depth: 0,
        inline_index: 0,
        function: Some("main".to_owned()),
        file: Some("sweep.c".to_owned()),
        line: Some(12),
        module: Some("/usr/bin/sweep".to_owned()),
        inlined: false,
    })?;
    writer.sites.push(pagewise_trace::Site {
        stack: 0,
        name: Some("grid".to_owned()),
        file: Some("sweep.c".to_owned()),
        line: Some(12),
        function: Some("main".to_owned()),
        type_name: None,
    })?;
    writer.globals.push(pagewise_trace::Global {
        space: 0,
        start: 0x40_4000,
        bytes: 64,
        name: "table".to_owned(),
        file: None,
        line: None,
        module: "/usr/bin/sweep".to_owned(),
        type_name: None,
    })?;
    Ok(())
}
