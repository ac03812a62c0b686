//! `pagewise guard`: each kind of error is told with its line, what is right is left alone, and odd programs go on.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::common::command::Ended;
use crate::common::command::run;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const C_SOURCE: &str = include_str!("../programs/guarded.c");
const CPP_SOURCE: &str = include_str!("../programs/guarded.cpp");

/// A folder with both programs, compiled once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempdir().expect("a folder");
            for (source, program) in [("guarded.c", "guarded"), ("guarded.cpp", "operators")] {
                compile_with(folder.path(), source, program, &["-O0", "-w"]);
            }
            folder
        })
        .path()
}

/// The line that bears the mark of a case.
fn line_of(source: &str, case: &str) -> u64 {
    let mark = format!("BUG {case}");
    let is_marked = |line: &&str| line.trim_end_matches(" */").ends_with(&mark);
    let lines = source.lines().enumerate();
    let mut found = lines.filter(|(_, line)| is_marked(line));
    let (index, _) = found.next().unwrap_or_else(|| panic!("no {mark}"));
    index as u64 + 1
}

/// Runs a case and returns how it ended with its JSON.
fn guard(options: &str, program: &str) -> (Ended, Value) {
    let name = format!("of {options} {program}.json").replace([' ', '/'], "_");
    let mut arguments = vec!["guard", "--json", &name];
    arguments.extend(options.split_whitespace());
    arguments.push("--");
    arguments.extend(program.split_whitespace());
    let ended = run(folder(), &arguments);
    let text = fs::read_to_string(folder().join(&name)).unwrap_or_else(|_| panic!("{ended:#?}"));
    (ended, serde_json::from_str(&text).expect("JSON"))
}

/// The one error of a case in C, found on its line.
fn only_error(options: &str, case: &str) -> Value {
    let (ended, json) = guard(options, &format!("./guarded {case}"));
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 1, "{ended:#?}");
    let line = line_of(C_SOURCE, case);
    assert_eq!(errors[0]["line"], line, "{ended:#?}");
    ended.expect_told(&[
        errors[0]["kind"].as_str().expect("a kind"),
        &format!("guarded.c:{line}"),
    ]);
    errors[0].clone()
}

#[test]
fn each_weakness_is_told_with_kind_place_and_offset() {
    for (case, kind, access, offset, bytes) in [
        (
            "cwe122",
            "heap-buffer-overflow",
            Some("write"),
            Some(24),
            24,
        ),
        (
            "cwe122-tail",
            "heap-buffer-overflow",
            Some("write"),
            Some(21),
            21,
        ),
        (
            "cwe124",
            "heap-buffer-underflow",
            Some("write"),
            Some(-1),
            24,
        ),
        ("cwe126", "heap-buffer-overflow", Some("read"), Some(32), 32),
        (
            "cwe127",
            "heap-buffer-underflow",
            Some("read"),
            Some(-8),
            4096,
        ),
        ("cwe415", "double-free", None, Some(0), 10),
        ("cwe416", "heap-use-after-free", Some("write"), Some(3), 40),
        ("cwe761", "invalid-free", None, Some(8), 32),
        (
            "large",
            "heap-buffer-overflow",
            Some("write"),
            Some(3 << 20),
            3 << 20,
        ),
        ("moved", "heap-use-after-free", Some("read"), Some(0), 100),
    ] {
        let error = only_error("", case);
        assert_eq!(error["kind"], kind, "{case}");
        assert_eq!(error["access"].as_str(), access, "{case}");
        assert_eq!(error["offset"].as_i64(), offset, "{case}");
        assert_eq!(error["object_bytes"], bytes, "{case}");
        let made = error["stacks"]["allocation"].as_array().expect("a path");
        let functions: Vec<_> = made
            .iter()
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        assert!(
            functions.starts_with(&["make"]) || case == "moved",
            "{functions:?}"
        );
        assert!(functions.contains(&"main"), "{functions:?}");
    }
}

