//! The program's peak memory, told or measured.

use std::time::Duration;

use pagewise_host::MemorySize;
use pagewise_host::Program;
use pagewise_host::page_bytes;
use pagewise_host::process;

use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    let mut launched = Program::new(&arguments.program)
        .as_root(arguments.as_root)
        .quiet(true)
        .start()?;
    launched.release()?;
    let mut seen = 0;
    let exit = loop {
        let memory = process::memory(launched.pid()).unwrap_or_default();
        seen = seen.max(memory.peak_resident_bytes.unwrap_or(0));
        if let Some(exit) = launched.wait_timeout(LOOK_EVERY)? {
            break exit;
        }
    };
    if exit.code() != 0 {
        let code = exit.code();
        return Err(Failure::new(format!(
            "the program failed ({code}) while its peak was measured: give --peak SIZE"
        )));
    }
    // A program smaller than we are has no exact one.
    let peak = exit.peak_resident_bytes.unwrap_or(seen);
    if peak == 0 {
        return Err(Failure::new(
            "the program ended before its peak could be measured: give --peak SIZE",
        ));
    }
    tell!("pagewise: its peak is {}", pagewise_report::bytes(peak));
    Ok(peak)
}
