//! What cannot be done is refused with one line, the right code, and nothing changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::command::as_nobody;
use crate::common::command::record;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::folder_with;
use crate::residency::give_capabilities;
use tempfile::tempdir;

/// A file with these contents and permissions.
fn file(path: &Path, contents: &str, mode: u32) {
    fs::write(path, contents).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permitted");
}

#[test]
fn a_command_that_does_not_exist_is_127() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    for name in ["no-such-command-here", "./no-such-file"] {
        record(folder.path(), "--memory 64M", name).expect_refusal(127, &[name]);
    }
    assert!(!folder.path().join("pagewise.data").exists());
    machine.assert_restored();
}

#[test]
fn a_file_that_may_not_be_executed_is_126() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    file(&folder.path().join("plain"), "#!/bin/sh\n", 0o644);
    record(folder.path(), "--memory 64M", "./plain")
        .expect_refusal(126, &["./plain", "cannot be executed"]);
    record(folder.path(), "--memory 64M", "./").expect_refusal(126, &["./", "cannot be executed"]);
    machine.assert_restored();
}

#[test]
fn a_script_without_its_interpreter_is_127_and_the_last_recording_stays() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    file(
        &folder.path().join("script"),
        "#!/no/such/interpreter\n",
        0o755,
    );
    record(folder.path(), "--memory 64M", "true").expect_code(0);
    let meta = fs::read(folder.path().join("pagewise.data/meta.json")).expect("a recording");
    for options in ["", "-o pagewise.data -f"] {
        record(folder.path(), options, "./script")
            .expect_refusal(127, &["./script", "interpreter"]);
        let now = fs::read(folder.path().join("pagewise.data/meta.json"));
        assert_eq!(now.expect("still a recording"), meta, "with {options:?}");
    }
    assert!(!folder.path().join("pagewise.data.old").exists());
    machine.assert_restored();
}

#[test]
fn what_only_exec_refuses_loses_no_older_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    // Neither a program nor a script: only execve(2) finds that out.
    file(&folder.path().join("neither"), "hello\n", 0o755);
    for code in ["1", "2"] {
        let script = format!("exit {code}");
        run(
            folder.path(),
            &["record", "--sensors", "none", "--", "sh", "-c", &script],
        );
    }
    let meta = |name: &str| fs::read(folder.path().join(name).join("meta.json")).expect("there");
    let before = (meta("pagewise.data"), meta("pagewise.data.old"));
    for options in ["", "-o pagewise.data -f"] {
        record(folder.path(), options, "./neither").expect_refusal(126, &["./neither", "sh FILE"]);
        let now = (meta("pagewise.data"), meta("pagewise.data.old"));
        assert_eq!(now, before, "with {options:?}");
    }
    let left = fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, 3, "nothing else is left");
    machine.assert_restored();
}

#[test]
fn what_is_no_size_is_refused_with_examples() {
    let folder = tempdir().expect("a folder");
    for option in ["--memory", "--swap-size", "--peak"] {
        for size in ["", "abc", "-5", "0", "1X", "NaN", "99999999999T"] {
            let ended = run(folder.path(), &["record", option, size, "--", "true"]);
            ended.expect_refusal(
                125,
                &[&format!("{size:?} is not a size"), "for example 512M"],
            );
        }
    }
}

#[test]
fn other_nonsense_on_the_command_line_is_one_line_too() {
    let folder = tempdir().expect("a folder");
    let nonsense: [(&[&str], &str); 6] = [
        (&["recrod"], "recrod"),
        (&["record", "--memory", "64M"], "CMD"),
        (&["record", "--mem", "64M", "--", "true"], "--mem"),
        (
            &["record", "--sensors", "fault", "--", "true"],
            "there are faults, call-paths, allocations, residency and spots",
        ),
        (&["record", "--swap", "disk", "--", "true"], "zram:lz4"),
        (&["report", "--objects", "many"], "many"),
    ];
    for (arguments, word) in nonsense {
        run(folder.path(), arguments).expect_refusal(125, &[word]);
    }
}

