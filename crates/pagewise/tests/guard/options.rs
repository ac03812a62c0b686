//! Options of `pagewise guard`: runs with objects that begin at guards, a part of the objects only, errors that are known, and
//! what code hosts read.

use std::fs;
use std::fs::File;
use std::path::Path;

use crate::common::command::Ended;
use crate::common::command::command;
use crate::common::command::run;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const SOURCE: &str = include_str!("../programs/guarded.c");

fn folder() -> TempDir {
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "guarded.c", "guarded", &["-O0", "-w"]);
    folder
}

fn line_of(case: &str) -> u64 {
    let mark = format!("BUG {case} */");
    let line = SOURCE.lines().position(|line| line.ends_with(&mark));
    line.expect("the mark is there") as u64 + 1
}

fn guard(folder: &Path, options: &str, program: &str) -> (Ended, Value) {
    let mut arguments = vec!["guard", "--json", "told.json"];
    arguments.extend(options.split_whitespace());
    arguments.push("--");
    arguments.extend(program.split_whitespace());
    let ended = run(folder, &arguments);
    let text =
        fs::read_to_string(folder.join("told.json")).unwrap_or_else(|_| panic!("{ended:#?}"));
    (ended, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn a_second_run_finds_reads_before_objects_with_the_same_input_and_its_output_is_dropped() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("input"), "a\nb\n").expect("written");
    let script = "read line; echo $line; ./guarded before; cat";
    fs::write(folder.join("script.sh"), script).expect("written");
    let mut one = command(folder, &["guard", "--", "sh", "script.sh"]);
    let input = || File::open(folder.join("input")).expect("it is there");
    assert_eq!(
        one.stdin(input()).output().expect("it runs").status.code(),
        Some(0)
    );

    let mut two = command(
        folder,
        &[
            "guard",
            "--both-sides",
            "--json",
            "told.json",
            "--",
            "sh",
            "script.sh",
        ],
    );
    let output = two.stdin(input()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nb\n", "once");
    let text = fs::read_to_string(folder.join("told.json")).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let error = &json["errors"][0];
    assert_eq!(json["errors"].as_array().map(Vec::len), Some(1), "{json:#}");
    assert_eq!(
        (&error["kind"], &error["access"]),
        (&"heap-buffer-underflow".into(), &"read".into())
    );
    assert_eq!(
        (&error["side"], &error["offset"]),
        (&"begin".into(), &(-8).into())
    );
    assert_eq!(error["line"], line_of("before"));
    assert_eq!(json["summary"]["runs"], 2);
}

#[test]
fn what_both_runs_find_is_told_once_by_the_one_that_knows_better() {
    let folder = folder();
    for (case, side, line) in [
        // Seen when it is given back, and then at once.
        ("cwe124", "begin", None),
        ("cwe122", "end", Some(line_of("cwe122"))),
        ("cwe415", "end", Some(line_of("cwe415"))),
    ] {
        let (ended, json) = guard(folder.path(), "--both-sides", &format!("./guarded {case}"));
        let ended = ended.expect_code(1);
        let errors = json["errors"].as_array().expect("errors");
        assert_eq!(errors.len(), 1, "{ended:#?}");
        assert_eq!(errors[0]["side"], side, "{case}");
        let line = line.unwrap_or(line_of(case) - 1);
        assert_eq!(errors[0]["line"], line, "{case}");
    }
}

#[test]
fn what_is_left_out_by_size_or_by_chance_has_no_guard_and_is_told() {
    let folder = folder();
    // Its object has 32 bytes.
    for (options, errors) in [("--min 33", 0), ("--max 31", 0), ("--min 32 --max 32", 1)] {
        let (ended, json) = guard(folder.path(), options, "./guarded cwe126");
        let ended = ended.expect_code(errors);
        assert_eq!(json["summary"]["errors"], errors, "{ended:#?}");
        if errors == 0 {
            ended.expect_told(&["left without a guard"]);
        }
    }
    let (ended, json) = guard(folder.path(), "--sample 1/20", "./guarded good-many");
    ended.expect_code(0);
    let process = &json["summary"]["processes"][0];
    let guarded = process["allocations"].as_u64().expect("counted");
    let left_out = process["left_out"].as_u64().expect("counted");
    // 33,000 objects: 1650 by a standard deviation of 40, and those of the C library.
    assert!((1300..2100).contains(&guarded), "{process:#}");
    assert!(left_out > 30_000, "{process:#}");
    let (ended, _) = guard(folder.path(), "--sample 1/3", "./guarded good-threads");
    ended.expect_code(0);
}

#[test]
fn known_errors_are_left_out_and_counted() {
    let folder = folder();
    let known = folder.path().join("known");
    fs::write(&known, "# an old one\nheap-buffer-overflow:cwe12*\n").expect("written");
    let (ended, json) = guard(
        folder.path(),
        "--keep-going --suppressions known",
        "./guarded cwe122",
    );
    ended.expect_code(0).expect_told(&["1 error suppressed"]);
    assert_eq!(
        (&json["summary"]["errors"], &json["summary"]["suppressed"]),
        (&0.into(), &1.into())
    );
    // It goes on after a suppressed one, also where that comes again and again, and ends with the first that is not.
    let (ended, json) = guard(folder.path(), "--suppressions known", "./guarded cwe122");
    ended.expect_code(0).expect_told(&["1 error suppressed"]);
    assert_eq!(json["summary"]["errors"], 0);
    let (ended, _) = guard(folder.path(), "--suppressions known", "./guarded cwe415");
    ended.expect_code(1);
    fs::write(&known, "overflow:x\n").expect("written");
    run(
        folder.path(),
        &["guard", "--suppressions", "known", "--", "true"],
    )
    .expect_refusal(125, &["known, line 1", "KIND:PATTERN", "double-free"]);
    run(
        folder.path(),
        &["guard", "--suppressions", "none", "--", "true"],
    )
    .expect_refusal(125, &["cannot read none", "--suppressions FILE"]);
}

#[test]
fn code_hosts_get_file_and_line() {
    let folder = folder();
    let ended = run(
        folder.path(),
        &[
            "guard",
            "--sarif",
            "told.sarif",
            "--",
            "./guarded",
            "cwe416",
        ],
    );
    ended.expect_code(1);
    let text = fs::read_to_string(folder.path().join("told.sarif")).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["version"], "2.1.0");
    let run = &json["runs"][0];
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "heap-use-after-free");
    assert!(result["properties"].is_null(), "its page is gone");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], line_of("cwe416"));
    let uri = place["artifactLocation"]["uri"].as_str().expect("a file");
    assert!(uri.ends_with("tests/programs/guarded.c"), "{uri}");
    assert_eq!(result["stacks"].as_array().map(Vec::len), Some(3));
    let arguments = [
        "guard",
        "--sarif",
        "told.sarif",
        "--",
        "./guarded",
        "cwe122",
    ];
    let ended = crate::common::command::run(folder.path(), &arguments);
    ended.expect_code(1);
    let text = fs::read_to_string(folder.path().join("told.sarif")).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let near = &json["runs"][0]["results"][0]["properties"];
    assert!(
        near["nearAddress"]
            .as_str()
            .is_some_and(|address| address.starts_with("0x"))
    );
    assert!(
        near["nearBytes"]
            .as_str()
            .is_some_and(|bytes| bytes.contains(&"02".repeat(24)))
    );
}

