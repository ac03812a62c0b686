//! Errors of a library that is loaded into programs of the system's: at work, and in its constructor, before the program begins.

use std::fs;
use std::path::Path;

use crate::common::command::command;
use crate::common::command::start;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::tempdir;

/// Each kind of error, and the function that makes it.
const ERRORS: [(&str, &str); 4] = [
    ("heap-buffer-overflow", "overflow_read"),
    ("heap-buffer-underflow", "underflow_write"),
    ("heap-use-after-free", "use_after_free"),
    ("double-free", "double_free"),
];

/// What was told of the error of this kind in `program`, the first word of `task`.
fn told(folder: &Path, task: &[&str], kind: &str, is_early: bool) -> Value {
    let mut arguments = vec!["guard", "--json", "told.json", "--"];
    arguments.extend(task);
    let mut command = command(folder, &arguments);
    command
        .env("LD_PRELOAD", folder.join("libplanted.so"))
        .env("PLANTED_IN", task[0])
        .env("PLANTED", kind);
    if is_early {
        command.env("PLANTED_EARLY", "1");
    }
    start(command).end().expect_code(1);
    let text = fs::read_to_string(folder.join("told.json")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

fn check(is_early: bool) {
    let folder = tempdir().expect("a folder");
    let options = ["-O0", "-w", "-fno-builtin", "-shared", "-fPIC", "-pthread"];
    compile_with(folder.path(), "planted.c", "libplanted.so", &options);
    for task in [
        &["sleep", "30"] as &[&str],
        &["bash", "-c", "while :; do a=$a; done"],
        &["perl", "-e", "my %h; $h{$_ % 1000} = \"$_\" for 1 .. 1e9"],
    ] {
        for (kind, function) in ERRORS {
            let json = told(folder.path(), task, kind, is_early);
            let error = &json["errors"][0];
            assert_eq!(error["kind"], kind, "{task:?} {json:#}");
            let frames = error["stacks"]["access"].as_array().expect("a call path");
            let errs = frames.iter().any(|frame| frame["function"] == function);
            assert!(errs, "{task:?} {json:#}");
        }
    }
}

#[test]
fn errors_of_a_library_are_told_while_the_program_is_at_work() {
    check(false);
}

#[test]
fn errors_of_a_library_are_told_before_the_program_begins() {
    check(true);
}
