//! Memory that grows and shrinks while it is used.

use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;

fn simulation(policy: PolicyKind, frames: u32) -> Simulation {
    let storage = Models::built_in()
        .storage("ufs3.1", "zram-lz4", Level::Typical)
        .expect("they are built in");
    Simulation::new(&Settings::new(policy, frames, storage)).expect("some memory")
}

fn in_turn(pages: u32) -> Vec<Reference> {
    let reference = |page| Reference::new(page, true, false).expect("a page");
    (0..pages).map(reference).collect()
}

#[test]
fn linux_fits_into_what_there_is_at_each_time() {
    let mut simulation = simulation(PolicyKind::Linux, 1000);
    simulation.feed(&in_turn(800));
    assert_eq!(
        (simulation.resident(), simulation.outcome().evictions),
        (800, 0)
    );
    assert!(simulation.resize(500));
    assert!(simulation.resident() <= 500, "{}", simulation.resident());
    let evicted = simulation.outcome().evictions;
    assert!((300..400).contains(&evicted), "{evicted}");
    simulation.feed(&in_turn(800));
    assert!(simulation.resident() <= 500);
    // With enough again all come back once.
    assert!(simulation.resize(1000));
    simulation.feed(&in_turn(800));
    let before = simulation.outcome().swap_reads;
    simulation.feed(&in_turn(800));
    assert_eq!(simulation.outcome().swap_reads, before);
    // One page at least there is.
    assert!(simulation.resize(0));
    assert!(simulation.resident() <= 1);
}

#[test]
fn a_policy_that_cannot_keeps_what_it_has() {
    let mut simulation = simulation(PolicyKind::Lru, 1000);
    simulation.feed(&in_turn(800));
    assert!(!simulation.resize(500));
    assert_eq!(simulation.resident(), 800);
}