#[test]
fn copies_onto_themselves_are_told_if_that_is_wanted() {
    let folder = folder();
    let (ended, json) = guard(folder.path(), "--overlap", "./guarded onto-itself");
    ended.expect_code(1);
    assert_eq!(json["errors"][0]["kind"], "memcpy-overlap");
    assert_eq!(json["errors"][0]["call"], "memcpy");
    assert_eq!(json["errors"][0]["line"], line_of("onto-itself"));
    for (options, case) in [("", "onto-itself"), ("--overlap", "good-onto-itself")] {
        let (ended, _) = guard(folder.path(), options, &format!("./guarded {case}"));
        ended.expect_code(0);
    }
}

#[test]
fn an_access_to_where_nothing_is_is_told_where_it_ends_the_program() {
    let folder = folder();
    let (ended, json) = guard(folder.path(), "", "./guarded unmapped");
    ended
        .expect_code(1)
        .expect_told(&["invalid-access: write", "at 0x8"]);
    assert_eq!(json["errors"][0]["line"], line_of("unmapped"));
    assert_eq!(json["summary"]["exit_code"], 139, "as without the guard");
    let (ended, _) = guard(folder.path(), "", "./guarded good-unmapped");
    ended.expect_code(0);
}

#[test]
fn shares_and_sizes_that_are_none_are_refused() {
    let folder = tempdir().expect("a folder");
    run(folder.path(), &["guard", "--sample", "0.1", "--", "true"]).expect_refusal(125, &["1/N"]);
    run(folder.path(), &["guard", "--min", "50%", "--", "true"])
        .expect_refusal(125, &["size such as"]);
    run(
        folder.path(),
        &["guard", "--sarif", "no/folder", "--", "true"],
    )
    .expect_code(125)
    .expect_told(&["cannot write no/folder", "--sarif FILE"]);
}
