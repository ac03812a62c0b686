//! Miss ratios of public traces as libCacheSim has them, at 5, 10 and 20 % of the footprint.

mod common;

use std::collections::BTreeMap;
use std::collections::HashSet;

use pagewise_simulate::Cost;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_simulate::Storage;

const FREE: Storage = Storage {
    file: Cost {
        read_ns: 0,
        write_ns: 0,
    },
    swap: Cost {
        read_ns: 0,
        write_ns: 0,
    },
    swap_keeps_copy: true,
    fault_ns: 0,
};

/// How far a policy may be off, as a share of the miss ratio; the golden ratios are rounded to four digits.
fn tolerance(policy: PolicyKind) -> f64 {
    match policy {
        PolicyKind::Fifo | PolicyKind::Lru | PolicyKind::Clock | PolicyKind::Belady => 0.0,
        _ => 0.005,
    }
}

#[test]
fn miss_ratios_are_those_of_an_independent_simulator() {
    let Some(folder) = common::folder() else {
        return;
    };
    let table = std::fs::read_to_string(folder.join("golden-misses.tsv")).expect("table");
    let mut rows_by_trace = BTreeMap::<&str, Vec<Vec<&str>>>::new();
    for row in table.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        rows_by_trace.entry(fields[0]).or_default().push(fields);
    }
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (name, rows) in rows_by_trace {
        let trace = common::trace(name).expect("there");
        let distinct: HashSet<u32> = trace.iter().map(|reference| reference.page()).collect();
        assert_eq!(trace.len().to_string(), rows[0][1], "references of {name}");
        assert_eq!(distinct.len().to_string(), rows[0][2], "pages of {name}");
        for row in rows {
            let policy = match row[5] {
                "s3fifo" => PolicyKind::S3Fifo,
                known => known.parse().expect("a policy"),
            };
            let frames = row[4].parse().expect("frames");
            let settings = Settings::new(policy, frames, FREE);
            let mut simulation = Simulation::with_future(&settings, &trace).expect("settings");
            simulation.feed(&trace);
            let ratio = simulation.outcome().miss_ratio().expect("references");
            let golden: f64 = row[6].parse().expect("ratio");
            let off = (ratio - golden).abs();
            checked += 1;
            if off > 0.000_05 + 1e-9 + tolerance(policy) * golden {
                wrong.push(format!(
                    "{name} {frames} {policy}: {ratio:.5} for {golden:.4}"
                ));
            }
        }
    }
    assert!(checked >= 216, "only {checked} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