#[test]
fn a_percentage_needs_a_peak() {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--memory 60%", "true")
        .expect_refusal(125, &["--peak", "--measure-peak"]);
}

#[test]
fn a_failure_while_the_peak_is_measured_ends_it() {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--memory 60% --measure-peak", "false")
        .expect_code(125)
        .expect_told(&["failed (1)", "--peak SIZE"]);
}

#[test]
fn an_output_that_exists_is_left_alone_without_force() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let output = folder.path().join("mine");
    fs::create_dir(&output).expect("made");
    record(folder.path(), "-o mine", "true").expect_refusal(125, &["mine exists", "-f"]);
    assert_eq!(fs::read_dir(&output).expect("still there").count(), 0);
    machine.assert_restored();
}

#[test]
fn force_does_not_overwrite_what_is_no_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let output = folder.path().join("thesis");
    fs::create_dir(&output).expect("made");
    fs::write(output.join("chapter"), "years of work").expect("written");
    let ended = record(folder.path(), "--memory 64M -f -o thesis", "true");
    ended.expect_refusal(125, &["thesis"]);
    let chapter = fs::read_to_string(output.join("chapter"));
    assert_eq!(chapter.expect("still there"), "years of work");
    machine.assert_restored();
}

#[test]
fn an_output_in_a_missing_folder_is_refused_before_the_program_runs() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let ended = record(folder.path(), "--memory 64M -o missing/trace", "touch ran");
    ended.expect_refusal(125, &["missing"]);
    assert!(!folder.path().join("ran").exists());
    machine.assert_restored();
}

#[test]
fn swap_that_the_kernel_or_a_file_system_refuses_is_told() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let refused = [
        ("file:/proc/x", "/proc"),
        ("file:/no/such/folder/x", "/no/such/folder"),
        ("zram:nosuchalgorithm", "nosuchalgorithm"),
    ];
    for (swap, word) in refused {
        let options = format!("--memory 64M --swap {swap}");
        record(folder.path(), &options, "touch ran").expect_refusal(125, &[word]);
        machine.assert_restored();
    }
    let shared = Path::new("/dev/shm");
    if is_tmpfs(shared) {
        let path = shared.join(format!("pagewise-test-{}", std::process::id()));
        let options = format!(
            "--memory 64M --swap-size 64M --swap file:{}",
            path.display()
        );
        let ended = record(folder.path(), &options, "touch ran");
        ended.expect_refusal(125, &["refused", "tmpfs", "--swap zram"]);
        assert!(!path.exists());
    }
    assert!(!folder.path().join("ran").exists());
    machine.assert_restored();
}

fn is_tmpfs(folder: &Path) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
}

#[test]
fn a_swap_file_that_exists_is_left_alone() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("precious");
    fs::write(&path, "data").expect("written");
    let options = format!("--memory 64M --swap file:{}", path.display());
    record(folder.path(), &options, "true").expect_refusal(125, &["precious", "left alone"]);
    assert_eq!(fs::read_to_string(&path).expect("there"), "data");
    machine.assert_restored();
}

#[test]
fn swap_below_the_kernels_minimum_is_refused() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    record(
        folder.path(),
        "--memory 64M --swap zram --swap-size 4096",
        "true",
    )
    .expect_refusal(125, &["too small"]);
    machine.assert_restored();
}

#[test]
fn without_root_a_limit_is_refused_with_what_to_type() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let swap = ["record", "--memory", "64M", "--", "touch", "ran"];
    start(as_nobody(folder.path(), &swap))
        .end()
        .expect_refusal(125, &["root", "sudo"]);
    let limit = [
        "record", "--memory", "64M", "--swap", "none", "--", "touch", "ran",
    ];
    start(as_nobody(folder.path(), &limit))
        .end()
        .expect_refusal(125, &["cgroup", "sudo"]);
    assert!(!folder.path().join("ran").exists());
    machine.assert_restored();
}

