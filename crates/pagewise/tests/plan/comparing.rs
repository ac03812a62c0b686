//! What runs with and without a plan say: nothing of runs that were not the same work, or had no plan in force.

use std::fs;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::command::Ended;
use crate::common::command::command;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::plans::call_in;
use crate::common::plans::write_plan;
use crate::common::programs::compile;
use crate::common::within;
use pagewise_plan::Action;
use pagewise_plan::ModuleFile;
use pagewise_plan::ReadAhead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use rustix::process::Signal;
use tempfile::TempDir;
use tempfile::tempdir;

const LIMIT: &str = "--memory 64M --swap zram --swap-size 128M --no-unlimited";

const LOCK: Action = Action::Lock {
    keep_bytes: None,
    keep_more: false,
    ranges: Vec::new(),
    together: false,
};

/// The program in a folder, with a plan that keeps what it allocates at one place.
fn planned() -> TempDir {
    planned_to(LOCK)
}

/// With a plan that does this to what it allocates at one place.
fn planned_to(action: Action) -> TempDir {
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "planned.c");
    let path = folder.path().join("planned");
    let file = ModuleFile::read(&path).expect("an ELF file");
    let rule = Rule {
        objects: None,
        name: "of make".to_owned(),
        place: SourcePlace::default(),
        target: Target::allocation(vec![call_in(&file, "make")]),
        action,
        why: "a test".to_owned(),
        predicted: None,
    };
    write_plan(&path, vec![rule]);
    folder
}

fn arguments<'text>(options: &'text str, program: &[&'text str]) -> Vec<&'text str> {
    let mut arguments = vec!["compare", "plan.toml", "--json"];
    arguments.extend(options.split_whitespace());
    arguments.push("--");
    arguments.extend(program);
    arguments
}

fn compare(folder: &Path, options: &str, program: &[&str]) -> Ended {
    run(folder, &arguments(&format!("{LIMIT} {options}"), program))
}

/// Its code is that of success.
fn run_with_input(folder: &Path, arguments: &[&str], input: Stdio) -> String {
    let output = command(folder, arguments).stdin(input).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn each_run_reads_the_whole_input() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let path = |name| folder.path().join(name);
    fs::write(path("input"), "0123456789").expect("written");
    let program = ["sh", "-c", "cat >> seen"];
    let seen = || {
        let text = fs::read_to_string(path("seen")).unwrap_or_default();
        let _ = fs::remove_file(path("seen"));
        text.len() / "0123456789".len()
    };
    let input = || Stdio::from(File::open(path("input")).expect("there"));

    let options = format!("{LIMIT} --runs 1 --warm-up 1 --latencies");
    run_with_input(folder.path(), &arguments(&options, &program), input());
    assert_eq!(seen(), 2 * 2 + 2);
    // From a pipe only one could have it.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(writer);
    let options = format!("{LIMIT} --runs 1 --warm-up 0");
    let said = run_with_input(
        folder.path(),
        &arguments(&options, &program),
        Stdio::from(reader),
    );
    assert!(said.contains("the runs get none"), "{said}");

    let mut record = vec!["record", "--measure-peak", "--sensors", "allocations", "--"];
    record.extend(program);
    run_with_input(folder.path(), &record, input());
    assert_eq!(seen(), 2);
    machine.assert_restored();
}

#[test]
fn what_cannot_be_done_after_the_runs_is_refused_before_them() {
    let folder = planned();
    let program = ["sh", "-c", "echo ran >> ran"];
    compare(folder.path(), "--html no/page.html", &program)
        .expect_refusal(125, &["cannot write no/page.html", "mkdir -p no", "--html"]);
    compare(folder.path(), "--html no/", &program)
        .expect_refusal(125, &["no/ names a folder", "name a file with --html"]);
    compare(folder.path(), "--html planned/page.html", &program)
        .expect_refusal(125, &["planned is a file", "--html"]);
    let mut words = arguments(LIMIT, &program);
    words.splice(2..2, ["--victim", " "]);
    run(folder.path(), &words).expect_refusal(125, &["--victim is empty", "--victim 'probe"]);
    assert!(!folder.path().join("ran").exists());
}

/// A program that ends at once, but for the run of this number, which never does.
fn endless_in_run(number: u32) -> String {
    format!(
        "echo ran >> runs; [ $(wc -l < runs) -lt {number} ] || {{ touch endless; exec sleep 1000; }}"
    )
}

/// Ctrl-C in the run of this number, the first of which is that of a round.
fn interrupted_in_run(folder: &Path, number: u32) -> Ended {
    let script = endless_in_run(number);
    let options = format!("{LIMIT} --runs 3 --warm-up 0");
    let running = start(command(
        folder,
        &arguments(&options, &["sh", "-c", &script]),
    ));
    let endless = folder.join("endless");
    assert!(within(Duration::from_secs(60), || endless.exists()));
    running.signal_group(Signal::INT);
    running.end().expect_code(125)
}

#[test]
fn ctrl_c_leaves_the_rounds_that_are_whole() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let ended = interrupted_in_run(folder.path(), 4)
        .expect_told(&["interrupted", "only rounds that were complete"]);
    let json = ended.json();
    for arm in json["sizes"][0]["arms"].as_array().expect("arms") {
        assert_eq!(arm["wall_ns"].as_array().map(Vec::len), Some(1), "{arm}");
    }
    machine.assert_restored();

    let folder = planned();
    let ended =
        interrupted_in_run(folder.path(), 1).expect_told(&["interrupted: nothing was compared"]);
    assert_eq!(ended.stdout, "");
    machine.assert_restored();
}

