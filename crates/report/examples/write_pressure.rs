//! Writes the trace of a program under memory pressure, with as many swap-ins and evictions as asked for: several objects
//! in several patterns, call paths, residency, accessed pages, reclaim. Nothing of it was measured.
//!
//! ```text
//! cargo run --release -p pagewise-report --example write_pressure -- FOLDER [EVENTS [random]]
//! ```
//!
//! With `random`, all is random and each latency different: what compresses worst.

use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;

use pagewise_trace::Access;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Frame;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::ResidencyScan;
use pagewise_trace::Sample;
use pagewise_trace::Site;
use pagewise_trace::Space;
use pagewise_trace::Stall;
use pagewise_trace::StallKind;
use pagewise_trace::TraceWriter;

const PAGE: u64 = 4096;
const BEGIN_NS: u64 = 81_234_567_890_123;
const RESIDENT_PAGES: usize = 60_000;
/// Between two swap-ins, ns.
const STEP_NS: u64 = 12_000;

/// How an object's pages come back.
#[derive(Clone, Copy)]
enum Order {
    Loop,
    Backwards,
    Strided(u64),
    Random,
    Hot,
}

struct Object {
    name: &'static str,
    pages: u64,
    order: Order,
    /// Of 16 swap-ins.
    weight: u64,
    steps: u64,
}

const fn object(name: &'static str, pages: u64, order: Order, weight: u64) -> Object {
    Object {
        name,
        pages,
        order,
        weight,
        steps: 0,
    }
}

fn objects() -> [Object; 6] {
    [
        object("grid", 65_536, Order::Loop, 5),
        object("transposed", 32_768, Order::Strided(128), 3),
        object("table", 98_304, Order::Random, 4),
        object("history", 24_576, Order::Backwards, 2),
        object("queue", 512, Order::Hot, 1),
        object("index", 8_192, Order::Random, 1),
    ]
}

/// The finalizer of splitmix64.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Object {
    fn next(&mut self) -> u64 {
        let step = self.steps;
        self.steps += 1;
        match self.order {
            Order::Loop => step % self.pages,
            Order::Backwards => self.pages - 1 - step % self.pages,
            Order::Strided(stride) => {
                let rows = self.pages / stride;
                step % rows * stride + step / rows % stride
            }
            Order::Random => scatter(step) % self.pages,
            Order::Hot => scatter(step) % 24,
        }
    }
}

fn address(object: u64, page: u64) -> u64 {
    0x7f00_0000_0000 + (object << 32) + page * PAGE
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: write_pressure FOLDER [EVENTS [random]]")?;
    let events: u64 = arguments.next().map_or(Ok(5_000_000), |n| n.parse())?;
    let random = arguments.next().as_deref() == Some("random");
    let length_ns = events.div_ceil(2) * STEP_NS;

    let mut writer = TraceWriter::create(Path::new(&folder), meta(length_ns), Overwrite::Replace)?;
    program(&mut writer)?;
    curves(&mut writer, length_ns)?;
    pressure(&mut writer, events, random)?;
    writer.flush()?;
    writer.close()?;
    Ok(())
}

fn meta(length_ns: u64) -> Meta {
    let mut meta = Meta {
        command: vec!["./pressure".to_owned(), "input.txt".to_owned()],
        wall_ns: Some(length_ns),
        end_monotonic_ns: Some(BEGIN_NS + length_ns),
        peak_rss_bytes: Some(RESIDENT_PAGES as u64 * PAGE),
        ..Meta::default()
    };
    meta.clock.start_monotonic_ns = Some(BEGIN_NS);
    meta.limit.bytes = Some(RESIDENT_PAGES as u64 * PAGE);
    meta.swap.kind = Some("zram".to_owned());
    meta.exit.code = Some(0);
    for sensor in ["faults", "allocations", "stalls"] {
        meta.sensors.insert(sensor.to_owned(), "on".to_owned());
    }
    meta
}

