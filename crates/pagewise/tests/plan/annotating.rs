//! Patched sources: the recorder hears the names that a patch gives, and a plan's calls are obeyed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::record;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::machine::Machine;
use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::IoAction;
use pagewise_plan::Memory;
use pagewise_plan::Plan;
use pagewise_plan::Program;
use pagewise_plan::ReadAhead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const SOURCE: &str = "annotated.c";
const LOCK: Action = Action::Lock {
    keep_bytes: None,
    keep_more: false,
    ranges: Vec::new(),
    together: false,
};

fn folder() -> TempDir {
    let folder = tempdir().expect("a folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    fs::copy(sources.join(SOURCE), folder.path().join(SOURCE)).expect("copied");
    folder
}

/// Applies the patch and compiles, without debug information: what has a name then has it from the program.
fn build(folder: &Path, patch: &str) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut apply = Command::new("patch");
    apply.args(["--fuzz=0", "-s", "-p1", "-i", patch]);
    let mut compile = Command::new("gcc");
    compile.args([
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-s",
        "-o",
        "annotated",
        SOURCE,
        "-I",
    ]);
    compile.arg(include);
    for command in [&mut apply, &mut compile] {
        let output = command.current_dir(folder).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }
}

fn rule(name: &str, line: u32, action: Action) -> Rule {
    let frame = Frame {
        module: "annotated".to_owned(),
        build_id: None,
        function: Some(("main".to_owned(), u64::from(line))),
        module_offset: 1,
    };
    Rule {
        objects: None,
        name: format!("{name} ({SOURCE}:{line})"),
        place: SourcePlace {
            function: Some("main".to_owned()),
            file: Some(SOURCE.to_owned()),
            line: Some(line),
        },
        target: Target::allocation(vec![frame]),
        action,
        why: "a test".to_owned(),
        predicted: None,
    }
}

fn write_plan(folder: &Path, name: &str, rules: Vec<Rule>) {
    let plan = Plan {
        program: Program {
            executable: "annotated".to_owned(),
            build_id: None,
            arguments: Vec::new(),
            modules: Vec::new(),
        },
        memory: Memory {
            bytes: 1 << 30,
            peak_bytes: None,
            lock_bytes: None,
            fresh: None,
            prezero_rate: None,
        },
        rules,
        curve: Vec::new(),
        headway: Vec::new(),
        files: Vec::new(),
    };
    fs::write(folder.join(name), plan.to_toml().expect("a plan")).expect("written");
}

#[test]
fn the_recorder_hears_the_names_of_a_patch() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    run(
        folder,
        &["annotate", "--hints", SOURCE, "-o", "hints.patch"],
    )
    .expect_code(0)
    .expect_told(&["allocations patched: 2, refused: 0"]);
    build(folder, "hints.patch");
    let options = "--memory 48M --swap zram --swap-size 512M";
    record(folder, options, "./annotated").expect_code(0);
    machine.assert_restored();
    let report = report(folder);
    let all = report["summary"]["swap_ins"].as_u64().expect("a count");
    let objects = report["objects"].as_array().expect("objects");
    let array = objects.iter().find(|object| object["name"] == "array");
    let swap_ins = array.and_then(|object| object["swap_ins"].as_u64());
    assert!(
        all > 10_000 && swap_ins > Some(all * 9 / 10),
        "{objects:#?}"
    );
    assert!(
        objects.iter().any(|object| object["name"] == "table"),
        "{objects:#?}"
    );
}

#[test]
fn a_plans_calls_are_obeyed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let stream = Action::Stream {
        keep_bytes: Some(8 << 20),
        keep_more: false,
        ahead: ReadAhead::default(),
    };
    let rules = vec![rule("table", 10, LOCK), rule("array", 11, stream)];
    write_plan(folder, "plan.toml", rules);
    write_plan(folder, "empty.toml", Vec::new());
    run(folder, &["annotate", "plan.toml", "-o", "plan.patch"]).expect_code(0);
    let patch = fs::read_to_string(folder.join("plan.patch")).expect("a patch");
    for call in [
        "+    pagewise_lock(table, (size_t)(4 * MIB) * 1);\n",
        "+    pagewise_stream(array, words * sizeof *array, 8388608);\n",
    ] {
        assert!(patch.contains(call), "{patch}");
    }
    build(folder, "plan.patch");
    let alone = Command::new(folder.join("annotated")).output();
    let alone = alone.expect("it runs").stdout;
    let arguments = "apply empty.toml --json outcome.json --memory 64M --swap zram --swap-size 512M -- ./annotated";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut ended = run(folder, &arguments);
    for _ in 0..4 {
        if ended.code != Some(137) {
            break;
        }
        ended = run(folder, &arguments); // v1's reclaim has killed it
    }
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout.as_bytes(), alone);
    let outcome = fs::read_to_string(folder.join("outcome.json")).expect("written");
    let outcome: Value = serde_json::from_str(&outcome).expect("JSON");
    let calls = &outcome["calls"];
    let number = |key: &str| calls[key].as_u64().expect("a number");
    assert_eq!(number("locks"), 2, "{calls}");
    // Whole pages of the table, and what is kept of the array.
    let locked = number("locked_bytes");
    let whole = 12 << 20;
    assert!((whole - 8192..=whole).contains(&locked), "{calls}");
    assert!(number("read_ahead_pages") > 0, "{outcome}");
    machine.assert_restored();
}

