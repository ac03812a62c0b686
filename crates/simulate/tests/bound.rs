//! The lower bound against what policies reach.

use pagewise_simulate::Cost;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_simulate::Storage;
use pagewise_simulate::lower_bound;
use proptest::prelude::*;

const STORAGE: Storage = Storage {
    file: Cost {
        read_ns: 8000,
        write_ns: 0,
    },
    swap: Cost {
        read_ns: 320,
        write_ns: 1280,
    },
    swap_keeps_copy: true,
    fault_ns: 0,
};

fn io_ns(policy: PolicyKind, frames: u32, trace: &[Reference]) -> u64 {
    let settings = Settings::new(policy, frames, STORAGE);
    let mut simulation = Simulation::with_future(&settings, trace).expect("valid");
    simulation.feed(trace);
    simulation.outcome().io(&STORAGE).io_ns()
}

proptest! {
    #[test]
    fn no_policy_gets_below_it(
        steps in prop::collection::vec((0u32..16, any::<bool>()), 1..400),
        frames in 1u32..12,
    ) {
        let references = steps.into_iter().map(|(page, write)| Reference::new(page, write, page % 2 == 0));
        let trace: Vec<Reference> = references.map(|reference| reference.expect("few")).collect();
        let reached = PolicyKind::ALL.iter().map(|&policy| io_ns(policy, frames, &trace)).min();
        let reached = reached.expect("policies");
        let bound = lower_bound(&trace, frames, &STORAGE, reached, 60);
        prop_assert!(bound <= reached, "{} above {}", bound, reached);
    }
}

#[test]
fn where_all_misses_cost_the_same_it_comes_close_to_the_optimum() {
    let pages = (0..3000u64).map(|step| (step * step * 31 + step / 7) % 61 % 40);
    let trace: Vec<Reference> = pages
        .map(|page| Reference::new(page as u32, false, true).expect("few"))
        .collect();
    let optimum = io_ns(PolicyKind::Belady, 15, &trace);
    let bound = lower_bound(&trace, 15, &STORAGE, optimum, 400);
    assert!(
        bound <= optimum && bound as f64 > 0.9 * optimum as f64,
        "{bound} of {optimum}"
    );
}