fn program(writer: &mut TraceWriter) -> Result<(), Box<dyn Error>> {
    writer.spaces.push(Space {
        space: 0,
        pid: 4242,
        start_time_ns: 1_000_000,
        exec_epoch: 1,
        parent_space: None,
        begin_ns: BEGIN_NS,
        end_ns: None,
        command: "pressure".to_owned(),
        executable: Some("/usr/bin/pressure".to_owned()),
    })?;
    for (number, object) in (0..).zip(objects()) {
        writer.allocations.push(Allocation {
            allocation: number,
            space: 0,
            tid: 4242,
            time_ns: BEGIN_NS + number,
            address: address(number, 0),
            bytes: object.pages * PAGE,
            kind: AllocationKind::Malloc,
            stack: Some(number as u32),
            estimated_bytes: None,
        })?;
        writer.sites.push(Site {
            stack: number as u32,
            name: Some(object.name.to_owned()),
            file: Some("/home/me/src/pressure.cpp".to_owned()),
            line: Some(40 + number as u32),
            function: Some("main".to_owned()),
            type_name: None,
        })?;
        // Two call paths of swap-ins each.
        for half in 0..2 {
            let functions = [
                ("touch", 100 + number as u32),
                (["forward", "check"][half], 200 + number as u32),
                ("sweep", 60 + number as u32),
                ("main", 20),
            ];
            for (depth, (function, line)) in functions.into_iter().enumerate() {
                writer.frames.push(Frame {
                    stack: 10 + 2 * number as u32 + half as u32,
                    depth: depth as u16,
                    inline_index: 0,
                    function: Some(match depth {
                        2 => format!("{function}_{}", object.name),
                        _ => function.to_owned(),
                    }),
                    file: Some("/home/me/src/pressure.cpp".to_owned()),
                    line: Some(line),
                    module: Some("/usr/bin/pressure".to_owned()),
                    inlined: depth == 0,
                })?;
            }
        }
    }
    Ok(())
}

/// Memory use, scans of page tables, accessed pages and reclaim.
fn curves(writer: &mut TraceWriter, length_ns: u64) -> Result<(), Box<dyn Error>> {
    let resident = RESIDENT_PAGES as u64 * PAGE;
    for part in 0..=100 {
        let time_ns = BEGIN_NS + length_ns * part / 100;
        let swapped = (part.min(20) * 40) << 20;
        writer.samples.push(Sample {
            time_ns,
            rss_bytes: Some(resident - scatter(part) % (8 << 20)),
            swap_bytes: Some(swapped),
            limit_bytes: Some(resident),
        })?;
        writer.residency_scans.push(ResidencyScan {
            time_ns,
            space: 0,
            end_ns: time_ns + 900,
            cost_ns: 900,
            resident_bytes: resident - scatter(part + 7) % (8 << 20),
            swapped_bytes: swapped,
            huge_bytes: Some(0),
            complete: true,
        })?;
        writer.accesses.push(Access {
            time_ns,
            interval_ns: length_ns / 100,
            space: 0,
            address: address(0, 0),
            resident_pages: 512,
            accessed_pages: (100 + scatter(part) % 300) as u16,
            dirty_pages: 10,
            huge: false,
            swapped_pages: 0,
            resident_map: None,
            accessed_map: None,
        })?;
        writer.stalls.push(Stall {
            time_ns,
            space: 0,
            tid: 4242,
            kind: StallKind::MemcgReclaim,
            duration_ns: length_ns / 2_000,
            in_fault: false,
        })?;
    }
    Ok(())
}

/// Each swap-in of a page that is away evicts the one that came longest ago.
fn pressure(writer: &mut TraceWriter, events: u64, random: bool) -> Result<(), Box<dyn Error>> {
    let mut objects = objects();
    let turns: Vec<usize> = objects
        .iter()
        .enumerate()
        .flat_map(|(number, object)| vec![number; object.weight as usize])
        .collect();
    let mut resident: VecDeque<u64> = (0..RESIDENT_PAGES as u64)
        .map(|page| address(2, page))
        .collect();
    for number in 0..events.div_ceil(2) {
        let dice = scatter(number);
        // Phases: for a while one object, then all of them in turn.
        let turn = match number >> 16 & 3 {
            0 => 0,
            _ => turns[dice as usize % turns.len()],
        };
        let page = match random {
            true => dice >> 20 & 0xf_ffff,
            false => objects[turn].next(),
        };
        let place = match random {
            true => address(turn as u64, page % objects[turn].pages),
            false => address(turn as u64, page),
        };
        let time_ns = BEGIN_NS + number * STEP_NS + dice % (STEP_NS / 2);
        let spread = match random {
            true => dice >> 30 & 0x3ff_ffff,
            false => match dice >> 40 & 0xff {
                0 => 200_000 + (dice >> 32 & 0xf_ffff),
                _ => 2_500 + (dice >> 32 & 0xfff),
            },
        };
        let evicted = resident.pop_front().unwrap_or(place);
        resident.push_back(place);
        for (kind, address, ahead) in [
            (EventKind::Eviction, evicted, 0),
            (EventKind::SwapIn, place, 2_000),
        ] {
            let is_fault = kind == EventKind::SwapIn;
            if !is_fault && 2 * number + 1 == events {
                continue; // of an odd number of events, the last one is a swap-in
            }
            writer.events.push(Event {
                time_ns: time_ns + ahead,
                space: 0,
                tid: is_fault.then_some(4242),
                kind,
                address,
                latency_ns: is_fault.then_some(spread),
                stack: is_fault.then_some(10 + 2 * turn as u32 + (dice >> 60 & 1) as u32),
            })?;
        }
        if number % 100_000 == 0 {
            writer.flush()?;
        }
    }
    Ok(())
}
