//! Programs whose every access is known run in a memory that keeps the pages used last; from the faults and evictions at
//! 60 % alone, the swap-ins at other sizes are predicted and compared with those of the whole string.

use std::collections::BTreeMap;

use crate::ages::Ages;
use crate::clock::Clock;
use crate::curve::swap_ins;
use crate::history::History;
use crate::history::Known;
use crate::history::What;
use crate::rates::Rates;
use crate::strings;
use crate::strings::Step;
use crate::sweeps;

const PAGES: u64 = 4000;
const ACCESS_NS: u64 = 1000;

/// What a recording of the string would have, in a memory of so many pages (LRU).
fn record(string: &[u64], frames: usize) -> History {
    let mut known = Known::default();
    let mut last_use: BTreeMap<u64, u64> = BTreeMap::new();
    let mut used_at: Vec<Option<u64>> = vec![None; PAGES as usize];
    let mut seen = vec![false; PAGES as usize];
    let mut swap_ins = 0;
    for (number, &page) in (0..).zip(string) {
        let at = number * ACCESS_NS;
        match used_at[page as usize].replace(at) {
            Some(before) => _ = last_use.remove(&before),
            None => {
                let again = std::mem::replace(&mut seen[page as usize], true);
                swap_ins += u64::from(again);
                let what = if again { What::Faulted } else { What::Touched };
                known.entry(page).or_default().push((at, what));
            }
        }
        last_use.insert(at, page);
        if last_use.len() > frames {
            let (_, oldest) = last_use.pop_first().expect("it is not empty");
            used_at[oldest as usize] = None;
            known.entry(oldest).or_default().push((at, What::Evicted));
        }
    }
    let end = string.len() as u64 * ACCESS_NS;
    History::assemble(known, Clock::new(std::iter::empty()), end, swap_ins)
}

/// Swap-ins predicted from what was recorded at 60 %, and those of the whole string, at `percent` of the pages.
fn predicted_and_true(string: &[u64], percent: u64) -> (f64, f64) {
    let history = record(string, PAGES as usize * 60 / 100);
    let found = sweeps::find(&history, |page| (page, page + 1));
    let known = strings::known(&history, &found);
    let rates = Rates::new(&history, &found, &known, std::iter::empty(), 12).expect("no looks");
    let ages = Ages::new(&history, 40);
    let steps = strings::build(&history, &known, &rates, &ages, true, 1);
    let whole: Vec<Step> = (0..)
        .zip(string)
        .map(|(number, &page)| Step::access(number * ACCESS_NS, page as u32))
        .collect();
    let frames = PAGES * percent / 100;
    (
        swap_ins(&steps, frames) as f64,
        swap_ins(&whole, frames) as f64,
    )
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// All pages once, then accesses as `next` says.
fn string(accesses: u64, mut next: impl FnMut(u64) -> u64) -> Vec<u64> {
    (0..PAGES).chain((0..accesses).map(&mut next)).collect()
}

#[track_caller]
fn assert_near(string: &[u64], percent: u64, share: f64) {
    let (predicted, truth) = predicted_and_true(string, percent);
    assert!(
        (predicted - truth).abs() <= share * truth.max(PAGES as f64 / 100.0),
        "{predicted} predicted, {truth} true at {percent} %"
    );
}

#[test]
fn a_loop_misses_at_any_size() {
    let string = string(40_000, |number| number % PAGES);
    for percent in [30, 50, 70, 90] {
        assert_near(&string, percent, 0.05);
    }
}

#[test]
fn random_accesses_are_as_likely_anywhere() {
    let mut state = 7;
    let string = string(60_000, |_| random(&mut state) % PAGES);
    for percent in [30, 50, 70, 90] {
        assert_near(&string, percent, 0.15);
    }
}

#[test]
fn more_memory_than_the_program_has_needs_no_swap() {
    let string = string(20_000, |number| number * 7 % PAGES);
    assert_eq!(predicted_and_true(&string, 101).0, 0.0);
}
