//! What the sensor costs a program in a swap storm: its CPU time per major fault with and without, in turn.
//! usage: storm_cost [--slow-swap] ROUNDS COMMAND [ARGUMENT...]   (a command that swaps for ever; it is killed)
//! Prints, as one JSON line, the medians in ns and the paired difference with its quartiles.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::Options;
use pagewise_collect::SwapSensor;
use pagewise_collect::calibrate;

const WARM_UP: Duration = Duration::from_secs(5);
const SLICE: Duration = Duration::from_millis(60);
const SETTLE: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let swap_is_slow = arguments
        .first()
        .is_some_and(|first| first == "--slow-swap");
    if swap_is_slow {
        arguments.remove(0);
    }
    let rounds: usize = arguments.remove(0).parse()?;
    let layout = calibrate()?;
    let mut sensor = SwapSensor::load(Options {
        layout,
        base_ns: 0,
        swap_is_slow,
        zeros_are_noted: true,
    })?;
    sensor.watch(std::process::id())?;
    let mut child = Command::new(&arguments[0])
        .args(&arguments[1..])
        .process_group(0)
        .spawn()?;
    run(&mut sensor, WARM_UP)?;
    let (mut without, mut with, mut difference) = (vec![], vec![], vec![]);
    for round in 0..=rounds {
        sensor.pause();
        let base = cost_per_fault(&mut sensor, child.id())?;
        sensor.resume()?;
        let observed = cost_per_fault(&mut sensor, child.id())?;
        if round > 0 {
            without.push(base);
            with.push(observed);
            difference.push(observed - base);
        }
    }
    child.kill()?;
    child.wait()?;
    let (base, added) = (quantile(&mut without, 0.5), quantile(&mut difference, 0.5));
    println!(
        "{{\"rounds\": {rounds}, \"base_ns\": {base:.0}, \"with_ns\": {:.0}, \"added_ns\": {added:.0}, \
         \"added_q1_ns\": {:.0}, \"added_q3_ns\": {:.0}, \"fastest_added_ns\": {:.0}, \"percent\": {:.1}, \"lost\": {}}}",
        quantile(&mut with, 0.5),
        quantile(&mut difference, 0.25),
        quantile(&mut difference, 0.75),
        quantile(&mut with, 0.1) - quantile(&mut without, 0.1),
        100.0 * added / base,
        sensor.totals()?.lost,
    );
    Ok(())
}

fn run(sensor: &mut SwapSensor, duration: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        sensor.drain(|_| {})?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn cost_per_fault(sensor: &mut SwapSensor, pid: u32) -> Result<f64, Box<dyn std::error::Error>> {
    run(sensor, SETTLE)?;
    let (faults, cpu) = (major_faults(pid)?, cpu_ns(pid)?);
    run(sensor, SLICE)?;
    Ok((cpu_ns(pid)? - cpu) as f64 / (major_faults(pid)? - faults) as f64)
}

fn major_faults(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    Ok(fields
        .split_whitespace()
        .nth(9)
        .ok_or("short stat")?
        .parse()?)
}

fn cpu_ns(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let schedstat = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    Ok(schedstat
        .split_whitespace()
        .next()
        .ok_or("empty schedstat")?
        .parse()?)
}

fn quantile(values: &mut [f64], at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * at) as usize]
}
