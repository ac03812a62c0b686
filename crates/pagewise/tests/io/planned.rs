//! From a recording to hints in force by the command alone: a graph engine that reads its shards again and again, with less memory than they
//! have.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::run;
use crate::common::machine::Machine;
use crate::common::programs::compile_example;
use crate::common::programs::compile_with;
use pagewise_host::open_file::cached_pages;
use serde_json::Value;

/// Less than a third of the graph.
const MEMORY: &str = "24M";

/// What the example prints.
fn under_limit(folder: &Path, words: &[&str]) -> String {
    let more = ["--memory", MEMORY, "--", "./graph", "rank", ".", "2"];
    run(folder, &[words, &more].concat()).expect_code(0).stdout
}

fn document(folder: &Path, arguments: &[&str]) -> Value {
    let ended = run(folder, arguments).expect_code(0);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn rules(folder: &Path, memory: Option<&str>) -> Vec<(String, String)> {
    let mut arguments = vec!["plan", "--min-io", "10M", "-f", "--json"];
    arguments.extend(memory.map(|_| "--memory").into_iter().chain(memory));
    let plan = document(folder, &arguments);
    let rules = plan["rules"].as_array().expect("rules").iter();
    rules
        .map(|rule| {
            let text = |key: &str| rule[key].as_str().expect("text").to_owned();
            (text("action"), text("why"))
        })
        .collect()
}

#[test]
fn shards_that_leave_memory_before_they_are_read_again_are_dropped_and_the_ranks_stay() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = folder.path();
    compile_example(folder, "graph.c");
    let mut make = Command::new(folder.join("graph"));
    let made = make.args(["make", "."]).current_dir(folder).status();
    assert!(made.expect("runs").success());
    let ranks = under_limit(folder, &["record", "--io", "--sensors", "none"]);
    assert!(ranks.starts_with("ranks "), "{ranks}");

    let report = document(folder, &["report", "--json"]);
    let contexts = report["contexts"].as_array().expect("contexts").iter();
    let share = |context: &Value, key: &str| context[key].as_f64().expect("a share");
    let windows: Vec<&Value> = contexts
        .filter(|context| context["path"].to_string().contains("read_window_links"))
        .collect();
    // The limit may have evicted the bottom of the stack when it was walked: then the path of that call ends there.
    let calls = |context: &&Value| context["calls"].as_u64().expect("a number");
    let all: u64 = windows.iter().map(calls).sum();
    let window = windows.into_iter().max_by_key(calls).expect("a context");
    assert!(calls(&window) >= all - all / 20, "{window}");
    assert!(share(window, "again_share") > 0.5, "{window}");
    assert!(share(window, "again_cached_share") < 0.3, "{window}");

    // With more memory than was recorded nobody knows what would stay; but what is written anew before it is read again need not.
    let roomy = rules(folder, Some("1G"));
    let is_kept = |rule: &(String, String)| rule.0 != "drop" || rule.1.contains(" 0 % used again");
    assert!(roomy.iter().all(is_kept), "{roomy:?}");
    let tight = rules(folder, None);
    let is_drop = |rule: &&(String, String)| rule.0 == "drop" && rule.1.contains("read ");
    assert!(tight.iter().filter(is_drop).count() >= 1, "{tight:?}");
    let plan = fs::read_to_string(folder.join("plan.toml")).expect("written");
    assert!(
        plan.contains("bytes = 25165824"),
        "for the recorded limit: {plan}"
    );

    let again = under_limit(folder, &["apply", "plan.toml", "--json", "outcome.json"]);
    assert_eq!(again, ranks);
    let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    let gone = |rule: &Value| rule["gone_pages"].as_i64().expect("a number");
    let gone: i64 = outcome["io"]
        .as_array()
        .expect("rules")
        .iter()
        .map(gone)
        .sum();
    assert!(gone > 10_000, "{outcome}");
    machine.assert_restored();
}

