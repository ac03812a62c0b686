//! From a recording to hints in force by the command alone: a graph engine that reads its shards again and again, with less memory than they
//! have.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::run;
use crate::common::machine::Machine;
use crate::common::programs::compile_example;
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