#[test]
fn a_plans_hints_about_files_take_the_place_of_calls() {
    let folder = tempdir().expect("a folder");
    let folder = folder.path();
    let source = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{\n    char buffer[64];\n    \
                  int file = open(\"annotated.c\", O_RDONLY);\n    long all = 0, got;\n    \
                  while ((got = read(file, buffer, sizeof buffer)) > 0)\n        all += got;\n    return printf(\"%ld\\n\", all) < 0;\n}\n";
    fs::write(folder.join(SOURCE), source).expect("written");
    let mut reads = rule(
        "read",
        9,
        Action::Io(IoAction::Drop {
            readahead: None,
            again_percent: 0,
        }),
    );
    let Target::Allocation { path, .. } = reads.target else {
        panic!("not of an allocation");
    };
    reads.target = Target::Io { path, files: None };
    write_plan(folder, "plan.toml", vec![reads]);
    let told = run(
        folder,
        &["annotate", "plan.toml", "-o", "plan.patch", "--json"],
    )
    .expect_code(0)
    .expect_told(&["allocations patched: 0, calls that read or write: 1, refused: 0"]);
    let json: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let call = &json["file_calls"][0];
    assert_eq!(
        (&call["line"], &call["function"], &call["by"], &call["on"]),
        (&9.into(), &"main".into(), &"read".into(), &"file".into()),
        "{json:#}"
    );
    build(folder, "plan.patch");
    let output = Command::new("./annotated").current_dir(folder).output();
    let printed = output.expect("it runs").stdout;
    let bytes = fs::metadata(folder.join(SOURCE)).expect("there").len();
    assert_eq!(String::from_utf8_lossy(&printed), format!("{bytes}\n"));
}

#[test]
fn a_file_that_is_named_twice_is_patched_once() {
    let folder = folder();
    let folder = folder.path();
    std::os::unix::fs::symlink(SOURCE, folder.join("link.c")).expect("a link");
    run(folder, &["annotate", "--hints", SOURCE, "link.c", SOURCE])
        .expect_code(0)
        .expect_told(&["allocations patched: 2, refused: 0"]);
}

#[test]
fn a_named_source_that_no_rule_is_about_is_told() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("other.c"), "int other;\n").expect("written");
    write_plan(folder, "plan.toml", vec![rule("table", 10, LOCK)]);
    run(folder, &["annotate", "plan.toml", "gone.c"])
        .expect_refusal(125, &["cannot read gone.c", "No such file"]);
    // Nothing is patched: that is told by the exit code, too.
    run(folder, &["annotate", "plan.toml", "other.c"])
        .expect_code(1)
        .expect_told(&[
            "other.c: no rule of the plan is about it: name one of those that the plan names: annotated.c",
        ]);
    run(folder, &["annotate", "plan.toml", "other.c", SOURCE])
        .expect_code(0)
        .expect_told(&["other.c: no rule of the plan is about it"])
        .expect_told(&["allocations patched: 1, refused: 0"]);
}

#[test]
fn sources_of_a_plan_are_looked_for_where_their_root_is() {
    let folder = folder();
    let folder = folder.path();
    write_plan(folder, "plan.toml", vec![rule("table", 10, LOCK)]);
    let below = folder.join("checkout");
    fs::create_dir(&below).expect("made");
    fs::rename(folder.join(SOURCE), below.join(SOURCE)).expect("moved");
    run(folder, &["annotate", "plan.toml"])
        .expect_code(1)
        .expect_told(&["annotated.c", "there is no such file", "--source-root"]);
    let patch = run(
        folder,
        &["annotate", "plan.toml", "--source-root", "checkout"],
    );
    let patch = patch.expect_code(0).stdout;
    assert!(patch.contains("+++ b/checkout/annotated.c"), "{patch}");
    run(folder, &["annotate", "plan.toml", "--source-root", "gone"])
        .expect_code(1)
        .expect_told(&["gone/annotated.c", "there is no such file"]);
}

