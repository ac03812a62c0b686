//! `pagewise simulate --hugepages` as users call it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

use crate::common::command::Ended;
use crate::common::command::run;

/// A table of a program of 40 regions, of which the last four are hot.
fn folder() -> TempDir {
    let folder = tempdir().expect("a folder");
    let rows: String = (1..=40_u64)
        .map(|region| {
            let accessed = if region > 36 { 500 } else { 5 };
            format!("0,{:#x},512,{accessed}\n", region << 21)
        })
        .collect();
    let table = format!("time_s,address,resident,accessed\n{rows}");
    fs::write(folder.path().join("t.csv"), table).expect("written");
    folder
}

fn simulate(folder: &Path, arguments: &str) -> Ended {
    let mut all = vec!["simulate", "--hugepages"];
    all.extend(arguments.split_whitespace());
    run(folder, &all)
}

fn json(folder: &Path, arguments: &str) -> Value {
    simulate(folder, &format!("{arguments} --json"))
        .expect_code(0)
        .json()
}

#[test]
fn the_hot_regions_are_found_sooner_by_accesses_than_by_address() {
    let folder = folder();
    let found = json(
        folder.path(),
        "t.csv --policy hawkeye-g,linux,none --promotions-per-second 1 --duration 60 --overhead 20",
    );
    let policy = |at: usize, key: &str| found["policies"][at][key].clone();
    // One at once and one a second: with three of four hot regions in huge pages, 680 base pages are left, which the TLB
    // holds. By address they are the last of forty.
    assert_eq!(policy(0, "near_huge_from_s"), 2.0);
    let by_address = policy(1, "near_huge_from_s").as_f64();
    assert!(by_address > Some(35.0), "{found:#}");
    assert!(policy(0, "saved_s").as_f64() > policy(1, "saved_s").as_f64());
    assert_eq!(policy(2, "saved_s"), 0.0);
    assert_eq!(policy(0, "promotions"), 40);
    assert_eq!(found["programs"][0]["basis"], "measured");
    let overhead = found["programs"][0]["base_overhead"]
        .as_f64()
        .expect("known");
    assert!((overhead - 0.2).abs() < 1e-9);
}

#[test]
fn table_csv_and_page_tell_the_same_policies() {
    let folder = folder();
    let table = simulate(folder.path(), "t.csv --html page.html").expect_code(0);
    for name in [
        "hawkeye-g",
        "hawkeye-pmu",
        "aggressive",
        "ingens-90",
        "ingens-50",
        "freebsd",
        "linux",
        "none",
    ] {
        assert!(table.stdout.contains(name), "{}", table.stdout);
    }
    assert!(table.stdout.contains("assumed: accessed bits do not tell"));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(page.contains("pagewise.simulate-hugepages/1") && page.ends_with("</html>\n"));
    assert!(!page.contains("@DATA@"));
    simulate(folder.path(), "t.csv --html page.html").expect_told(&["use -f to overwrite it"]);
    let rows = simulate(folder.path(), "t.csv --csv").expect_code(0).stdout;
    assert!(rows.starts_with("policy,time_s,program,"), "{rows}");
    assert!(rows.contains("\nlinux,0.0,t.csv,"), "{rows}");
}

#[test]
fn what_cannot_be_replayed_is_said_in_one_line() {
    let folder = folder();
    fs::write(folder.path().join("blocks.lis"), "1 2 0 0\n1 2 0 1\n").expect("written");
    fs::write(
        folder.path().join("short.csv"),
        "time_s,address,resident,accessed\n",
    )
    .expect("written");
    for (arguments, said) in [
        ("t.csv --tlb l3=4", "a TLB has no `l3`"),
        ("t.csv --tlb l2=-4", "number of entries"),
        ("t.csv --overhead 5,6", "give one for each"),
        ("t.csv --overhead 0", "percentage"),
        ("t.csv --policy clock", "hawkeye-g, hawkeye-pmu"),
        ("t.csv --policy ingens-200", "a percentage from 1 to 100"),
        ("t.csv --low 90", "--total-memory"),
        ("t.csv --total-memory 1G --low 90", "is above --high"),
        ("t.csv --promotions-per-second 0", "promotions a second"),
        ("t.csv --total-memory 50%", "give bytes"),
        ("blocks.lis", "record --access"),
        ("short.csv", "no lines after the header"),
        ("nowhere", "cannot read nowhere"),
        ("t.csv --curve", "cannot be used with"),
    ] {
        let ended = simulate(folder.path(), arguments).expect_code(125);
        assert!(ended.stderr.contains(said), "{arguments}: {}", ended.stderr);
    }
    for (arguments, said) in [
        ("t.csv --policy hawkeye-g", "add --hugepages"),
        ("t.csv t.csv", "one trace at a time"),
        ("t.csv --tlb l2=5", "--hugepages"),
    ] {
        let mut all = vec!["simulate"];
        all.extend(arguments.split_whitespace());
        let ended = run(folder.path(), &all).expect_code(125);
        assert!(ended.stderr.contains(said), "{arguments}: {}", ended.stderr);
    }
}
