//! Writes the trace of a swap storm of any length, as a recorder would have written it: a program of several threads goes
//! through objects in known patterns, under a memory that keeps the most recently used pages. Nothing of it was measured.
//!
//! ```text
//! cargo run --release -p pagewise-trace --example write_storm -- FOLDER [EVENTS [SMALL_OBJECTS [CALL_PATHS]]]
//! ```

use std::collections::HashMap;
use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;

use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Frame;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Site;
use pagewise_trace::Space;
use pagewise_trace::StackFrame;
use pagewise_trace::TraceWriter;

const PAGE: u64 = 4096;
const HEAP: u64 = 0x7f00_0000_0000;
const SMALL_HEAP: u64 = 0x7e00_0000_0000;
const BEGIN_NS: u64 = 81_234_567_890_123;
const LIMIT_PAGES: usize = 131_072;
/// Numbers of call paths of faults: of each object one, and deep ones.
const PATHS: u32 = 1_000_000_000;
const DEEP_PATHS: u32 = 2_000_000_000;
const DEEP_FRAMES: u16 = 60;

/// In what order a thread goes through an object.
#[derive(Clone, Copy)]
enum Order {
    Loop,
    Backwards,
    Strided(u64),
    Random,
    Hot(u64),
}

struct Part {
    name: &'static str,
    line: u32,
    pages: u64,
    order: Order,
    /// Of 16 accesses, so many go there.
    weight: u32,
    step: u64,
}

fn parts() -> Vec<Part> {
    let part = |name, line, pages, order, weight| Part {
        name,
        line,
        pages,
        order,
        weight,
        step: 0,
    };
    vec![
        part("matrix", 41, 65_536, Order::Loop, 6),
        part("transposed", 42, 49_152, Order::Strided(96), 3),
        part("table", 57, 98_304, Order::Random, 4),
        part("history", 63, 32_768, Order::Backwards, 2),
        part("queue", 88, 24_576, Order::Hot(64), 1),
    ]
}

impl Part {
    fn next(&mut self) -> u64 {
        let step = self.step;
        self.step += 1;
        match self.order {
            Order::Loop => step % self.pages,
            Order::Backwards => self.pages - 1 - step % self.pages,
            Order::Strided(stride) => {
                let rows = self.pages / stride;
                (step % rows) * stride + (step / rows) % stride
            }
            Order::Random => scatter(step) % self.pages,
            Order::Hot(pages) if !step.is_multiple_of(8) => scatter(step) % pages,
            Order::Hot(_) => scatter(step) % self.pages,
        }
    }
}

/// The finalizer of splitmix64.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Memory that keeps the pages used last; stale entries of the queue are skipped.
#[derive(Default)]
struct Memory {
    used: HashMap<u64, u64>,
    queue: VecDeque<(u64, u64)>,
    clock: u64,
}