#[test]
fn what_is_not_on_the_heap_is_told_without_an_object() {
    let error = only_error("", "cwe590");
    assert_eq!(error["kind"], "invalid-free");
    assert_eq!(error["object_bytes"], Value::Null);
}

#[test]
fn the_release_of_what_is_used_later_is_told() {
    let error = only_error("", "cwe416");
    let freed = error["stacks"]["free"].as_array().expect("a path");
    assert_eq!(freed[0]["function"], "cwe416");
    assert_eq!(error["access_bytes"], 1);
    assert_eq!(error["free_tid"], error["tid"]);
}

#[test]
fn right_programs_are_left_alone() {
    for case in [
        "cwe122",
        "cwe122-tail",
        "cwe124",
        "cwe126",
        "cwe127",
        "cwe415",
        "cwe416",
        "cwe590",
        "cwe761",
        "short-read",
        "large",
        "moved",
        "leaked",
        "in-child",
        "own-handler",
        "blocked",
        "masked",
        "coroutine",
        "sandboxed",
        "closed",
        "locked",
        "family",
        "threads",
    ] {
        let (ended, json) = guard("", &format!("./guarded good-{case}"));
        let ended = ended.expect_code(0);
        assert_eq!(json["summary"]["errors"], 0, "{case}: {ended:#?}");
        let mut processes = json["summary"]["processes"]
            .as_array()
            .into_iter()
            .flatten();
        let allocates = |process: &Value| process["allocations"].as_u64() > Some(0);
        assert!(processes.any(allocates), "{case}: {ended:#?}");
    }
}

#[test]
fn what_one_family_makes_another_must_not_give_back() {
    for (case, made, given) in [
        ("new-free", "operator new", "free"),
        ("malloc-delete", "malloc", "operator delete"),
        ("array-delete", "operator new[]", "operator delete"),
    ] {
        let (ended, json) = guard("", &format!("./operators {case}"));
        let ended = ended.expect_code(1);
        let error = &json["errors"][0];
        assert_eq!(error["kind"], "alloc-dealloc-mismatch", "{ended:#?}");
        assert_eq!(
            (&error["made_by"], &error["given_back_by"]),
            (&made.into(), &given.into())
        );
        assert_eq!(error["line"], line_of(CPP_SOURCE, case));
    }
    for (case, bytes, told) in [
        ("wrong-size", Some(16), "as one of 16 bytes"),
        ("wrong-alignment", None, "as one of another alignment"),
    ] {
        let (ended, json) = guard("", &format!("./operators {case}"));
        let error = &json["errors"][0];
        assert_eq!(error["kind"], "alloc-dealloc-mismatch", "{ended:#?}");
        assert_eq!(error["access_bytes"].as_u64(), bytes);
        assert_eq!(error["line"], line_of(CPP_SOURCE, case));
        ended.expect_code(1).expect_told(&[told]);
    }
    let (ended, json) = guard("--leaks", "./operators good");
    ended.expect_code(0);
    assert_eq!(json["errors"], Value::Array(Vec::new()));
}

#[test]
fn a_read_into_too_short_a_buffer_is_told_and_made() {
    let error = only_error("", "short-read");
    assert_eq!(
        (&error["kind"], &error["call"]),
        (&"heap-buffer-overflow".into(), &"read".into())
    );
    assert_eq!(
        (&error["access_bytes"], &error["offset"]),
        (&32.into(), &16.into())
    );
    // Up to the guard: padding and the object.
    let near = error["near_bytes"].as_str().expect("bytes");
    let object = error["object_address"].as_u64().expect("an object");
    let before = object - error["near_address"].as_u64().expect("an address");
    let expected = "aa".repeat(before as usize) + &"01".repeat(16);
    assert_eq!(near, expected);
}

