//! A fixed number of damaged plans; `examples/fuzz_plans.rs` goes on for as long as it is let.

mod common;
#[path = "common/damage.rs"]
mod damage;

const CASES: u64 = 20_000;

/// A panic fails it, and so does what is read and is another plan once it was written.
#[test]
fn damaged_plans_are_refused_or_read_and_kept() {
    let originals = damage::originals().unwrap();
    let is_read = |seed| damage::is_read_and_kept(&damage::damaged(&originals, seed));
    let read = (1..=CASES).filter(|&seed| is_read(seed)).count() as u64;
    // What is always refused, or never, proves nothing.
    assert!(
        (CASES / 50..CASES / 2).contains(&read),
        "{read} of {CASES} were plans still"
    );
}
