//! Reads damaged plans for as long as it is let, and says what it found:
//!
//! ```text
//! cargo run --release -p pagewise-plan --example fuzz_plans -- SECONDS [SEED]
//! ```
//!
//! A case that ends the process is the one after the seed printed last. What is read all the same must be written and read again as it was.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/damage.rs"]
mod damage;

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::time::Duration;
use std::time::Instant;

use damage::damaged;
use damage::is_read_and_kept;
use damage::originals;

const SLOW: Duration = Duration::from_secs(1);
/// Each so many cases the seed is told.
const TOLD_EACH: u64 = 100_000;
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fuzz SECONDS [SEED]";
    let seconds: u64 = arguments.next().ok_or(usage)?.parse()?;
    let mut seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let originals = originals()?;
    let begin = Instant::now();
    let mut panics: BTreeMap<String, u64> = BTreeMap::new();
    let (mut cases, mut plans, mut slowest) = (0u64, 0u64, Duration::ZERO);
    std::panic::set_hook(Box::new(|_| ()));
    while begin.elapsed() < Duration::from_secs(seconds) {
        let text = damaged(&originals, seed);
        let case = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| is_read_and_kept(&text))) {
            Ok(is_read) => plans += u64::from(is_read),
            Err(payload) => {
                let what = words(payload.as_ref());
                let known = panics.entry(what.clone()).or_default();
                *known += 1;
                if *known == 1 {
                    println!("seed {seed}: {what}");
                }
            }
        }
        if case.elapsed() > slowest.max(SLOW) {
            println!("seed {seed}: {:?}", case.elapsed());
        }
        slowest = slowest.max(case.elapsed());
        cases += 1;
        seed += 1;
        if cases % TOLD_EACH == 0 {
            println!("seed {seed}");
        }
    }
    println!(
        "{cases} cases, {plans} were plans still, {} kinds of panics, slowest {slowest:?}",
        panics.len()
    );
    match panics.is_empty() {
        true => Ok(()),
        false => Err("the reader panicked".into()),
    }
}

fn words(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
    })
    .unwrap_or_else(|| "a panic without words".to_owned())
}
