//! Each policy against a slow model that can be checked by eye, reference by reference, and against the optimum.

mod agreement;
mod forgetting;
mod models;
mod settings;
mod statistics;
mod traces;

use pagewise_simulate::Cost;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_simulate::Storage;
use proptest::prelude::*;
use traces::frames;
use traces::traces;

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

fn simulation(policy: PolicyKind, frames: u32, trace: &[Reference]) -> Simulation {
    let settings = Settings {
        flush_period: None,
        ..Settings::new(policy, frames, STORAGE)
    };
    Simulation::with_future(&settings, trace).expect("valid settings")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

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
