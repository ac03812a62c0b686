//! Watches a command's swapping and prints counts: the smallest use of the sensor.
//! usage: watch [--slow-swap] COMMAND [ARGUMENT...]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use pagewise_collect::Observation;
use pagewise_collect::Options;
use pagewise_collect::SwapSensor;
use pagewise_collect::calibrate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let swap_is_slow = arguments
        .first()
        .is_some_and(|first| first == "--slow-swap");
    if swap_is_slow {
        arguments.remove(0);
    }
    let layout = calibrate()?;
    eprintln!("{layout:x?}");
    let mut sensor = SwapSensor::load(Options {
        layout,
        base_ns: 0,
        swap_is_slow,
        memory_bytes: 0,
        zeros_are_noted: true,
        memory: true,
        io: false,
        call_paths: false,
        check_call_paths: false,
        does_nothing: false,
        enforces: false,
    })?;
    sensor.watch(std::process::id())?;
    // The child inherits the watch and gets its address space at exec.
    let mut child = Command::new(&arguments[0])
        .args(&arguments[1..])
        .process_group(0)
        .spawn()?;
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    loop {
        let ended = child.try_wait()?.is_some();
        sensor.drain(|observation| match observation {
            Observation::SwapIn { major: true, .. } => *counts.entry("swap-in").or_default() += 1,
            Observation::SwapIn { .. } => *counts.entry("swap-cache hit").or_default() += 1,
            Observation::Pages {
                pages,
                left,
                written,
                zero_filled,
                ..
            } => {
                for (name, is) in [
                    ("evicted", left),
                    ("written", written),
                    ("zero-filled", zero_filled),
                ] {
                    *counts.entry(name).or_default() += if is { pages } else { 0 };
                }
            }
            other => eprintln!("{other:?}"),
        })?;
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    eprintln!("{counts:?}\n{:?}", sensor.totals()?);
    Ok(())
}
