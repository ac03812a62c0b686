//! Threads that read for others: what they do counts, and is hinted, as done by who has queued it, if the program says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::assert_nothing_lost;
use crate::common::command::record_all_paths;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::TempDir;

use super::hints::FILE_PAGES;
use super::hints::number;
use super::hints::printed;
use super::hints::write_file;

const PIECES: i64 = 24 << 4;
const LOOKUPS: i64 = 64 * 50;
/// Before its work for others, and after it.
const OWN: i64 = 10;

/// On a disk: what is in memory anyway has no pages to drop.
fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    compile_with(folder.path(), "pool.c", "pool", &[]);
    for name in ["data", "other"] {
        write_file(&folder.path().join(name), 2);
    }
    folder
}

/// Of each context that reads: its function, calls and class, most calls first.
pub(super) fn readers(report: &Value) -> Vec<(&str, i64, &str)> {
    let contexts = report["contexts"].as_array().expect("contexts").iter();
    let mut readers: Vec<_> = contexts
        .filter(|context| context["does"] == "read")
        .filter_map(|context| {
            let file = context["file"].as_str()?;
            let function = context["function"].as_str()?;
            let function = file.ends_with("pool.c").then_some(function)?;
            let class = context["class"].as_str().unwrap_or_default();
            Some((function, number(&context["calls"]), class))
        })
        .collect();
    readers.sort_by_key(|&(_, calls, _)| -calls);
    readers
}

fn recorded(folder: &Path, options: &str, kind: &str) -> Value {
    let program = format!("./pool {kind} data other");
    let (_, report) = record_all_paths(folder, options, &program, || {});
    assert_nothing_lost(&report);
    report
}

#[test]
fn what_a_pool_reads_is_of_who_has_queued_it_if_the_program_says_so() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    for options in ["--io", "--io --sensors allocations", "--io --sensors none"] {
        let report = recorded(folder, options, "marked");
        assert_eq!(
            readers(&report),
            [
                ("queues_lookups", LOOKUPS, "RANDOM WILLNEED"),
                ("queues_scan", PIECES, "SEQUENTIAL DONTNEED"),
                ("reads_for_itself", OWN, "RANDOM WILLNEED"),
                ("reads_for_itself", OWN, "RANDOM WILLNEED"),
            ],
            "{options}"
        );
        let contexts = report["contexts"].as_array().expect("contexts");
        let touches =
            |context: &&Value| context["does"] == "map" && context["function"] == "queues_touches";
        assert!(
            contexts.iter().any(|context| touches(&context)),
            "{options}"
        );
    }
    let report = recorded(folder, "--io=sums --sensors allocations", "marked");
    let calls: Vec<i64> = readers(&report).iter().map(|reader| reader.1).collect();
    assert_eq!(calls, [LOOKUPS, PIECES, OWN, OWN]);
    // Else the thread's own path is all that is known.
    for (kind, options) in [
        ("plain", "--io"),
        ("sandboxed", "--io"),
        ("plain", "--io --sensors none"),
    ] {
        let report = recorded(folder, options, kind);
        let readers = readers(&report);
        // Before it cannot any more, the library tells what lies where.
        let own_reads = |reader: &&(&str, i64, &str)| reader.0 != "enter_sandbox";
        let functions = readers.iter().filter(own_reads);
        let functions: Vec<_> = functions.map(|reader| (reader.0, reader.1)).collect();
        let own = ("reads_for_itself", OWN);
        assert_eq!(
            functions,
            [("does", LOOKUPS + PIECES), own, own],
            "{kind} {options}"
        );
        // And which function has taken the work from the queue.
        let text = run(folder, &["report"]).expect_code(0).stdout;
        let is_told =
            |line: &str| line.contains("read by does (pool.c:") && line.contains("< work");
        assert!(text.lines().any(is_told), "{text}");
    }
    machine.assert_restored();
}

#[test]
fn a_rule_about_who_queues_is_heeded_by_who_reads() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    recorded(folder, "--io", "marked");
    let plan = run(folder, &["plan", "--json", "--min-io", "1M"])
        .expect_code(0)
        .json();
    let rules = plan["rules"].as_array().expect("rules").iter();
    let drops: Vec<&Value> = rules.filter(|rule| rule["action"] == "drop").collect();
    assert_eq!(drops.len(), 1, "{plan:#}");
    assert_eq!(drops[0]["function"], "queues_scan", "{plan:#}");
    let apply = |kind: &str| {
        let words = [
            "apply",
            "plan.toml",
            "--json",
            "outcome.json",
            "--",
            "./pool",
            kind,
            "data",
            "other",
        ];
        let ended = run(folder, &words).expect_code(0);
        let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
        let outcome: Value = serde_json::from_str(&text).expect("JSON");
        let rules = outcome["io"].as_array().expect("rules").clone();
        let of_scan = rules.into_iter().find(|rule| rule["action"] == "drop");
        (printed(&ended), of_scan.expect("a rule"))
    };
    let (told, rule) = apply("marked");
    // A page that something holds at that moment stays.
    const HELD: i64 = 16;
    assert!(told[0] <= HELD, "{told:?}: {rule:#}");
    assert_eq!(number(&rule["calls"]), PIECES, "{rule:#}");
    let gone = number(&rule["gone_pages"]);
    assert!((FILE_PAGES - HELD..=FILE_PAGES).contains(&gone), "{rule:#}");
    // The path of the thread itself is nobody's rule.
    let (told, rule) = apply("plain");
    assert_eq!(told[1], FILE_PAGES, "{rule:#}");
    assert!(rule["unmatched"].is_string(), "{rule:#}");
    // And without a plan the marks are nothing.
    let mut alone = Command::new("./pool");
    alone.args(["marked", "data", "other"]).current_dir(folder);
    let alone = start(alone).end().expect_code(0);
    assert_eq!(printed(&alone)[1], FILE_PAGES);
}