#[test]
fn a_plan_that_matches_nothing_gets_no_verdict() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let options = "--runs 2 --warm-up 0";
    let ended = compare(folder.path(), options, &["sh", "-c", "echo hello"]).expect_code(0);
    let ended = ended.expect_told(&["the plan was made for", "planned"]);
    let compared = ended.json();
    assert_eq!(compared["verdict"], "unknown", "{compared:#}");
    assert_eq!(compared["plan"]["did_something"], false);
    let lines = compared["plan"]["lines"].to_string();
    assert!(lines.contains("0 of 1 rules matched"), "{lines}");
    let ended = compare(folder.path(), options, &["./planned", "plain"]);
    let compared = ended.json();
    assert_eq!(compared["plan"]["did_something"], true, "{compared:#}");
    machine.assert_restored();
}

#[test]
fn rounds_that_were_complete_are_told_though_a_later_run_fails() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    // Its third run, the first of the second round, is the last that there can be.
    let script =
        "#!/bin/sh\necho run >> runs\n[ $(wc -l < runs) -lt 3 ] || rm \"$0\"\n./planned plain\n";
    let path = folder.path().join("script");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ended = compare(folder.path(), "--runs 3 --warm-up 0", &["./script"]).expect_code(125);
    let ended = ended.expect_told(&["only rounds that were complete"]);
    let compared = ended.json();
    assert_eq!(compared["verdict"], "unknown", "{compared:#}");
    for arm in compared["arms"].as_array().expect("arms") {
        assert_eq!(arm["wall_ns"].as_array().map(Vec::len), Some(1), "{arm:#}");
    }
    // Without one there is nothing to tell.
    let ended = compare(folder.path(), "--runs 3 --warm-up 0", &["./script"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    machine.assert_restored();
}

/// Slower or failing with a plan: those it knows by the variable that a plan comes with.
fn with_plan(then: &str) -> String {
    format!("if [ -n \"$PAGEWISE_PLAN\" ]; then {then}; fi; ./planned plain")
}

#[test]
fn verdicts_against_the_plan_are_the_exit_code() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    for (then, verdict) in [("exit 3", "fails"), ("sleep 2", "slower")] {
        let script = with_plan(then);
        let program = ["sh", "-c", &script];
        let ended = compare(folder.path(), "--runs 3 --warm-up 0", &program).expect_code(1);
        let compared = ended.json();
        assert_eq!(compared["verdict"], verdict, "{compared:#}");
    }
    machine.assert_restored();
}

#[test]
fn another_output_is_told_and_warm_up_runs_do_not_count() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let script = with_plan("echo other");
    let options = "--runs 2 --warm-up 2 --arms mlock";
    let ended = compare(folder.path(), options, &["sh", "-c", &script]);
    let compared = ended.json();
    assert_eq!(compared["output_identical"], false, "{compared:#}");
    let arms = compared["arms"].as_array().expect("arms");
    assert_eq!(arms.len(), 3);
    for arm in arms {
        assert_eq!(arm["wall_ns"].as_array().map(Vec::len), Some(2), "{arm:#}");
    }
    // The plan is nothing but a lock.
    assert_eq!(arms[2]["same_as"], "plan");
    let warm_up = ended.stderr.lines().filter(|line| line.contains("warm-up"));
    assert_eq!(warm_up.count(), 2, "{ended:#?}");
    machine.assert_restored();
}