#[test]
fn without_root_processes_of_others_are_refused() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let arguments = ["record", "--sensors", "none", "--pid", "1"];
    start(as_nobody(folder.path(), &arguments))
        .end()
        .expect_refusal(125, &["process 1", "another user", "sudo"]);
    machine.assert_restored();
}

/// Nothing can be preloaded into what runs already.
#[test]
fn without_root_calls_on_files_of_running_processes_are_refused() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let arguments = ["record", "--io", "--sensors", "none", "--pid", "1"];
    start(as_nobody(folder.path(), &arguments))
        .end()
        .expect_refusal(125, &["--io", "needs root", "bpf and perfmon", "sudo"]);
    assert!(!folder.path().join("pagewise.data").exists());
    machine.assert_restored();
}

#[test]
fn without_root_what_is_missing_is_told_and_the_rest_is_recorded() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let all = ["record", "--", "touch", "ran"];
    start(as_nobody(folder.path(), &all))
        .end()
        .expect_code(0)
        .expect_told(&["faults is missing", "root", "setcap cap_bpf,cap_perfmon"]);
    assert!(folder.path().join("ran").exists());
    let report = ["report", "--json"];
    let ended = start(as_nobody(folder.path(), &report)).end();
    let sensors = ended.expect_code(0).json()["sensors"].clone();
    let faults = sensors["faults"].as_str().unwrap_or_default();
    assert!(faults.starts_with("missing: needs root"), "{sensors:#}");
    assert_eq!(sensors["residency"], "on");
    let some = ["record", "--sensors", "allocations", "--", "true"];
    start(as_nobody(folder.path(), &some)).end().expect_code(0);
    let ended = start(as_nobody(folder.path(), &report)).end();
    let sensors = ended.expect_code(0).json()["sensors"].clone();
    assert_eq!(
        (&sensors["faults"], &sensors["residency"]),
        (&"off".into(), &"off".into())
    );
    machine.assert_restored();
}

/// A program that belongs to someone else may not be looked into: told, and no reason to fail.
#[test]
fn without_root_a_set_user_id_program_is_recorded_as_far_as_permitted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let program = folder.path().join("theirs");
    fs::copy("/bin/sleep", &program).expect("copied");
    let set_user_id = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(&program, set_user_id).expect("permitted");
    let theirs = ["record", "--", "./theirs", "0.5"];
    start(as_nobody(folder.path(), &theirs))
        .end()
        .expect_code(0);
    let report = ["report", "--json"];
    let ended = start(as_nobody(folder.path(), &report)).end();
    let losses = ended.expect_code(0).json()["losses"].clone();
    assert_eq!(losses["residency_processes"], 1, "{losses:#}");
    machine.assert_restored();
}

/// The loader does not preload where a file gives more rights than its user has, and says so to nobody.
#[test]
fn a_program_with_file_capabilities_is_told_so() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("odd.c");
    give_capabilities(&folder.path().join("odd"));
    let arguments = ["record", "--sensors", "allocations", "--", "./odd", "plain"];
    start(as_nobody(folder.path(), &arguments))
        .end()
        .expect_code(0);
    let told = report(folder.path())["sensors"]["allocations"].clone();
    let told = told.as_str().expect("a state");
    assert!(told.contains("file capabilities"), "{told}");
    machine.assert_restored();
}

#[test]
fn a_recording_that_no_process_took_part_in_says_so() {
    let folder = folder_with("ends.c");
    // It misses its arguments, and ends before it allocates.
    record(folder.path(), "--sensors allocations", "./ends").expect_code(2);
    let told = report(folder.path())["sensors"]["allocations"].clone();
    let told = told.as_str().expect("a state");
    assert!(told.contains("no process asked for a ring"), "{told}");
}
