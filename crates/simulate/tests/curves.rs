//! Curves against simulations of LRU at each size.

mod common;

use pagewise_simulate::CurveBuilder;
use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::Outcome;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Sampler;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use proptest::prelude::*;

fn lru(frames: u32, warmup: u64, flush_period: Option<u64>, trace: &[Reference]) -> Outcome {
    let storage = Models::built_in()
        .storage("ufs3.1", "emram", Level::Typical)
        .expect("known");
    let settings = Settings {
        warmup,
        flush_period,
        ..Settings::new(PolicyKind::Lru, frames, storage)
    };
    let mut simulation = Simulation::new(&settings).expect("valid");
    simulation.feed(trace);
    simulation.outcome()
}

proptest! {
    #[test]
    fn the_exact_curve_is_what_lru_does_at_every_size(
        steps in prop::collection::vec((0u32..20, any::<bool>()), 1..300),
        warmup in 0u64..40,
        flush_period in prop::option::of(1u64..60),
    ) {
        let steps = steps.into_iter().map(|(page, write)| Reference::new(page, write, page % 3 == 0));
        let trace: Vec<Reference> = steps.map(|reference| reference.expect("few pages")).collect();
        let mut builder = CurveBuilder::new(1.0, warmup, flush_period);
        trace.chunks(11).for_each(|chunk| builder.feed(chunk));
        let curve = builder.finish();
        let warm = trace.len() as u64 >= warmup;
        for frames in 1..24 {
            if !warm {
                break;
            }
            let simulated = lru(frames, warmup, flush_period, &trace);
            let mut drawn = curve.outcome(frames);
            if warmup > 0 {
                // A page written and evicted before the end of the warm-up is told when it is written next.
                drawn.file_writes = simulated.file_writes;
                drawn.swap_writes = simulated.swap_writes;
            }
            prop_assert_eq!(drawn, simulated, "{} frames", frames);
        }
    }
}

/// Mean absolute error of the sampled miss ratio, over sizes from 1 % to 100 % of the footprint.
fn error(trace: &[Reference], rate: f64) -> f64 {
    let curve_at = |rate: f64| {
        let mut builder = CurveBuilder::new(rate, 0, None);
        builder.feed(trace);
        builder.finish()
    };
    let (exact, sampled) = (curve_at(1.0), curve_at(rate));
    let sizes = (1..=100).map(|percent| (exact.footprint() * percent / 100).max(1));
    let errors = sizes.map(|frames| {
        let ratio = |outcome: Outcome| outcome.miss_ratio().expect("references");
        (ratio(exact.outcome(frames)) - ratio(sampled.outcome(frames))).abs()
    });
    errors.sum::<f64>() / 100.0
}

#[test]
fn one_page_in_a_hundred_draws_the_curve_of_a_large_trace() {
    let Some(trace) = common::trace("arc_OLTP") else {
        return;
    };
    let off = error(&trace, 0.01);
    assert!(off <= 0.01, "mean absolute error {off}");
}

#[test]
fn small_simulations_stand_for_large_ones() {
    let Some(trace) = common::trace("arc_OLTP") else {
        return;
    };
    let storage = Models::built_in()
        .storage("ufs3.1", "emram", Level::Typical)
        .expect("known");
    let sampler = Sampler::new(0.1);
    let mut chosen = Vec::new();
    sampler.select(&trace, &mut chosen);
    for policy in [
        PolicyKind::Clock,
        PolicyKind::S3Fifo,
        PolicyKind::Arc,
        PolicyKind::Linux,
    ] {
        let ratio = |frames, pages_each, references: &[Reference]| {
            let settings = Settings {
                pages_each,
                ..Settings::new(policy, frames, storage)
            };
            let mut simulation = Simulation::new(&settings).expect("valid");
            simulation.feed(references);
            simulation.outcome()
        };
        let whole = ratio(18_688, 1, &trace).miss_ratio().expect("references");
        let small = ratio(sampler.frames(18_688), sampler.pages_each(), &chosen);
        let scaled = sampler
            .scale(&small, trace.len() as u64)
            .miss_ratio()
            .expect("references");
        assert!(
            (whole - scaled).abs() < 0.02,
            "{policy}: {whole} and {scaled}"
        );
    }
}
