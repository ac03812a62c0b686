//! Reference by reference: a policy and its model.

use std::collections::HashSet;

use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use proptest::prelude::*;

use crate::STORAGE;
use crate::forgetting::agree_with;
use crate::models;
use crate::models::Model;
use crate::simulation;
use crate::traces::frames;
use crate::traces::traces;
use crate::traces::wide_frames;
use crate::traces::wide_traces;

/// Compares every reference's hit or miss, and what was written back.
fn agree(policy: PolicyKind, frames: u32, trace: &[Reference], mut model: impl Model) {
    let mut simulation = simulation(policy, frames, trace);
    let mut dirty = HashSet::new();
    let mut written = 0;
    let mut misses = 0;
    for (position, &reference) in trace.iter().enumerate() {
        let page = reference.page();
        let hit = model.resident().contains(&page);
        model.access(reference);
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
    #![proptest_config(ProptestConfig::with_cases(200))]

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
    fn clock_pro(trace in traces(), frames in frames()) {
        agree(PolicyKind::ClockPro, frames, &trace, models::ClockPro::new(frames));
    }

    #[test]
    fn w_tinylfu(trace in traces(), frames in frames()) {
        agree(PolicyKind::WTinyLfu, frames, &trace, models::WTinyLfu::new(frames));
    }

    #[test]
    fn cflru(trace in traces(), frames in frames()) {
        agree(PolicyKind::CfLru, frames, &trace, models::CfLru::new(frames));
    }

    #[test]
    fn lru_wsr(trace in traces(), frames in frames()) {
        agree(PolicyKind::LruWsr, frames, &trace, models::LruWsr::new(frames));
    }

    #[test]
    fn areas(trace in traces(), frames in frames()) {
        agree(PolicyKind::TwoArea, frames, &trace, models::Areas::two(frames, &STORAGE));
        agree(PolicyKind::FourArea, frames, &trace, models::Areas::four(frames, &STORAGE));
    }

    #[test]
    fn fair_rent(trace in traces(), frames in frames()) {
        agree(PolicyKind::FairRent, frames, &trace, models::FairRent::new(frames, STORAGE));
    }

    #[test]
    fn kernels_in_small_memories(trace in traces(), frames in frames()) {
        agree(PolicyKind::Linux, frames, &trace, models::Linux::new(frames));
        agree(PolicyKind::Mglru, frames, &trace, models::Mglru::new(frames));
    }

    #[test]
    fn belady(trace in traces(), frames in frames()) {
        // Which of several pages that are not used again leaves is open, so only the misses are compared.
        let mut model = models::Belady::new(frames, &trace);
        let mut simulation = simulation(PolicyKind::Belady, frames, &trace);
        simulation.feed(&trace);
        let misses = trace.iter().filter(|reference| {
            let hit = model.resident().contains(&reference.page());
            model.access(**reference);
            !hit
        });
        prop_assert_eq!(simulation.outcome().misses(), misses.count() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn linux(trace in wide_traces(), frames in wide_frames()) {
        agree(PolicyKind::Linux, frames, &trace, models::Linux::new(frames));
    }

    #[test]
    fn linux_of_pages_that_stand_for_several(trace in wide_traces(), frames in wide_frames(), pages_each in 1u32..=40) {
        let settings = Settings {
            flush_period: None,
            pages_each,
            ..Settings::new(PolicyKind::Linux, frames, STORAGE)
        };
        let simulation = Simulation::new(&settings).expect("valid settings");
        agree_with(&trace, simulation, models::Linux::of_a_sample(frames, pages_each), |_, _, _| ());
    }

    #[test]
    fn mglru(trace in wide_traces(), frames in wide_frames()) {
        agree(PolicyKind::Mglru, frames, &trace, models::Mglru::new(frames));
    }

    #[test]
    fn w_tinylfu_with_a_larger_window(trace in wide_traces(), frames in wide_frames()) {
        agree(PolicyKind::WTinyLfu, frames, &trace, models::WTinyLfu::new(frames));
    }
}