#[test]
fn a_rule_about_the_heap_is_told_what_to_do() {
    let folder = folder();
    let folder = folder.path();
    let mut heap = rule("the heap", 1, LOCK);
    heap.place = SourcePlace {
        function: None,
        file: None,
        line: None,
    };
    heap.target = Target::Heap {
        module: "annotated".to_owned(),
    };
    write_plan(folder, "plan.toml", vec![heap]);
    run(folder, &["annotate", "plan.toml"])
        .expect_code(1)
        .expect_told(&["apply the plan to the program in place of a patch"]);
}

#[test]
fn what_cannot_be_patched_is_told_and_the_rest_is_patched() {
    let folder = folder();
    let folder = folder.path();
    let json = |arguments: &[&str], code| {
        let all: Vec<&str> = ["annotate", "--json"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        run(folder, &all).expect_code(code).json()
    };
    let moved = rule("array", 13, LOCK);
    let other = Rule {
        objects: None,
        place: SourcePlace {
            function: Some("solve".to_owned()),
            ..rule("table", 10, LOCK).place
        },
        ..rule("table", 10, LOCK)
    };
    let lost = Rule {
        objects: None,
        place: SourcePlace {
            file: Some("lost/elsewhere.c".to_owned()),
            ..moved.place.clone()
        },
        ..rule("lost", 3, LOCK)
    };
    let hot = Action::Lock {
        keep_bytes: None,
        keep_more: false,
        ranges: vec![4096..8192, 16384..20480],
        together: false,
    };
    let rules = vec![
        rule("table", 10, Action::Cold),
        moved,
        other,
        lost,
        rule("array", 11, hot),
        rule("sum", 15, Action::Nothing),
    ];
    // Rules of one object twice are no plan: each has its own frame.
    let rules = (0..)
        .zip(rules)
        .map(|(number, mut rule)| {
            if let Target::Allocation { path, .. } = &mut rule.target {
                path[0].module_offset = 100 + number;
                path[0].function = Some(("main".to_owned(), 100 + number));
            }
            rule
        })
        .collect();
    write_plan(folder, "plan.toml", rules);
    let found = json(&["plan.toml"], 1);
    assert_eq!(found["schema"], "pagewise.annotate/1");
    let refusals: Vec<String> = found["refusals"]
        .as_array()
        .expect("refusals")
        .iter()
        .map(|refusal| format!("{}:{} {}", refusal["file"], refusal["line"], refusal["why"]))
        .collect();
    for words in [
        ["annotated.c\":10", "cold has no call"],
        ["annotated.c\":13", "nothing on this line allocates"],
        ["annotated.c\":10", "in main, and was in solve"],
        ["lost/elsewhere.c\":null", "--source-root"],
    ] {
        let told = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(refusals.iter().any(told), "no {words:?} in {refusals:#?}");
    }
    assert_eq!(refusals.len(), 4, "{refusals:#?}");
    let diff = found["diff"].as_str().expect("a diff");
    for part in ["4096, 8192", "16384, 20480"] {
        let call = format!("+    pagewise_lock_part(array, words * sizeof *array, {part});\n");
        assert!(diff.contains(&call), "{diff}");
    }
    // The source is never written, whatever -o says.
    run(folder, &["annotate", "--hints", SOURCE, "-f", "-o", SOURCE])
        .expect_refusal(125, &[SOURCE, "name another file with -o"]);
    fs::write(
        folder.join("made.c"),
        "/* Generated by a tool. */\nint x;\n",
    )
    .expect("written");
    fs::write(folder.join("binary.c"), b"\x7fELF\0\0").expect("written");
    let found = json(&["--hints", "made.c", "binary.c", SOURCE], 1);
    assert_eq!(found["refusals"][0]["line"], 1);
    assert_eq!(
        found["refusals"][1]["why"],
        "a binary file, not a source: name a source"
    );
    assert_eq!(found["allocations"].as_array().map(Vec::len), Some(2));
    for (arguments, words) in [
        (
            &["--hints", "gone.c"][..],
            ["cannot read gone.c", "No such file"],
        ),
        (
            &["--hints", "plan.toml"],
            ["plan.toml", "neither C nor C++"],
        ),
        (&[SOURCE], ["is a source", "--hints"]),
        (&["gone.toml"], ["cannot read the plan", "gone.toml"]),
    ] {
        let all: Vec<&str> = ["annotate"].iter().chain(arguments).copied().collect();
        run(folder, &all).expect_refusal(125, &words);
    }
}
