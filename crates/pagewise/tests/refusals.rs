//! What cannot be done is refused with one line, the right code, and nothing changed.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::command::command;
use common::command::record;
use common::command::run;
use common::command::start;
use common::install::pagewise;
use common::machine::Machine;
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
            "there are faults and allocations",
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

/// The command run by nobody, in a folder of nobody's. The executable must be within reach of nobody, so it is copied.
fn as_nobody(folder: &Path, arguments: &[&str]) -> Command {
    for name in ["pagewise", "libpagewise_runtime.so"] {
        let from = pagewise().with_file_name(name);
        fs::copy(from, folder.join(name)).expect("copied");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("permitted");
    let ours = command(folder, arguments);
    let mut theirs = Command::new("setpriv");
    theirs
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(folder.join("pagewise"))
        .args(ours.get_args())
        .current_dir(folder);
    for (name, _) in ours.get_envs().filter(|(_, value)| value.is_none()) {
        theirs.env_remove(name);
    }
    theirs
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
fn without_root_the_faults_sensor_is_refused_and_allocations_work() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let all = ["record", "--", "touch", "ran"];
    start(as_nobody(folder.path(), &all))
        .end()
        .expect_refusal(125, &["root"]);
    assert!(!folder.path().join("ran").exists());
    let some = ["record", "--sensors", "allocations", "--", "touch", "ran"];
    start(as_nobody(folder.path(), &some)).end().expect_code(0);
    assert!(folder.path().join("ran").exists());
    let ended = start(as_nobody(folder.path(), &["report", "--json"]))
        .end()
        .expect_code(0);
    assert_eq!(ended.json()["sensors"]["faults"], "off");
    machine.assert_restored();
}
