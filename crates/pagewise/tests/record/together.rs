//! Beside others: a second recorder, swap that is on already, limits that are set already, and the user who called sudo.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::install::pagewise;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::programs::folder_with;
use pagewise_host::LimitKind;
use pagewise_host::Restorer;
use pagewise_host::SwapRequest;
use pagewise_host::TemporarySwap;
use tempfile::tempdir;

const LIMIT: &str = "--memory 16M --swap zram --swap-size 256M";

#[test]
fn two_recorders_at_once_both_record_and_clean_up() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folders = [folder_with("ends.c"), folder_with("ends.c")];
    let both = folders.each_ref().map(|folder| {
        start(command(
            folder.path(),
            &record_arguments(LIMIT, "./ends 24 10 code 3"),
        ))
    });
    for recorder in both {
        recorder.end().expect_code(3);
    }
    machine.assert_restored();
    for folder in &folders {
        let report = report(folder.path());
        let worst = &report["objects"][0];
        assert_eq!(worst["name"], "buffer", "{worst}");
        // Its own faults, and none of the other's.
        let summary = &report["summary"];
        assert!(summary["swap_ins"].as_u64() >= Some(9 * 6144), "{summary}");
        assert!(summary["swap_ins"].as_u64() < Some(14 * 6144), "{summary}");
    }
}

#[test]
fn a_second_recorder_in_the_same_folder_says_why_not() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let first = start(command(
        folder.path(),
        &record_arguments("--sensors none", "sleep 60"),
    ));
    let journal = folder.path().join("pagewise.data/journal");
    assert!(crate::common::within(
        std::time::Duration::from_secs(20),
        || { journal.exists() }
    ));
    record(folder.path(), "--sensors none", "touch ran")
        .expect_refusal(125, &["pagewise.data", "still being recorded"]);
    assert!(!folder.path().join("ran").exists());
    first.signal(rustix::process::Signal::TERM);
    first.end().expect_code(128 + 15);
    machine.assert_restored();
    assert_eq!(report(folder.path())["exit"]["signal"], 15);
}

#[test]
fn swap_that_is_on_already_is_used_and_left_on() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let mut restorer = Restorer::without_keeper();
    let request = SwapRequest::Zram { algorithm: None };
    TemporarySwap::set_up(&request, 256 << 20, &mut restorer).expect("swap");
    let before = fs::read_to_string("/proc/swaps")
        .expect("text")
        .lines()
        .count();
    for swap in ["existing", "auto --swap-size 64M", "zram --swap-size 256M"] {
        let options = format!(
            "--memory 16M --swap {swap} -f -o {}",
            swap.split(' ').next().unwrap_or(swap)
        );
        record(folder.path(), &options, "./ends 24 2 code 0").expect_code(0);
        let name = swap.split(' ').next().unwrap_or(swap);
        let report = run(folder.path(), &["report", "--json", name])
            .expect_code(0)
            .json();
        assert!(
            report["summary"]["swap_ins"].as_u64() >= Some(2 * 6144),
            "{swap}: {report}"
        );
        let now = fs::read_to_string("/proc/swaps")
            .expect("text")
            .lines()
            .count();
        assert_eq!(now, before, "{swap}");
    }
    assert!(restorer.undo_all().is_empty());
    machine.assert_restored();
}

#[test]
fn a_lower_limit_around_is_told_and_counts() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let outer = Limited::create("outer");
    // Generous to the recorder itself, which is in it too.
    outer
        .cgroup
        .set_limit(96 << 20, LimitKind::Max)
        .expect("limited");
    let inside = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        let procs = outer.cgroup.path().join("cgroup.procs");
        shell
            .args(["-c", "echo $$ > \"$0\"; exec \"$@\""])
            .arg(procs)
            .arg(pagewise())
            .args(arguments)
            .current_dir(folder.path());
        start(shell).end()
    };
    let arguments = record_arguments(
        "--memory 512M --swap zram --swap-size 256M",
        "./ends 1 1 code 0",
    );
    inside(&arguments).expect_code(0).expect_told(&[
        "has a limit of 96 MiB",
        "512 MiB",
        "that counts",
    ]);
    assert_eq!(report(folder.path())["summary"]["limit_bytes"], 96 << 20);
    // Without a limit of our own, the one that is there is told all the same.
    let arguments = record_arguments("--sensors none", "./ends 1 1 code 0");
    inside(&arguments).expect_code(0);
    assert_eq!(report(folder.path())["summary"]["limit_bytes"], 96 << 20);
    drop(outer);
    machine.assert_restored();
}

#[test]
fn under_sudo_the_program_and_the_trace_are_the_callers() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let arguments = [
        "record",
        "--sensors",
        "none",
        "--",
        "sh",
        "-c",
        "id -u; id -g; id -G; echo $HOME $USER $LOGNAME",
    ];
    let mut ours = command(folder.path(), &arguments);
    ours.env("SUDO_UID", "65534")
        .env("SUDO_GID", "65534")
        .env("HOME", "/root");
    let ended = start(ours).end().expect_code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let home = fs::read_to_string("/etc/passwd").expect("text");
    let home = home.lines().find_map(|line| line.strip_prefix("nobody:"));
    let home = home
        .and_then(|line| line.split(':').nth(4))
        .expect("nobody");
    assert_eq!(
        lines,
        ["65534", "65534", "65534", &format!("{home} nobody nobody")]
    );
    let trace = folder.path().join("pagewise.data");
    let files = fs::read_dir(&trace).expect("a trace").flatten();
    for path in files.map(|entry| entry.path()).chain([trace.clone()]) {
        assert_eq!(fs::metadata(&path).expect("data").uid(), 65534, "{path:?}");
    }
    machine.assert_restored();
}
