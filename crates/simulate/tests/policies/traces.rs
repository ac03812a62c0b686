//! Traces and memories to try policies on.

use pagewise_simulate::Reference;
use proptest::prelude::*;

/// Traces of few pages with repetition: uniform, looping and skewed stretches.
pub(crate) fn traces() -> impl Strategy<Value = Vec<Reference>> {
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

pub(crate) fn frames() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(2), Just(3), Just(8), 1u32..26]
}

/// Traces of some hundred pages, for policies that take pages by the cluster: a hot part, a cold part, and loops.
pub(crate) fn wide_traces() -> impl Strategy<Value = Vec<Reference>> {
    let mixed = (1u32..300, 0u32..8).prop_flat_map(|(pages, hot)| {
        let step = (0..pages, 0u32..10, any::<bool>());
        prop::collection::vec(step, 1..400).prop_map(move |steps| {
            let cooled = |(page, heat, write)| (if heat < hot { page % 40 } else { page }, write);
            steps.into_iter().map(cooled).collect::<Vec<_>>()
        })
    });
    let looping = (1u32..250, 1u32..500, any::<bool>())
        .prop_map(|(pages, length, write)| (0..length).map(|step| (step % pages, write)).collect());
    let stretch = prop_oneof![2 => mixed, 1 => looping];
    let files = prop_oneof![Just(1), Just(2), Just(3), Just(1000)];
    (prop::collection::vec(stretch, 1..5), files).prop_map(|(stretches, files)| {
        let steps = stretches.into_iter().flatten();
        steps
            .map(|(page, write)| Reference::new(page, write, page % files == 1).expect("few pages"))
            .collect()
    })
}

pub(crate) fn wide_frames() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..40, 40u32..260]
}