/// What `jobs` writes: of all logs, and of one table.
const LOG_BYTES: u64 = 128 << 20;
const TABLE_BYTES: u64 = 56 << 20;

#[test]
fn what_one_function_does_to_two_kinds_of_files_has_a_rule_for_each() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = folder.path();
    compile_with(folder, "jobs.c", "jobs", &["-O1"]);
    run(
        folder,
        &["record", "--io", "--sensors", "none", "--", "./jobs"],
    )
    .expect_code(0);

    let report = document(folder, &["report", "--json"]);
    let contexts = report["contexts"].as_array().expect("contexts").iter();
    let writes = contexts.filter(|context| context["function"] == "put");
    let told: Vec<_> = writes
        .map(|context| {
            let files = context["files"].as_array().expect("files").len();
            (files, context["by_files"].as_bool().expect("a bool"))
        })
        .collect();
    assert_eq!(told, [(8, true), (2, true)], "{report:#}");

    let plan = document(folder, &["plan", "--json"]);
    let rules = plan["rules"].as_array().expect("rules").iter();
    let of_put = rules.filter(|rule| rule["function"] == "put");
    let mut rules: Vec<_> = of_put
        .map(|rule| (rule["action"].clone(), rule["files_pattern"].clone()))
        .collect();
    rules.sort_by_key(|(action, _)| action.to_string());
    assert_eq!(
        rules,
        [
            ("drop".into(), "log.*".into()),
            ("nothing".into(), "table.*".into())
        ],
        "{plan:#}"
    );

    run(
        folder,
        &[
            "apply",
            "plan.toml",
            "--json",
            "outcome.json",
            "--",
            "./jobs",
        ],
    )
    .expect_code(0);
    let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    let rules = outcome["io"].as_array().expect("rules").iter();
    let is_of_put = |rule: &&Value| {
        rule["target"]
            .as_str()
            .is_some_and(|name| name.starts_with("put "))
    };
    let drops: Vec<&Value> = rules
        .filter(is_of_put)
        .filter(|rule| rule["action"] == "drop")
        .collect();
    assert_eq!(drops.len(), 1, "{outcome:#}");
    assert_eq!(drops[0]["files"], 8, "{outcome:#}");
    assert_eq!(drops[0]["bytes"], LOG_BYTES, "{outcome:#}");
    let gone = drops[0]["gone_pages"].as_u64().expect("a number");
    assert!(gone > LOG_BYTES / 4096 / 2, "{outcome:#}");
    let table = fs::File::open(folder.join("table.0")).expect("written");
    let cached = cached_pages(&table, 0..TABLE_BYTES).expect("told");
    assert!(
        cached > TABLE_BYTES / 4096 * 9 / 10,
        "tables stay: {cached}"
    );
}

#[test]
fn what_io_uring_reads_is_left_alone_and_told_why() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = folder.path();
    compile_with(folder, "uring.c", "uring", &["-O1"]);
    fs::write(folder.join("data"), vec![1; 1 << 20]).expect("written");
    let words = [
        "record",
        "--io",
        "--sensors",
        "none",
        "--",
        "./uring",
        "data",
    ];
    if run(folder, &words).expect_code(0).stdout == "no io_uring\n" {
        println!("skipped: this kernel refuses io_uring");
        return;
    }
    let plan = document(folder, &["plan", "--min-io", "4K", "--json"]);
    let rules = plan["rules"].as_array().expect("rules").iter();
    let why = |rule: &Value| rule["why"].as_str().expect("text").to_owned();
    let of_uring: Vec<&Value> = rules
        .filter(|rule| why(rule).contains("io_uring"))
        .collect();
    assert!(!of_uring.is_empty(), "{plan:#}");
    for rule in of_uring {
        assert_eq!(rule["action"], "nothing", "{plan:#}");
        let is_told = why(rule).ends_with("by io_uring, whose requests no rule reaches");
        assert!(is_told, "{plan:#}");
    }
}
