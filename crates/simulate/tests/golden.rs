//! Miss ratios of public traces as libCacheSim has them, at 5, 10 and 20 % of the footprint.

mod common;

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use pagewise_simulate::Cost;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
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

/// A row of the table: trace, references, pages, percentage, frames, policy, miss ratio.
type Row<'a> = Vec<&'a str>;

/// What is wrong with the row, if anything.
fn check(row: &Row, trace: &[Reference]) -> Option<String> {
    let (name, frames) = (row[0], row[4].parse().expect("frames"));
    let policy = match row[5] {
        "s3fifo" => PolicyKind::S3Fifo,
        known => known.parse().expect("a policy"),
    };
    let settings = Settings::new(policy, frames, FREE);
    let mut simulation = Simulation::with_future(&settings, trace).expect("settings");
    simulation.feed(trace);
    let ratio = simulation.outcome().miss_ratio().expect("references");
    let golden: f64 = row[6].parse().expect("ratio");
    let allowed = 0.000_05 + 1e-9 + tolerance(policy) * golden;
    ((ratio - golden).abs() > allowed)
        .then(|| format!("{name} {frames} {policy}: {ratio:.5} for {golden:.4}"))
}

/// Does the work of each item on all processors.
fn on_all_processors<T: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().expect("no panic inside").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

#[test]
fn miss_ratios_are_those_of_an_independent_simulator() {
    let Some(folder) = common::folder() else {
        return;
    };
    let table = std::fs::read_to_string(folder.join("golden-misses.tsv")).expect("table");
    let rows: Vec<Row> = (table.lines().skip(1))
        .map(|row| row.split('\t').collect())
        .collect();
    assert!(rows.len() >= 216, "only {} rows", rows.len());
    let names: HashSet<&str> = rows.iter().map(|row| row[0]).collect();
    let traces = Mutex::new(BTreeMap::new());
    on_all_processors(names.into_iter(), |name| {
        let trace = common::trace(name).expect("there");
        let distinct: HashSet<u32> = trace.iter().map(|reference| reference.page()).collect();
        let counted = (trace, distinct.len());
        traces
            .lock()
            .expect("no panic inside")
            .insert(name, counted);
    });
    let traces = traces.into_inner().expect("no panic inside");
    for row in &rows {
        let (trace, pages) = &traces[row[0]];
        assert_eq!(trace.len().to_string(), row[1], "references of {}", row[0]);
        assert_eq!(pages.to_string(), row[2], "pages of {}", row[0]);
    }
    let wrong = Mutex::new(Vec::new());
    on_all_processors(rows.iter(), |row| {
        let found = check(row, &traces[row[0]].0);
        wrong.lock().expect("no panic inside").extend(found);
    });
    let wrong = wrong.into_inner().expect("no panic inside");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
