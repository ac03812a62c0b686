//! Plans with damage, to read.

use std::error::Error;
use std::path::Path;

use pagewise_plan::Plan;
use proptest::strategy::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::Config;
use proptest::test_runner::RngAlgorithm;
use proptest::test_runner::TestRng;
use proptest::test_runner::TestRunner;

use crate::common;

/// Plans that are damaged, and how many letters of one at most.
const ORIGINALS: usize = 64;
const MOST_DAMAGE: u64 = 8;
/// What a damaged plan may have more of than it should.
const PIECES: [&[u8]; 21] = [
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
    b"[headway]\n",
    b"9223372036854775808",
    b"\0",
    b"\xff",
];

/// The same each time.
pub(crate) fn originals() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
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

/// One of the originals, with the damage of this seed.
pub(crate) fn damaged(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
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

/// Whether it is a plan. If so, it must be the same after it was written; else the refusal names the file.
pub(crate) fn is_read_and_kept(text: &[u8]) -> bool {
    // Files that are not UTF-8 are refused before they are parsed.
    let text = String::from_utf8_lossy(text);
    let parse = |text: &str| Plan::parse(text, Path::new("plan.toml"));
    match parse(&text) {
        Ok(plan) => {
            let written = plan.to_toml().expect("what was read can be written");
            assert_eq!(parse(&written).expect("what was written is read"), plan);
            true
        }
        Err(error) => {
            assert!(error.to_string().starts_with("plan.toml:"), "{error}");
            false
        }
    }
}
