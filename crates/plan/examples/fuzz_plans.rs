//! Reads damaged plans for as long as it is let, and says what it found:
//!
//! ```text
//! cargo run --release -p pagewise-plan --example fuzz_plans -- SECONDS [SEED]
//! ```
//!
//! A case that ends the process is the one after the seed printed last. What is read all the same must be written and read again as it was.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use pagewise_plan::Plan;
use proptest::strategy::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::Config;
use proptest::test_runner::RngAlgorithm;
use proptest::test_runner::TestRng;
use proptest::test_runner::TestRunner;

/// Plans that are damaged, and how many letters of one at most.
const ORIGINALS: usize = 64;
const MOST_DAMAGE: u64 = 8;
const SLOW: Duration = Duration::from_secs(1);
/// Each so many cases the seed is told.
const TOLD_EACH: u64 = 100_000;
/// What a damaged plan may have more of than it should.
const PIECES: [&[u8]; 20] = [
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"'''",
    b"=",
    b",",
    b"\n",
    b"#",
    b"-",
    b".",
    b"0x",
    b"1e999",
    b"nan",
    b"[[rule]]\n",
    b"[[curve]]\n",
    b"9223372036854775808",
    b"\0",
    b"\xff",
];

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

/// The same each time.
fn originals() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut texts = Vec::new();
    for _ in 0..ORIGINALS {
        let tree = common::plan().new_tree(&mut runner);
        let plan = tree.map_err(|reason| reason.to_string())?.current();
        texts.push(plan.to_toml()?.into_bytes());
    }
    Ok(texts)
}

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }
}

fn damaged(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = originals[random.below(originals.len())].clone();
    for _ in 0..=random.below(MOST_DAMAGE as usize) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(16)).min(text.len());
        match random.below(5) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
            // A piece of the same plan, where it does not belong.
            2 => {
                let from = random.below(text.len() + 1);
                let piece = text[from..(from + random.below(200)).min(text.len())].to_vec();
                drop(text.splice(at..at, piece));
            }
            3 => text.truncate(at),
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    text
}

/// Whether it is a plan. If so, it must be the same after it was written.
fn is_read_and_kept(text: &[u8]) -> bool {
    // Files that are not UTF-8 are refused before they are parsed.
    let text = String::from_utf8_lossy(text);
    let Ok(plan) = Plan::parse(&text, Path::new("plan.toml")) else {
        return false;
    };
    if let Ok(written) = plan.to_toml() {
        let again = Plan::parse(&written, Path::new("plan.toml"));
        assert_eq!(again.expect("what was written is read"), plan);
    }
    true
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
