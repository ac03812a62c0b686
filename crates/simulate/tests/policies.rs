//! Each policy against a slow model that can be checked by eye, reference by reference.

mod models;

use models::Model;
use pagewise_simulate::Cost;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_simulate::Storage;
use proptest::prelude::*;

const STORAGE: Storage = Storage {
    file: Cost {
        read_ns: 80,
        write_ns: 120,
    },
    swap: Cost {
        read_ns: 2,
        write_ns: 5,
    },
    swap_keeps_copy: true,
    fault_ns: 1,
};

/// Traces of few pages with repetition: uniform, looping and skewed stretches.
fn traces() -> impl Strategy<Value = Vec<Reference>> {
    let uniform = prop::collection::vec((0u32..24, any::<bool>()), 1..120);
    let skewed =
        prop::collection::vec((0u32..5, 0u32..5, any::<bool>()), 1..120).prop_map(|steps| {
            steps
                .into_iter()
                .map(|(a, b, write)| (a * b, write))
                .collect()
        });
    let looping = (1u32..20, 1u32..120, any::<bool>())
        .prop_map(|(pages, length, write)| (0..length).map(|step| (step % pages, write)).collect());
    let stretch = prop_oneof![uniform, skewed, looping];
    prop::collection::vec(stretch, 1..6).prop_map(|stretches: Vec<Vec<(u32, bool)>>| {
        // The page decides whether it is a file's: a page has one home.
        let steps = stretches.into_iter().flatten();
        steps
            .map(|(page, write)| Reference::new(page, write, page % 3 == 0).expect("few pages"))
            .collect()
    })
}

fn frames() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(2), Just(3), Just(8), 1u32..26]
}

fn simulation(policy: PolicyKind, frames: u32, trace: &[Reference]) -> Simulation {
    let settings = Settings {
        flush_period: None,
        ..Settings::new(policy, frames, STORAGE)
    };
    Simulation::with_future(&settings, trace).expect("valid settings")
}

/// Compares every reference's hit or miss, and what was written back.
fn agree(policy: PolicyKind, frames: u32, trace: &[Reference], mut model: impl Model) {
    let mut simulation = simulation(policy, frames, trace);
    let mut dirty = std::collections::HashSet::new();
    let mut written = 0;
    let mut misses = 0;
    for (position, &reference) in trace.iter().enumerate() {
        let page = reference.page();
        let hit = model.resident().contains(&page);
        model.access(page);
        misses += u64::from(!hit);
        let resident = model.resident();
        assert!(resident.contains(&page) && resident.len() <= frames as usize);
        let before = dirty.len();
        dirty.retain(|page| resident.contains(page));
        written += (before - dirty.len()) as u64;
        if reference.is_write() {
            dirty.insert(page);
        }
        simulation.feed(&[reference]);
        let outcome = simulation.outcome();
        assert_eq!(
            outcome.misses(),
            misses,
            "{policy}, {frames} frames, reference {position}"
        );
        assert_eq!(
            outcome.swap_writes + outcome.file_writes,
            written,
            "writes of {policy}"
        );
        assert_eq!(simulation.resident() as usize, resident.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fifo(trace in traces(), frames in frames()) {
        agree(PolicyKind::Fifo, frames, &trace, models::Fifo::new(frames));
    }

    #[test]
    fn lru(trace in traces(), frames in frames()) {
        agree(PolicyKind::Lru, frames, &trace, models::Lru::new(frames));
    }

    #[test]
    fn clock(trace in traces(), frames in frames()) {
        agree(PolicyKind::Clock, frames, &trace, models::Clock::new(frames, false));
        agree(PolicyKind::ClockRef1, frames, &trace, models::Clock::new(frames, true));
    }

    #[test]
    fn sieve(trace in traces(), frames in frames()) {
        agree(PolicyKind::Sieve, frames, &trace, models::Sieve::new(frames));
    }

    #[test]
    fn two_q(trace in traces(), frames in frames()) {
        agree(PolicyKind::TwoQ, frames, &trace, models::TwoQ::new(frames));
    }

    #[test]
    fn arc(trace in traces(), frames in frames()) {
        agree(PolicyKind::Arc, frames, &trace, models::Arc::new(frames));
    }

    #[test]
    fn s3_fifo(trace in traces(), frames in frames()) {
        agree(PolicyKind::S3Fifo, frames, &trace, models::S3Fifo::new(frames));
    }

    #[test]
    fn lirs(trace in traces(), frames in frames()) {
        agree(PolicyKind::Lirs, frames, &trace, models::Lirs::new(frames));
    }

    #[test]
    fn belady(trace in traces(), frames in frames()) {
        // Which of several pages that are not used again leaves is open, so only the misses are compared.
        let mut model = models::Belady::new(frames, &trace);
        let mut simulation = simulation(PolicyKind::Belady, frames, &trace);
        simulation.feed(&trace);
        let misses = trace.iter().filter(|reference| {
            let hit = model.resident().contains(&reference.page());
            model.access(reference.page());
            !hit
        });
        prop_assert_eq!(simulation.outcome().misses(), misses.count() as u64);
    }

    #[test]
    fn no_policy_beats_the_optimum_or_loses_count(trace in traces(), frames in frames()) {
        let distinct = trace.iter().map(|r| r.page()).collect::<std::collections::HashSet<_>>().len();
        let mut best = simulation(PolicyKind::Belady, frames, &trace);
        best.feed(&trace);
        for &policy in PolicyKind::ALL {
            let mut whole = simulation(policy, frames, &trace);
            whole.feed(&trace);
            let outcome = whole.outcome();
            prop_assert!(outcome.misses() >= best.outcome().misses(), "{}", policy);
            prop_assert!(whole.resident() <= frames, "{}", policy);
            prop_assert_eq!(outcome.first_touches as usize, distinct, "{}", policy);
            prop_assert_eq!(outcome.references as usize, trace.len());
            prop_assert_eq!(outcome.misses() - outcome.evictions, u64::from(whole.resident()));
            prop_assert_eq!(outcome.file_reads, outcome.file_misses);
            let mut pieces = simulation(policy, frames, &trace);
            trace.chunks(7).for_each(|chunk| pieces.feed(chunk));
            prop_assert_eq!(pieces.outcome(), outcome, "{} in pieces", policy);
            let mut roomy = simulation(policy, distinct as u32 + 40, &trace);
            roomy.feed(&trace);
            prop_assert_eq!(roomy.outcome().misses() as usize, distinct, "{} with room", policy);
        }
    }
}

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
