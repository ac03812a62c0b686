//! Replays a trace, read as the command reads it, and prints one line of JSON: what bench/simulate measures.
//! usage: replay FILE POLICY FRAMES (`-` is standard input)
//!
//! The time is the processor time of all threads, from opening the file to the last reference simulated; the memory is by
//! how much the peak of resident memory grew meanwhile.

mod common;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use common::cpu_ns;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, policy, frames] = arguments.as_slice() else {
        return Err("usage: replay FILE POLICY FRAMES".into());
    };
    let policy: PolicyKind = policy.parse()?;
    let storage = Models::built_in().storage("ufs3.1", "emram", Default::default())?;
    let settings = Settings::new(policy, frames.parse()?, storage);

    let (before, begin) = (peak_bytes()?, cpu_ns());
    let mut simulation = Simulation::new(&settings)?;
    common::read(Path::new(file), |references| simulation.feed(references))?;
    let cpu_ns = cpu_ns() - begin;
    let outcome = simulation.outcome();
    println!(
        "{{\"policy\": \"{policy}\", \"references\": {}, \"misses\": {}, \"swap_reads\": {}, \"cpu_ns\": {cpu_ns}, \"bytes\": {}}}",
        outcome.references,
        outcome.misses(),
        outcome.swap_reads,
        peak_bytes()? - before,
    );
    Ok(())
}

fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no VmHWM")?.parse::<u64>()? * 1024)
}
