//! A fixed budget of damaged traces; `examples/fuzz.rs` goes on for as long as it is let.

mod common;
#[path = "common/mutate.rs"]
mod mutate;
#[path = "common/survive.rs"]
mod survive;

use common::Random;
use common::closed;
use common::crashed;
use common::new_dir;
use proptest::prelude::*;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

/// Address space that this whole test may use. A decoder that asks for more ends the process, and so the test.
const MEMORY_BYTES: u64 = 2 << 30;
const CASES: u32 = 400;

#[test]
fn no_damage_makes_a_reader_panic_or_take_all_memory() {
    let (parent, dir) = new_dir();
    let other = parent.path().join("crashed.data");
    closed(&dir, 60);
    crashed(&other, 3, 20);
    let originals = [mutate::load(&dir), mutate::load(&other)];
    let target = parent.path().join("damaged");
    let maximum = getrlimit(Resource::As).maximum;
    let limit = Rlimit {
        current: Some(MEMORY_BYTES),
        maximum,
    };
    setrlimit(Resource::As, limit).unwrap();
    let mut unnoticed = 0;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(CASES));
    let outcome = runner.run(&(any::<bool>(), 1..u64::MAX), |(is_crashed, seed)| {
        let mut files = originals[usize::from(is_crashed)].clone();
        let done = mutate::mutate(&mut files, &mut Random(seed));
        mutate::store(&files, &target);
        match survive::try_read_all(&target) {
            Ok(_) => Ok(()),
            Err(panic) => Err(TestCaseError::fail(format!("{done}: {panic}"))),
        }
    });
    outcome.unwrap();
    // What is not noticed at all proves nothing: the harness must reach the decoders.
    for seed in 1..200 {
        let mut files = originals[0].clone();
        mutate::mutate(&mut files, &mut Random(seed));
        mutate::store(&files, &target);
        unnoticed += usize::from(survive::read_all(&target).1 == 0);
    }
    assert!(
        (10..150).contains(&unnoticed),
        "{unnoticed} of 199 unnoticed"
    );
}
