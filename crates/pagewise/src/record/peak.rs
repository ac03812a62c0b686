//! The program's peak memory, told or measured.

use std::time::Duration;
use std::time::Instant;

use pagewise_host::MemorySize;
use pagewise_host::Program;
use pagewise_host::family;
use pagewise_host::page_bytes;
use pagewise_host::process;

use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::tell;

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of the time, one part in so many may go by looking at all processes.
const LOOKING_SHARE: u32 = 10;

/// `None`: unknown, which only a percentage minds.
pub(super) fn peak_bytes(arguments: &RecordArguments) -> Result<Option<u64>, Failure> {
    if let Some(peak) = arguments.peak {
        return Ok(Some(peak.resolve(None, page_bytes())?));
    }
    if arguments.measure_peak {
        return measure(arguments).map(Some);
    }
    // Before anything is started: is it needed?
    if let Some(memory @ MemorySize::Percent(_)) = arguments.memory {
        memory.resolve(None, page_bytes())?;
    }
    Ok(None)
}

fn measure(arguments: &RecordArguments) -> Result<u64, Failure> {
    tell!(
        "pagewise: running the program once without limit to measure its peak (--peak SIZE spares that)"
    );
    let input = Input::at_start();
    if input.is_read_once() {
        tell!(
            "pagewise: standard input is a pipe: what that run reads the recording does not find; give it as a file, with: < FILE, or --peak SIZE"
        );
    }
    let mut launched = Program::new(&arguments.program)
        .as_root(arguments.as_root)
        .quiet(true)
        .start()?;
    launched.release()?;
    let mut seen = 0;
    let mut family = Family::of(launched.pid());
    let exit = loop {
        let memory = process::memory(launched.pid()).unwrap_or_default();
        seen = seen.max(memory.peak_resident_bytes.unwrap_or(0));
        family.look();
        if let Some(exit) = launched.wait_timeout(LOOK_EVERY)? {
            break exit;
        }
    };
    input.rewind();
    // A program smaller than we are has no exact one; that of several processes is of the largest.
    let peak = exit
        .peak_resident_bytes
        .unwrap_or(seen)
        .max(family.peak_bytes);
    if exit.code() != 0 {
        let (code, peak) = (exit.code(), pagewise_report::bytes(peak));
        return Err(Failure::new(format!(
            "the program failed ({code}) while its peak was measured, which was {peak} until then: give --peak SIZE"
        )));
    }
    if peak == 0 {
        return Err(Failure::new(
            "the program ended before its peak could be measured: give --peak SIZE",
        ));
    }
    tell!("pagewise: its peak is {}", pagewise_report::bytes(peak));
    Ok(peak)
}

/// What a program and its children have together, looked at from time to time: the kernel tells the peak of each only.
struct Family {
    pid: u32,
    peak_bytes: u64,
    next: Instant,
}

impl Family {
    fn of(pid: u32) -> Self {
        Self {
            pid,
            peak_bytes: 0,
            next: Instant::now(),
        }
    }

    fn look(&mut self) {
        let began = Instant::now();
        if began < self.next {
            return;
        }
        let children = family::descendants(self.pid);
        if !children.is_empty() {
            let all = children.iter().copied().chain([self.pid]);
            let shares = all.filter_map(process::shares);
            let bytes = shares.map(|shares| shares.resident_bytes).sum();
            // What one that ends shared with the others is theirs then: seen before and after that it would count twice.
            if self.has_only(&children) {
                self.peak_bytes = self.peak_bytes.max(bytes);
            }
        }
        // Looking takes the programs' time, too.
        self.next = Instant::now() + began.elapsed() * LOOKING_SHARE;
    }

    /// Whether these are all descendants, and none of them has ended.
    fn has_only(&self, children: &[u32]) -> bool {
        let has_memory = |&child: &u32| {
            let memory = process::memory(child);
            memory.is_some_and(|memory| memory.peak_resident_bytes.is_some())
        };
        family::descendants(self.pid) == children && children.iter().all(has_memory)
    }
}
