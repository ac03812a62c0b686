//! Pages of which looks say when they were used, and what is made up for the time in between.

use super::*;
use crate::clock::Clock;
use crate::history::Known;
use crate::strings;
use crate::sweeps;

const MS: u64 = 1_000_000;
/// Pages that are looked at.
const PAGES: u32 = 400;
const END: u64 = 40 * MS;

/// What a look saw of all these pages: they were accessed as soon as its bits were cleared and then all the time, or not at all.
fn look(cleared: u64, at: u64, accessed: bool) -> Look {
    let first = accessed.then_some(First {
        after: cleared,
        by: cleared + MS / 250,
    });
    Look {
        region: 0,
        cleared,
        at,
        pages: (0..PAGES).map(|page| (page, first)).collect(),
    }
}

/// When each of the pages was accessed, which are always in memory; others pass through it, each for `stay` ns.
fn accesses(looks: &[Look], stay: Option<u64>) -> Vec<Vec<u64>> {
    accesses_beside(looks, stay, Vec::new())
}

/// The same, and so it went with one more page.
fn accesses_beside(looks: &[Look], stay: Option<u64>, other: Vec<(u64, What)>) -> Vec<Vec<u64>> {
    let mut known: Known = (0..u64::from(PAGES))
        .map(|page| (page, vec![(0, What::Touched)]))
        .collect();
    if !other.is_empty() {
        known.insert(5000, other);
    }
    if let Some(stay) = stay {
        let passing = (0..END - stay).step_by(1000);
        known.extend((10_000..).zip(passing.map(|at| {
            let moments = vec![(at, What::Touched), (at + stay, What::Evicted)];
            moments
        })));
    }
    let clock = Clock::new(std::iter::empty());
    let history = History::assemble(known, clock, END, 0);
    let found = sweeps::find(&history, |page| (page, page + 1));
    let mut steps = strings::known(&history, &found);
    let rates = Rates::new(&history, &found, &steps, std::iter::empty()).expect("no looks");
    let ages = Ages::new(&history, 10, |_| true);
    let looks = looks.iter().cloned().map(Ok);
    let told = Told {
        rates: &rates,
        ages: &ages,
        rounds: &RoundsOfRegions::default(),
        hot: Hot::default(),
    };
    let all = Sampling::ALL;
    add(&history, looks, &told, all, true, 1, &mut steps).expect("nothing is read");
    steps.sort_unstable();
    let mut accesses = vec![Vec::new(); PAGES as usize];
    for step in steps.iter().filter(|step| step.page < PAGES && step.at > 0) {
        accesses[step.page as usize].push(step.at);
    }
    accesses
}

/// Of each page, the last access before `end`: the one in the middle of them all.
fn last_before(end: u64, accesses: &[Vec<u64>]) -> u64 {
    let last = |accesses: &Vec<u64>| accesses.iter().copied().filter(|&at| at < end).max();
    let mut lasts: Vec<u64> = accesses.iter().filter_map(last).collect();
    lasts.sort_unstable();
    lasts[lasts.len() / 2]
}

#[test]
fn what_was_not_used_while_memory_was_filled_may_be_used_then() {
    let looks = [look(2 * MS, 3 * MS, false)];
    let count = |fault| {
        let comes_back = (0..8).flat_map(|time| {
            let at = fault + 10 * time;
            [(at, What::Evicted), (at + 5, What::Faulted)]
        });
        let other = std::iter::once((0, What::Touched)).chain(comes_back);
        let other = other.collect();
        let accesses = accesses_beside(&looks, None, other);
        accesses.iter().map(Vec::len).sum::<usize>()
    };
    assert!(count(MS) > PAGES as usize, "{}", count(MS));
    assert_eq!(count(5 * MS), 0);
}

#[test]
fn a_use_that_the_look_before_did_not_see_began_at_some_time_between_the_two() {
    let looks = [look(MS, 2 * MS, false), look(12 * MS, 13 * MS, true)];
    let accesses = accesses(&looks, None);
    let within = |from: u64, to: u64| {
        let accesses = accesses.iter().flatten();
        accesses.filter(|&&at| (from..to).contains(&at)).count() as f64
    };
    // Few have begun soon after the first look, most shortly before the second.
    let (soon, late) = (within(2 * MS, 4 * MS), within(10 * MS, 12 * MS));
    assert!((0.05..0.2).contains(&(soon / late)), "{soon} of {late}");
}

#[test]
fn what_was_used_for_long_goes_on_for_longer_than_what_was_not() {
    let new = [
        look(MS, 4 * MS, false),
        look(4 * MS + 100_000, 14 * MS, true),
        look(14 * MS, 24 * MS, false),
    ];
    let old = [look(MS, 4 * MS, true), new[1].clone(), new[2].clone()];
    let ends = [new, old].map(|looks| last_before(14 * MS, &accesses(&looks, None)) - 4 * MS);
    // As long as they have been used: 0.1 ms at most, and 4 ms.
    assert!(ends[0] < MS / 2, "{ends:?}");
    assert!((2 * MS..6 * MS).contains(&ends[1]), "{ends:?}");
}

#[test]
fn what_stays_though_others_leave_was_used_for_as_long_as_it_takes() {
    let looks = [
        look(10 * MS, 11 * MS, false),
        look(11 * MS + 100_000, 21 * MS, true),
        look(21 * MS, 31 * MS, false),
    ];
    let end = |stay| last_before(21 * MS, &accesses(&looks, stay)) as f64 / MS as f64;
    // Others stay for 14 ms without being accessed, so at 31 ms those that were not since 17 ms, and some time before, have left.
    let (alone, among_others) = (end(None), end(Some(14 * MS)));
    assert!(alone < 12.0, "{alone}");
    assert!((13.0..21.0).contains(&among_others), "{among_others}");
}