#[test]
fn guards_by_mprotect_find_the_same() {
    for case in ["cwe122", "cwe124", "cwe416", "cwe415", "large"] {
        only_error("--mprotect", case);
    }
    let (ended, json) = guard("--mprotect", "./guarded good-family");
    ended
        .expect_code(0)
        .expect_told(&["guards by mprotect", "Linux 6.13"]);
    assert_eq!(json["summary"]["processes"][0]["guards"], "mprotect");
}

#[test]
fn more_objects_than_mappings_are_made_without_guards_and_told() {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").expect("it is there");
    let limit: u64 = limit.trim().parse().expect("a number");
    let (ended, json) = guard("--mprotect", "./guarded many");
    let ended = ended.expect_code(0);
    let unguarded = json["summary"]["processes"][0]["unguarded"].as_u64();
    if limit < 66_000 {
        assert!(unguarded > Some(0), "{ended:#?}");
        ended.expect_told(&["not guarded", "vm.max_map_count"]);
    } else {
        assert_eq!(unguarded, Some(0), "{ended:#?}");
    }
    let (ended, json) = guard("", "./guarded many");
    ended.expect_code(0);
    assert_eq!(json["summary"]["processes"][0]["unguarded"], 0);
}

#[test]
fn an_alignment_of_one_ends_every_object_at_its_guard() {
    // Seen at once, not when it is given back.
    let (ended, json) = guard("--align 1", "./guarded cwe122-tail");
    ended.expect_code(1);
    let line = json["errors"][0]["line"].as_u64();
    assert!(line < Some(line_of(C_SOURCE, "cwe122-tail")), "{line:?}");
    assert_eq!(json["errors"][0]["access_bytes"], 1);
}

#[test]
fn a_program_that_is_to_go_on_does_and_each_place_is_told_once() {
    let (ended, json) = guard("--keep-going --exit-code 42", "./guarded twice");
    let ended = ended.expect_code(42);
    let errors = json["errors"].as_array().expect("errors");
    let kinds: Vec<_> = errors.iter().map(|error| error["kind"].as_str()).collect();
    assert_eq!(
        kinds,
        [Some("heap-buffer-overflow"), Some("double-free")],
        "{ended:#?}"
    );
    assert_eq!(json["summary"]["exit_code"], 0, "its own code");
}

#[test]
fn leaks_are_told_where_they_were_allocated() {
    let (ended, json) = guard("--leaks", "./guarded leaked");
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    let ours = errors.iter().find(|error| error["leaked_bytes"] == 50);
    let path = ours.and_then(|error| error["stacks"]["allocation"].as_array());
    let functions: Vec<_> = path
        .into_iter()
        .flatten()
        .filter_map(|frame| frame["function"].as_str())
        .collect();
    assert!(
        functions.starts_with(&["make", "leaked", "main"]),
        "{ended:#?}"
    );
    let (ended, json) = guard("--leaks", "./guarded good-leaked");
    ended.expect_code(0);
    assert_eq!(json["errors"], Value::Array(Vec::new()));
    let (ended, json) = guard("", "./guarded leaked");
    ended.expect_code(0);
    assert_eq!(json["summary"]["errors"], 0, "unless they are asked for");
}

#[test]
fn errors_of_children_threads_and_closed_descriptors_are_told() {
    for case in [
        "in-child",
        "blocked",
        "masked",
        "coroutine",
        "small-stack",
        "closed",
        "locked",
    ] {
        let (ended, json) = guard("", &format!("./guarded {case}"));
        let ended = ended.expect_code(1);
        assert_eq!(
            json["errors"][0]["line"],
            line_of(C_SOURCE, case),
            "{ended:#?}"
        );
    }
}