/// More than fits is written, and zram holds what does not.
#[test]
fn madvise_is_an_arm_of_its_own_and_what_zram_holds_is_memory_too() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned_to(Action::Stream {
        keep_bytes: None,
        keep_more: false,
        ahead: ReadAhead::default(),
    });
    let options = "compare plan.toml --json --memory 40M --swap zram --swap-size 512M --no-unlimited --runs 1 --warm-up 0 --arms madvise -- ./planned sweep";
    let arguments: Vec<&str> = options.split(' ').collect();
    let compared = run(folder.path(), &arguments).json();
    let arms = compared["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().filter_map(|arm| arm["name"].as_str()).collect();
    assert_eq!(names, ["baseline", "plan", "madvise"]);
    // It advises what the plan locks.
    assert!(arms[2]["same_as"].is_null(), "{compared:#}");
    for arm in arms {
        let held = arm["memory_bytes"][0].as_u64().expect("a number");
        assert!(held > 44 << 20, "{arm:#}: more than the limit");
        assert_eq!(arm["exit_codes"][0], 0, "{arm:#}");
    }
    machine.assert_restored();
}

#[test]
fn several_sizes_are_compared_one_after_the_other() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let options = "compare plan.toml --json --memory 25%,32M --peak 256M --swap zram --swap-size 128M --runs 1 --warm-up 0 -- ./planned plain";
    let arguments: Vec<&str> = options.split(' ').collect();
    let compared = run(folder.path(), &arguments).json();
    let sizes = compared["sizes"].as_array().expect("sizes");
    let bytes: Vec<Option<u64>> = sizes
        .iter()
        .map(|size| size["memory_bytes"].as_u64())
        .collect();
    assert_eq!(bytes, [Some(64 << 20), Some(32 << 20)]);
    assert!(
        compared["mean_speedups"]["unlimited"].is_number(),
        "{compared:#}"
    );
    machine.assert_restored();
}

const KILLING: &str = "--swap zram --swap-size 16M --no-unlimited --runs 2 --warm-up 0";

#[test]
fn a_plan_with_which_the_limit_kills_the_program_fails() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    // With the plan it takes more than limit and swap have.
    let script =
        "if [ -n \"$PAGEWISE_PLAN\" ]; then exec ./planned sweep; fi; exec ./planned plain";
    let options = format!("{KILLING} --memory 32M");
    let program = ["sh", "-c", script];
    let ended = run(folder.path(), &arguments(&options, &program)).expect_code(1);
    let compared = ended.json();
    assert_eq!(compared["verdict"], "fails", "{compared:#}");
    let arms = &compared["arms"];
    assert_eq!(
        (&arms[0]["killed"], &arms[1]["killed"]),
        (&0.into(), &6.into())
    );
    assert!(arms[0]["cannot_run"].is_null(), "{compared:#}");
    let why = arms[1]["cannot_run"].as_str().expect("why");
    assert!(why.contains("6 times in a row"), "{why}");
    machine.assert_restored();
}

#[test]
fn a_size_in_which_nothing_runs_does_not_cost_the_others() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    let options = format!("{KILLING} --memory 32M,256M");
    let program = ["./planned", "sweep"];
    let ended = run(folder.path(), &arguments(&options, &program));
    let compared = ended.json();
    let sizes = compared["sizes"].as_array().expect("sizes");
    assert_eq!(sizes[0]["verdict"], "unknown", "{compared:#}");
    let words = sizes[0]["words"].as_str().expect("words");
    assert!(words.contains("cannot run in so little memory"), "{words}");
    assert!(sizes[1]["speedup"].is_number(), "{compared:#}");
    // Of nothing there is no result.
    let options = format!("{KILLING} --memory 32M");
    run(folder.path(), &arguments(&options, &program))
        .expect_code(125)
        .expect_told(&["nothing could be compared", "--memory"]);
    machine.assert_restored();
}

#[test]
fn runs_that_the_limit_kills_are_done_again_and_counted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = planned();
    // The first run takes more than limit and swap have.
    let script = "[ -e again ] && exec ./planned plain; touch again; exec ./planned sweep";
    let arguments = "compare plan.toml --json --memory 32M --swap zram --swap-size 16M --no-unlimited --runs 1 --warm-up 0 -- sh -c";
    let mut arguments: Vec<&str> = arguments.split(' ').collect();
    arguments.push(script);
    let compared = run(folder.path(), &arguments).json();
    assert_eq!(compared["arms"][0]["killed"], 1, "{compared:#}");
    assert_eq!(compared["arms"][0]["exit_codes"][0], 0, "{compared:#}");
    machine.assert_restored();
}