impl Memory {
    /// Whether the page was there, and which one had to go.
    fn touch(&mut self, page: u64) -> (bool, Option<u64>) {
        self.clock += 1;
        self.queue.push_back((page, self.clock));
        if self.used.insert(page, self.clock).is_some() {
            return (true, None);
        }
        if self.used.len() <= LIMIT_PAGES {
            return (false, None);
        }
        while let Some((oldest, used)) = self.queue.pop_front() {
            if self.used.get(&oldest) == Some(&used) {
                self.used.remove(&oldest);
                return (false, Some(oldest));
            }
        }
        (false, None)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: write_storm FOLDER [EVENTS [SMALL_OBJECTS [CALL_PATHS]]]")?;
    let events: u64 = arguments.next().map_or(Ok(5_000_000), |n| n.parse())?;
    let small: u64 = arguments.next().map_or(Ok(0), |n| n.parse())?;
    let deep: u32 = arguments.next().map_or(Ok(0), |n| n.parse())?;
    let mut meta = Meta {
        command: vec!["./storm".to_owned(), "input.txt".to_owned()],
        ..Meta::default()
    };
    meta.limit.bytes = Some(LIMIT_PAGES as u64 * PAGE);
    meta.swap.kind = Some("zram".to_owned());
    meta.clock.start_monotonic_ns = Some(BEGIN_NS);
    for sensor in ["faults", "call_paths", "allocations"] {
        meta.sensors.insert(sensor.to_owned(), "on".to_owned());
    }
    let mut writer = TraceWriter::create(Path::new(&folder), meta, Overwrite::Replace)?;
    let mut parts = parts();
    write_program(&mut writer, &parts, small)?;
    for path in 0..deep {
        write_deep_path(&mut writer, path)?;
    }
    let end_ns = write_events(&mut writer, &mut parts, events, (small, deep))?;
    writer.update_meta(|meta| {
        meta.end_monotonic_ns = Some(end_ns);
        meta.wall_ns = Some(end_ns - BEGIN_NS);
    })?;
    writer.close()?;
    Ok(())
}

fn write_program(
    writer: &mut TraceWriter,
    parts: &[Part],
    small: u64,
) -> Result<(), Box<dyn Error>> {
    writer.spaces.push(Space {
        space: 0,
        pid: 4242,
        start_time_ns: BEGIN_NS,
        exec_epoch: 1,
        parent_space: None,
        begin_ns: BEGIN_NS,
        end_ns: None,
        command: "storm".to_owned(),
        executable: Some("/usr/bin/storm".to_owned()),
    })?;
    let mut address = HEAP;
    for (number, part) in parts.iter().enumerate() {
        let bytes = part.pages * PAGE;
        write_object(
            writer,
            number as u32,
            address,
            bytes,
            part.name.to_owned(),
            part.line,
        )?;
        write_fault_path(writer, PATHS + number as u32, part)?;
        address += bytes;
    }
    for number in 0..small {
        let stack = (parts.len() as u64 + number) as u32;
        let address = SMALL_HEAP + number * PAGE;
        let line = 1000 + number as u32;
        write_object(writer, stack, address, PAGE, format!("node{number}"), line)?;
    }
    Ok(())
}

fn write_object(
    writer: &mut TraceWriter,
    stack: u32,
    address: u64,
    bytes: u64,
    name: String,
    line: u32,
) -> Result<(), Box<dyn Error>> {
    writer.allocations.push(Allocation {
        allocation: u64::from(stack),
        space: 0,
        tid: 4242,
        time_ns: BEGIN_NS + u64::from(stack),
        address,
        bytes,
        kind: AllocationKind::Malloc,
        stack: Some(stack),
        estimated_bytes: None,
    })?;
    writer.sites.push(Site {
        stack,
        name: Some(name),
        file: Some("/home/me/storm/storm.c".to_owned()),
        line: Some(line),
        function: Some("prepare".to_owned()),
        type_name: None,
    })?;
    Ok(())
}

/// Two frames: a function of the object's own, called by `main`.
fn write_fault_path(
    writer: &mut TraceWriter,
    stack: u32,
    part: &Part,
) -> Result<(), Box<dyn Error>> {
    let frames = [
        (format!("use_{}", part.name), part.line + 200),
        ("main".to_owned(), 400),
    ];
    for (depth, (function, line)) in frames.into_iter().enumerate() {
        let module = Some("/usr/bin/storm".to_owned());
        writer.stacks.push(StackFrame {
            stack,
            depth: depth as u16,
            address: 0x40_0000 + u64::from(line),
            module: module.clone(),
            module_offset: Some(u64::from(line)),
            truncated: false,
        })?;
        writer.frames.push(Frame {
            stack,
            depth: depth as u16,
            inline_index: 0,
            function: Some(function),
            file: Some("/home/me/storm/storm.c".to_owned()),
            line: Some(line),
            module,
            inlined: false,
        })?;
    }
    Ok(())
}

/// A path of a recursive search, as of a stripped program: there are as many as there are ways through its functions.
fn write_deep_path(writer: &mut TraceWriter, path: u32) -> Result<(), Box<dyn Error>> {
    let stack = DEEP_PATHS + path;
    let module = Some("/usr/games/storm".to_owned());
    for depth in 0..DEEP_FRAMES {
        let offset = 0x4000 + 16 * (scatter(u64::from(path / (u32::from(depth) + 1))) % 256);
        writer.stacks.push(StackFrame {
            stack,
            depth,
            address: 0x40_0000 + offset,
            module: module.clone(),
            module_offset: Some(offset),
            truncated: false,
        })?;
        writer.frames.push(Frame {
            stack,
            depth,
            inline_index: 0,
            function: None,
            file: None,
            line: None,
            module: module.clone(),
            inlined: false,
        })?;
    }
    Ok(())
}

/// Returns when it ends.
fn write_events(
    writer: &mut TraceWriter,
    parts: &mut [Part],
    events: u64,
    (small, deep): (u64, u32),
) -> Result<u64, Box<dyn Error>> {
    let turns: Vec<usize> = parts
        .iter()
        .enumerate()
        .flat_map(|(number, part)| std::iter::repeat_n(number, part.weight as usize))
        .collect();
    let starts: Vec<u64> = parts
        .iter()
        .scan(0, |start, part| {
            *start += part.pages;
            Some(*start - part.pages)
        })
        .collect();
    let mut memory = Memory::default();
    let mut written = std::collections::HashSet::new();
    let (mut time_ns, mut done, mut turn) = (BEGIN_NS + 10_000_000, 0, 0usize);
    let small_every = events.checked_div(small).unwrap_or(0).max(1);
    let mut next_small = 0;
    while done < events {
        let number = turns[turn % turns.len()];
        turn += 1;
        let page = starts[number] + parts[number].next();
        let (hit, gone) = memory.touch(page);
        time_ns += 150;
        if hit {
            continue;
        }
        if let Some(gone) = gone {
            for kind in [EventKind::PageWritten, EventKind::Eviction] {
                push(writer, time_ns, kind, HEAP + gone * PAGE, None)?;
                done += 1;
            }
            written.insert(gone);
        }
        if written.contains(&page) {
            let latency_ns = 2_500 + scatter(turn as u64) % 2_000;
            time_ns += latency_ns;
            let stack = match deep {
                0 => PATHS + number as u32,
                _ => DEEP_PATHS + (scatter(!(turn as u64)) % u64::from(deep)) as u32,
            };
            let of = Some((number as u32, stack, latency_ns));
            push(writer, time_ns, EventKind::SwapIn, HEAP + page * PAGE, of)?;
            done += 1;
        }
        while next_small < small && done >= next_small * small_every {
            let address = SMALL_HEAP + next_small * PAGE;
            push(writer, time_ns, EventKind::Eviction, address, None)?;
            push(
                writer,
                time_ns,
                EventKind::SwapIn,
                address,
                Some((0, PATHS, 3_000)),
            )?;
            next_small += 1;
            done += 2;
        }
    }
    Ok(time_ns)
}

fn push(
    writer: &mut TraceWriter,
    time_ns: u64,
    kind: EventKind,
    address: u64,
    fault: Option<(u32, u32, u64)>,
) -> Result<(), Box<dyn Error>> {
    Ok(writer.events.push(Event {
        time_ns,
        space: 0,
        tid: fault.map(|(part, ..)| 4242 + part),
        kind,
        address,
        latency_ns: fault.map(|(.., latency_ns)| latency_ns),
        stack: fault.map(|(_, stack, _)| stack),
    })?)
}
