//! `pagewise guard` on many forms of each weakness of heap objects: all are told in two runs, nearly all in one, and of what
//! is right nothing is said.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::run;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::tempdir;

/// Kinds that were told of each case: of errors whose call paths go through its function.
type Told = BTreeMap<String, BTreeSet<String>>;

struct Case {
    name: String,
    kind: String,
    is_in_one: bool,
}

fn cases(folder: &Path, program: &str) -> Vec<Case> {
    let output = Command::new(folder.join(program)).arg("list").output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let case = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        Case {
            name: fields[0].to_owned(),
            kind: fields[1].to_owned(),
            is_in_one: fields[2] == "1",
        }
    };
    text.lines().map(case).collect()
}

fn guard(folder: &Path, options: &[&str], program: &str, what: &str, code: i32) -> Value {
    let mut arguments = vec!["guard", "--json", "told.json"];
    arguments.extend(options);
    arguments.extend(["--", program, what]);
    run(folder, &arguments).expect_code(code);
    let text = fs::read_to_string(folder.join("told.json")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

fn told(json: &Value) -> Told {
    let mut told = Told::new();
    for error in json["errors"].as_array().expect("errors") {
        let frames =
            ["access", "allocation"].map(|path| error["stacks"][path].as_array().expect("a path"));
        let functions: BTreeSet<&str> = frames
            .into_iter()
            .flatten()
            .filter_map(|frame| frame["function"].as_str()?.split('(').next())
            .collect();
        for function in functions {
            let kinds = told.entry(function.to_owned()).or_default();
            kinds.insert(error["kind"].as_str().expect("a kind").to_owned());
        }
    }
    told
}

fn check(source: &str, program: &str, share_in_one: f64) {
    let folder = tempdir().expect("a folder");
    let folder = folder.path();
    compile_with(folder, source, program, &["-O0", "-w"]);
    let command = format!("./{program}");
    let cases = cases(folder, &command);
    let one = told(&guard(folder, &[], &command, "bad", 1));
    let two = told(&guard(folder, &["--both-sides"], &command, "bad", 1));
    let expected = |case: &Case| Some(BTreeSet::from([case.kind.clone()]));
    let mut in_one = 0;
    for case in &cases {
        assert_eq!(
            two.get(&case.name).cloned(),
            expected(case),
            "{} in two runs",
            case.name
        );
        let is_found = one.contains_key(&case.name);
        assert_eq!(is_found, case.is_in_one, "{} in one run", case.name);
        in_one += u32::from(is_found);
    }
    assert!(f64::from(in_one) >= share_in_one * cases.len() as f64);
    for options in [
        &[][..],
        &["--both-sides"],
        &["--align", "16"],
        &["--keep-going", "--overlap"],
    ] {
        let json = guard(folder, options, &command, "good", 0);
        assert_eq!(json["errors"], Value::Array(Vec::new()), "{options:?}");
    }
}

#[test]
fn of_c() {
    check("weaknesses.c", "weaknesses", 0.95);
}

#[test]
fn of_cpp() {
    check("weaknesses.cpp", "weaknesses-cpp", 0.95);
}
