//! What recording calls on files costs the usual way: runs a program and takes the number of the call path of each `pread` from the
//! kernel's table of stacks (`src/bpf/stack_ids.bpf.c`). Needs root. usage: stack_ids [--whole] COMMAND [ARGUMENT...]
//! By itself it tells of each call's begin only; with --whole of its file, place, result and latency, too.
//! Tells on standard error, as one JSON line, how many calls and call paths there were, and what was lost.

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::RingBufferBuilder;

static STACK_IDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stack_ids.bpf.o"));

/// How often the ring is emptied, as by the recorder.
const DRAIN_EVERY: Duration = Duration::from_millis(10);
/// `struct call`.
const CALL_BYTES: usize = 16;

#[derive(Default)]
struct Seen {
    calls: u64,
    stacks: HashSet<i32>,
    without_stack: u64,
}

impl Seen {
    fn take(&mut self, call: &[u8]) {
        let word = call
            .get(12..CALL_BYTES)
            .and_then(|word| word.try_into().ok());
        self.calls += 1;
        match word.map(i32::from_ne_bytes) {
            Some(stack) if stack >= 0 => drop(self.stacks.insert(stack)),
            _ => self.without_stack += 1,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_whole = arguments.first().is_some_and(|first| first == "--whole");
    arguments.drain(..usize::from(is_whole));
    let (program, arguments) = arguments
        .split_first()
        .ok_or("usage: stack_ids [--whole] COMMAND [ARGUMENT...]")?;
    let mut open = ObjectBuilder::default().open_memory(STACK_IDS)?;
    for mut program in open.progs_mut() {
        let is_of_whole = program.name().to_string_lossy().starts_with("whole");
        program.set_autoload(is_of_whole == is_whole);
    }
    let object = open.load()?;
    let find = |name: &str| {
        let found = object
            .maps()
            .find(|map| map.name().to_string_lossy().ends_with(name));
        found.ok_or_else(|| format!("no map {name}"))
    };
    let seen = Rc::new(RefCell::new(Seen::default()));
    let taker = seen.clone();
    let calls = find("calls")?;
    let mut builder = RingBufferBuilder::new();
    builder.add(&calls, move |call: &[u8]| {
        taker.borrow_mut().take(call);
        0
    })?;
    let ring = builder.build()?;
    let mut links = Vec::new();
    for program in object.progs_mut().filter(|program| program.autoload()) {
        links.push(program.attach()?);
    }
    let mut child = Command::new(program)
        .args(arguments)
        .process_group(0)
        .spawn()?;
    let (first, pid) = (0u32.to_ne_bytes(), child.id().to_ne_bytes());
    find(".data.watched")?.update(&first, &pid, MapFlags::ANY)?;
    let status = loop {
        let ended = child.try_wait()?;
        ring.consume()?;
        match ended {
            Some(status) => break status,
            None => std::thread::sleep(DRAIN_EVERY),
        }
    };
    let lost = find(".data.lost")?.lookup(&first, MapFlags::ANY)?;
    let lost = lost.and_then(|bytes| bytes.try_into().ok());
    let seen = seen.borrow();
    eprintln!(
        "{{\"calls\": {}, \"call_paths\": {}, \"without_path\": {}, \"lost\": {}}}",
        seen.calls,
        seen.stacks.len(),
        seen.without_stack,
        lost.map_or(0, u64::from_ne_bytes),
    );
    std::process::exit(status.code().unwrap_or(1));
}
