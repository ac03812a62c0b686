//! `pagewise guard` where pages of objects given back become those of others: nothing is missed, and nobody's objects change.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::common::command::run;
use crate::common::programs::compile_with;

const SOURCE: &str = include_str!("../programs/recycled.c");

/// The line that bears the mark of a case; 0: none does.
fn line_of(case: &str) -> usize {
    let mark = format!("BUG {case} */");
    let found = SOURCE.lines().position(|line| line.ends_with(&mark));
    found.map_or(0, |index| index + 1)
}

/// The one error of a case, on its line; no object was left without a guard.
fn only_error(folder: &Path, options: &[&str], case: &str) -> Value {
    let arguments = [
        &["guard", "--json", "told.json"],
        options,
        &["--", "./recycled", case],
    ];
    let ended = run(folder, &arguments.concat()).expect_code(1);
    assert_eq!(ended.stdout, "1\n", "pages move: {ended:#?}");
    let text = fs::read_to_string(folder.join("told.json")).expect("JSON");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let errors = told["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 1, "{case}: {ended:#?}");
    assert_eq!(errors[0]["line"], line_of(case), "{case}: {ended:#?}");
    for process in told["summary"]["processes"].as_array().expect("processes") {
        assert_eq!(process["unguarded"], 0, "{case}");
    }
    errors[0]["kind"].clone()
}

#[test]
fn pages_that_were_moved_away_are_guarded_in_every_process_that_has_them() {
    let folder = tempdir().expect("a folder");
    let options = ["-O0", "-w", "-pthread"];
    compile_with(folder.path(), "recycled.c", "recycled", &options);
    for case in [
        "used-after",
        "in-child",
        "in-parent",
        "closed",
        "refused",
        "one-by-one",
        "guarded-again",
    ] {
        let kind = only_error(folder.path(), &[], case);
        assert_eq!(kind, "heap-use-after-free", "{case}");
    }
    let kind = only_error(folder.path(), &[], "nothing");
    assert_eq!(kind, "heap-buffer-overflow");
    let kind = only_error(folder.path(), &["--keep-going"], "damaged");
    assert_eq!(kind, "heap-buffer-overflow");
}

#[test]
fn objects_keep_their_contents_and_begin_as_zeros() {
    let folder = tempdir().expect("a folder");
    compile_with(
        folder.path(),
        "recycled.c",
        "recycled",
        &["-O1", "-w", "-pthread"],
    );
    for (case, expected) in [
        ("intact", "1\n0 wrong\n"),
        ("every-way", "1\n0 wrong\n"),
        ("given-up", "1\nzeros\n"),
    ] {
        let ended = run(folder.path(), &["guard", "--", "./recycled", case]).expect_code(0);
        assert_eq!(ended.stdout, expected, "{ended:#?}");
    }
}
