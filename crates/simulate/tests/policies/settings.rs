//! What settings do, and which are refused.

use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_simulate::Storage;

use crate::STORAGE;
use crate::simulation;

/// A trace that evicts and comes back, with files and writes.
fn busy_trace() -> Vec<Reference> {
    let steps = (0..20_000u32).map(|step| (step * step % 977 % 200, step % 5 == 0));
    let references = steps.map(|(page, write)| Reference::new(page, write, page % 4 == 0));
    references
        .map(|reference| reference.expect("few pages"))
        .collect()
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let settings = Settings::new(PolicyKind::Clock, 4, STORAGE);
    let refused = |settings: &Settings| {
        Simulation::new(settings)
            .err()
            .expect("refused")
            .to_string()
    };
    assert!(
        refused(&Settings {
            frames: 0,
            ..settings
        })
        .contains("at least one page")
    );
    assert!(
        refused(&Settings {
            frames: u32::MAX,
            ..settings
        })
        .contains("more than")
    );
    assert!(
        refused(&Settings {
            flush_period: Some(0),
            ..settings
        })
        .contains("at least 1")
    );
    assert!(
        refused(&Settings {
            policy: PolicyKind::Belady,
            ..settings
        })
        .contains("in advance")
    );
}

#[test]
fn an_empty_trace_and_a_warm_up_longer_than_the_trace_count_nothing() {
    for &policy in PolicyKind::ALL {
        let empty = simulation(policy, 3, &[]);
        assert_eq!(empty.outcome(), pagewise_simulate::Outcome::default());
        assert_eq!(empty.outcome().miss_ratio(), None);
    }
    let trace = busy_trace();
    let settings = Settings {
        warmup: 50_000,
        ..Settings::new(PolicyKind::Lru, 10, STORAGE)
    };
    let mut simulation = Simulation::new(&settings).expect("valid");
    simulation.feed(&trace);
    assert_eq!(simulation.outcome().references, 0);
}

#[test]
fn swap_that_frees_what_it_gives_back_is_written_again_at_each_eviction() {
    let trace: Vec<Reference> = [0, 1]
        .repeat(50)
        .iter()
        .enumerate()
        .map(|(position, &page)| Reference::new(page, position < 2, false).expect("few pages"))
        .collect();
    let writes = |swap_keeps_copy| {
        let storage = Storage {
            swap_keeps_copy,
            ..STORAGE
        };
        let mut simulation =
            Simulation::new(&Settings::new(PolicyKind::Lru, 1, storage)).expect("valid");
        simulation.feed(&trace);
        simulation.outcome().swap_writes
    };
    assert_eq!((writes(true), writes(false)), (2, 99));
}

#[test]
fn flushing_writes_each_dirty_file_page_once_a_period() {
    let trace: Vec<Reference> = (0..100)
        .map(|step| Reference::new(step % 4, true, true).expect("few pages"))
        .collect();
    let settings = Settings {
        flush_period: Some(20),
        ..Settings::new(PolicyKind::Lru, 8, STORAGE)
    };
    let mut simulation = Simulation::new(&settings).expect("valid");
    simulation.feed(&trace);
    let outcome = simulation.outcome();
    assert_eq!(
        (outcome.file_writes, outcome.file_reads, outcome.swap_writes),
        (20, 4, 0)
    );
    let io = outcome.io(&STORAGE);
    assert_eq!(
        (io.file_write_ns, io.file_read_ns, io.software_ns),
        (2400, 320, 4)
    );
    assert_eq!(io.io_ns(), 2720);
}

#[test]
fn costs_decide_which_kind_of_page_stays() {
    let trace = busy_trace();
    let file_misses = |policy| {
        let mut simulation = simulation(policy, 40, &trace);
        simulation.feed(&trace);
        simulation.outcome().file_misses
    };
    for policy in [PolicyKind::FourArea, PolicyKind::FairRent] {
        assert!(
            file_misses(policy) < file_misses(PolicyKind::Clock),
            "{policy}"
        );
    }
}
