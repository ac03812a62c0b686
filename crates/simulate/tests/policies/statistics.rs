//! Reclaim by statistics that are brought up to date now and then.

use pagewise_simulate::Counters;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use proptest::prelude::*;

use crate::STORAGE;
use crate::forgetting::agree_with;
use crate::models::Linux;
use crate::traces::frames;
use crate::traces::traces;
use crate::traces::wide_frames;
use crate::traces::wide_traces;

fn told(frames: u32) -> Simulation {
    let settings = Settings {
        flush_period: None,
        counters: Counters::Flushed,
        ..Settings::new(PolicyKind::Linux, frames, STORAGE)
    };
    Simulation::new(&settings).expect("valid settings")
}

/// `linux`, and its model, on a trace with statistics up to date after each `period` references.
fn agree(trace: &[Reference], frames: u32, period: usize) {
    let model = Linux::with_old_statistics(frames);
    agree_with(trace, told(frames), model, |position, simulation, model| {
        if (position + 1) % period == 0 {
            model.flush();
            simulation.flush_counters();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn linux_goes_by_old_statistics_as_its_model_does(
        narrow in traces(), few in frames(), wide in wide_traces(), many in wide_frames(), period in 1usize..300,
    ) {
        agree(&narrow, few, period);
        agree(&wide, many, period);
    }
}

/// All pages in order of their numbers, then ten times in another order that is always the same.
fn list(pages: u32) -> Vec<Reference> {
    let written = |page: u32| Reference::new(page, true, false).expect("few pages");
    // Odd, so that it goes through all pages of a power of two.
    let other = |at: u32| (at % pages).wrapping_mul(40_503) % pages;
    let rounds = (0..10 * pages).map(other).map(written);
    (0..pages).map(written).chain(rounds).collect()
}

#[test]
fn half_of_memory_stays_active_where_statistics_are_old() {
    const PAGES: u32 = 1 << 14;
    let misses = |each: usize| {
        let mut simulation = told(PAGES / 10 * 9);
        for some in list(PAGES).chunks(each) {
            simulation.feed(some);
            simulation.flush_counters();
        }
        simulation.outcome().misses()
    };
    let (fresh, old) = (misses(1), misses(1000));
    assert!(old * 10 < fresh * 8, "{old} of {fresh}");
}

#[test]
fn who_goes_by_statistics_as_they_are_needs_not_be_told() {
    let trace = list(1 << 10);
    let settings = Settings::new(PolicyKind::Linux, 900, STORAGE);
    let mut plain = Simulation::new(&settings).expect("valid settings");
    let mut also_told = Simulation::new(&settings).expect("valid settings");
    plain.feed(&trace);
    for some in trace.chunks(100) {
        also_told.feed(some);
        also_told.flush_counters();
    }
    assert_eq!(plain.outcome(), also_told.outcome());
}
