//! What a simulation keeps for each page of the footprint.

use std::fs;

use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;

const PAGES: u32 = 1 << 21;

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .expect("VmRSS");
    kib.parse::<u64>().expect("a number") * 1024
}

/// One test, as the memory of others running beside it would be counted too.
#[test]
fn no_policy_keeps_more_than_64_bytes_a_page() {
    let storage = Models::built_in()
        .storage("ufs3.1", "emram", Level::Typical)
        .expect("known");
    for &policy in PolicyKind::ALL
        .iter()
        .filter(|policy| !policy.needs_future())
    {
        let before = resident_bytes();
        let mut simulation =
            Simulation::new(&Settings::new(policy, PAGES / 10, storage)).expect("valid");
        for round in 0..2 {
            for first in (0..PAGES).step_by(4096) {
                let chunk = (first..first + 4096)
                    .map(|page| Reference::new(page, round == 1, page % 2 == 0));
                let chunk: Vec<Reference> =
                    chunk.map(|reference| reference.expect("few")).collect();
                simulation.feed(&chunk);
            }
        }
        let a_page = resident_bytes().saturating_sub(before) / u64::from(PAGES);
        assert!(a_page <= 64, "{policy}: {a_page} bytes a page");
        drop(simulation);
    }
}