#[test]
fn sandboxes_and_stacks_that_are_too_small_end_the_program_only_as_they_would() {
    let (ended, json) = guard("", "./guarded sandboxed");
    let ended = ended.expect_code(1);
    assert_eq!(
        json["errors"][0]["line"],
        line_of(C_SOURCE, "sandboxed"),
        "{ended:#?}"
    );
    let (ended, _) = guard("", "./guarded overflowing");
    // With a report, if it has just room, and else without.
    assert!(matches!(ended.code, Some(1 | 139)), "{ended:#?}");
    guard("", "./guarded good-overflowing").0.expect_code(0);
}

#[test]
fn signals_that_come_during_a_report_leave_the_stack_of_signals_as_it_is() {
    let (ended, json) = guard("--keep-going", "./guarded on-alternate");
    let ended = ended.expect_code(1);
    assert_eq!(json["errors"][0]["kind"], "double-free", "{ended:#?}");
    assert_eq!(ended.stdout, "kept 32640\n", "{ended:#?}");
}

#[test]
fn a_handler_of_the_programs_own_is_called_all_the_same() {
    let (ended, json) = guard("", "./guarded own-handler");
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, "handled\nhandled\n", "{ended:#?}");
    assert_eq!(json["errors"][0]["line"], line_of(C_SOURCE, "own-handler"));
    let (ended, json) = guard("", "./guarded good-own-handler");
    assert_eq!(ended.expect_code(0).stdout, "handled\n");
    assert_eq!(json["summary"]["errors"], 0);
}

#[test]
fn little_address_space_is_told_and_no_end() {
    let script = folder().join("limited.sh");
    fs::write(&script, "ulimit -v 400000\nexec ./guarded good-limited\n").expect("written");
    let (ended, json) = guard("", "sh limited.sh");
    let ended = ended.expect_code(0);
    let unguarded = json["summary"]["processes"]
        .as_array()
        .expect("processes")
        .iter();
    let unguarded: u64 = unguarded
        .filter_map(|process| process["unguarded"].as_u64())
        .sum();
    assert!(unguarded > 0, "{ended:#?}");
    ended.expect_told(&["not guarded", "ulimit -v"]);
}

#[test]
fn no_memory_for_new_is_an_exception() {
    let (ended, json) = guard("", "./operators caught-no-memory");
    ended.expect_code(0);
    assert_eq!(json["summary"]["errors"], 0);
    let (ended, json) = guard("", "./operators no-memory");
    ended.expect_code(134);
    assert_eq!(json["summary"]["errors"], 0);
}

#[test]
fn what_cannot_be_guarded_is_refused_with_the_reason() {
    compile_with(folder(), "guarded.c", "static", &["-O0", "-w", "-static"]);
    run(folder(), &["guard", "--", "./static", "family"])
        .expect_refusal(125, &["cannot be guarded", "static program"]);
    run(folder(), &["guard", "--align", "3", "--", "true"])
        .expect_refusal(125, &["auto, 1, 2, 4, 8 or 16"]);
    run(folder(), &["guard", "--", "./nonexistent"]).expect_refusal(127, &["./nonexistent"]);
    run(folder(), &["guard", "--json", "no/folder", "--", "true"])
        .expect_code(125)
        .expect_told(&["cannot write no/folder", "--json FILE"]);
}

#[test]
fn a_program_without_its_library_says_so() {
    let (ended, json) = guard("", "env -i ./guarded good-cwe122");
    ended.expect_code(0);
    assert!(
        json["summary"]["guarded_programs"].as_u64() >= Some(1),
        "env itself"
    );
}

#[test]
fn programs_of_every_day_run_as_always() {
    for (program, says) in [
        ("ls /", "usr"),
        ("sort limited.txt", "a\nb\n"),
        ("bash -c echo", ""),
        ("gzip -c limited.txt", "\u{1f}"),
    ] {
        fs::write(folder().join("limited.txt"), "b\na\n").expect("written");
        let (ended, json) = guard("", program);
        let ended = ended.expect_code(0);
        assert!(ended.stdout.contains(says), "{ended:#?}");
        assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
    }
}
