//! Reads damaged traces for as long as it is let, and says what it found:
//!
//! ```text
//! cargo run --release -p pagewise-trace --example fuzz -- FOLDER SECONDS [SEED]
//! ```
//!
//! FOLDER is made and holds the case at hand. A case that ends the process is known by the seed printed last.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/mutate.rs"]
mod mutate;
#[path = "../tests/common/survive.rs"]
mod survive;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use common::Random;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

const MEMORY_BYTES: u64 = 2 << 30;
const SLOW: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fuzz FOLDER SECONDS [SEED]";
    let folder = arguments.next().ok_or(usage)?;
    let seconds: u64 = arguments.next().ok_or(usage)?.parse()?;
    let first_seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let originals = originals(folder)?;
    let limit = Rlimit {
        current: Some(MEMORY_BYTES),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit)?;

    let target = folder.join("damaged");
    let seed_file = folder.join("seed");
    let begin = Instant::now();
    let (mut cases, mut rows, mut errors) = (0_u64, 0_u64, 0_u64);
    let mut slowest = Duration::ZERO;
    let mut panics: BTreeMap<String, u64> = BTreeMap::new();
    let mut seed = first_seed;
    while begin.elapsed() < Duration::from_secs(seconds) {
        fs::write(&seed_file, format!("{seed}\n"))?;
        let mut files = originals[(seed % originals.len() as u64) as usize].clone();
        let done = mutate::mutate(
            &mut files,
            &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        );
        mutate::store(&files, &target);
        let case = Instant::now();
        match survive::try_read_all(&target) {
            Ok((more_rows, more_errors)) => {
                rows += more_rows;
                errors += more_errors;
            }
            Err(panic) => {
                let known = panics.entry(panic.clone()).or_default();
                *known += 1;
                if *known == 1 {
                    println!("seed {seed}: {done}: {panic}");
                }
            }
        }
        let took = case.elapsed();
        if took > slowest.max(SLOW) {
            println!("seed {seed}: {done}: {took:?}");
        }
        slowest = slowest.max(took);
        cases += 1;
        seed += 1;
    }
    println!(
        "{cases} cases, {rows} rows, {errors} errors, {} kinds of panics, slowest {slowest:?}",
        panics.len()
    );
    if panics.is_empty() {
        Ok(())
    } else {
        Err("a reader panicked".into())
    }
}

/// Traces to be damaged: closed and cut short, with few rows and with several pages.
fn originals(folder: &Path) -> Result<Vec<mutate::Files>, Box<dyn Error>> {
    let dir = folder.join("whole");
    let mut originals = Vec::new();
    for rows in [60, 300] {
        let _ = fs::remove_dir_all(&dir);
        common::closed(&dir, rows);
        originals.push(mutate::load(&dir));
        fs::remove_dir_all(&dir)?;
        common::crashed(&dir, 3, rows / 3);
        originals.push(mutate::load(&dir));
    }
    fs::remove_dir_all(&dir)?;
    Ok(originals)
}
