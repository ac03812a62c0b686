//! What the guard has a hard time with: threads at work while the process ends, sandboxes, handlers, children, arguments that
//! the kernel refuses.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

use crate::common::command::Ended;
use crate::common::command::run;
use crate::common::programs::compile_with;

const SOURCE: &str = include_str!("../programs/harder.c");

fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempdir().expect("a folder");
            let options = ["-O0", "-w", "-pthread"];
            compile_with(folder.path(), "harder.c", "harder", &options);
            folder
        })
        .path()
}

/// The line that bears the mark of a case.
fn line_of(case: &str) -> usize {
    let mark = format!("BUG {case} */");
    let found = SOURCE.lines().position(|line| line.ends_with(&mark));
    found.unwrap_or_else(|| panic!("no {mark}")) + 1
}

/// Runs a case and returns how it ended with its JSON.
fn guard(options: &str, case: &str) -> (Ended, Value) {
    let name = format!("of {options} {case}.json").replace([' ', '/'], "_");
    let mut arguments = vec!["guard", "--json", &name];
    arguments.extend(options.split_whitespace());
    arguments.extend(["--", "./harder", case]);
    let ended = run(folder(), &arguments);
    let text = fs::read_to_string(folder().join(&name)).unwrap_or_else(|_| panic!("{ended:#?}"));
    (ended, serde_json::from_str(&text).expect("JSON"))
}

/// Asserts that nothing is told of a case, and what it says.
fn expect_silence(options: &str, case: &str, says: &str) {
    let (ended, json) = guard(options, case);
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
}

/// Asserts that the only error of a case is at its mark, and what it says before.
fn expect_error(case: &str, says: &str) {
    let (ended, json) = guard("", case);
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
    assert_eq!(json["errors"][0]["line"], line_of(case), "{ended:#?}");
}

#[test]
fn threads_at_work_while_the_process_ends_are_no_error() {
    for _ in 0..5 {
        expect_silence("", "exiting", "");
    }
    // Here what is looked at is sure to be gone.
    expect_silence("", "hidden", "");
    expect_silence("--leaks", "hidden", "");
    // What they make meanwhile may seem to be leaked.
    let (ended, json) = guard("--leaks", "exiting");
    let errors = json["errors"].as_array().expect("errors");
    let others = errors.iter().find(|error| error["kind"] != "leak");
    assert!(others.is_none(), "{ended:#?}");
    assert_eq!(json["summary"]["exit_code"], 0, "{ended:#?}");
}

#[test]
fn damage_seen_at_the_end_is_told_for_each_path_that_made_what_is_damaged() {
    let (ended, json) = guard("--keep-going", "damaged");
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    let offsets: Vec<_> = errors.iter().map(|error| &error["offset"]).collect();
    assert_eq!(offsets, [-1, -2], "{ended:#?}");
    fs::write(folder().join("known"), "heap-buffer-underflow:damage_one\n").expect("written");
    let (ended, json) = guard("--suppressions known", "damaged");
    let ended = ended.expect_code(1);
    assert_eq!(json["summary"]["suppressed"], 1, "{ended:#?}");
    assert_eq!(json["errors"][0]["offset"], -2, "{ended:#?}");
}

#[test]
fn aligned_moves_are_repaired_in_sandboxes_too() {
    expect_error("sandboxed-vector", "moved\n");
    let (_, json) = guard("", "sandboxed-vector");
    assert_eq!(json["errors"][0]["access_bytes"], 1);
    let is_repaired = u64::from(cfg!(target_arch = "x86_64"));
    let process = &json["summary"]["processes"][0];
    assert_eq!(process["repaired_instructions"], is_repaired);
}

#[test]
fn who_only_asks_for_a_sandbox_is_in_none() {
    expect_silence("", "unprobed", "1\n");
    expect_silence("", "probed", "2\n");
}

#[test]
fn what_the_kernel_refuses_it_refuses() {
    expect_silence("", "refused", "6\n");
}

#[test]
fn handlers_installed_by_older_functions_are_called_from_ours() {
    expect_error("other-signals", "3\n");
}

#[test]
fn threads_made_in_a_sandbox_allocate_contend_and_err() {
    if cfg!(target_arch = "x86_64") {
        expect_error("sandboxed-threads", "done\n");
    }
}

#[test]
fn what_a_parent_did_is_told_once_and_no_end_of_its_children() {
    let (ended, json) = guard("", "inherited");
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, "fine\nfine\nfine\n", "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
}
