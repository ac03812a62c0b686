//! How a recording ends: whatever happens, the code is the program's, the trace is kept, the machine is as before.

use std::fs;
use std::io::pipe;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::common::command::Running;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::folder_with;
use crate::common::within;
use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::TempDir;
use tempfile::tempdir;

const LIMIT: &str = "--memory 16M --swap zram --swap-size 256M";

#[test]
fn a_success_is_a_success_and_standard_output_is_the_programs() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let ended = record(folder.path(), LIMIT, "./ends 24 2 code 0").expect_code(0);
    machine.assert_restored();
    assert_eq!(ended.stdout.lines().count(), 1);
    ended.expect_told(&["see it with: pagewise report"]);
    let report = report(folder.path());
    assert_eq!(report["complete"], true);
    assert_eq!(report["exit"]["code"], 0);
    assert!(
        report["summary"]["swap_ins"].as_u64() > Some(6144),
        "{}",
        report["summary"]
    );
}

#[test]
fn a_program_that_ends_at_once_is_recorded_too() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    record(folder.path(), LIMIT, "true").expect_code(0);
    machine.assert_restored();
    assert_eq!(report(folder.path())["summary"]["swap_ins"], 0);
}

#[test]
fn the_programs_code_is_ours() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    record(folder.path(), LIMIT, "./ends 1 1 code 42").expect_code(42);
    machine.assert_restored();
    assert_eq!(report(folder.path())["exit"]["code"], 42);
}

#[test]
fn a_crash_is_128_and_the_signal() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    for (way, signal) in [("abort", 6), ("segfault", 11)] {
        record(folder.path(), LIMIT, &format!("./ends 24 1 {way}")).expect_code(128 + signal);
        machine.assert_restored();
        let report = report(folder.path());
        assert_eq!(report["exit"]["signal"], signal);
        assert_eq!(report["complete"], true);
    }
}

#[test]
fn a_second_recording_keeps_the_first() {
    let folder = tempdir().expect("a folder");
    for code in ["1", "2", "3"] {
        let script = format!("exit {code}");
        let arguments = ["record", "--sensors", "none", "--", "sh", "-c", &script];
        let ended = crate::common::command::run(folder.path(), &arguments);
        assert_eq!(
            ended.code.map(|code| code.to_string()).as_deref(),
            Some(code)
        );
    }
    let code_in = |name: &str| {
        let ended = crate::common::command::run(folder.path(), &["report", "--json", name]);
        ended.expect_code(0).json()["exit"]["code"].clone()
    };
    assert_eq!(code_in("pagewise.data"), 3);
    assert_eq!(code_in("pagewise.data.old"), 2);
}

/// A recording of a program that never ends by itself, two seconds after its start.
struct Endless {
    folder: TempDir,
    recorder: Running,
    program: Pid,
}

impl Endless {
    fn start(way: &str) -> Self {
        let folder = folder_with("ends.c");
        // The shell is replaced, so that the program is the recorded one.
        let script = format!("exec ./ends 48 0 {way} > pid");
        fs::write(folder.path().join("script"), script).expect("written");
        let arguments = record_arguments(LIMIT, "sh ./script");
        let recorder = start(command(folder.path(), &arguments));
        let mut program = None;
        let pid_file = folder.path().join("pid");
        within(Duration::from_secs(20), || {
            program = fs::read_to_string(&pid_file)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .and_then(Pid::from_raw);
            program.is_some()
        });
        // Long enough for its first flushes.
        sleep(Duration::from_millis(2500));
        Self {
            program: program.expect("the program told its number"),
            folder,
            recorder,
        }
    }
}

fn is_alive(pid: Pid) -> bool {
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn cgroup_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default()
}

fn kill_and_wait(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    assert!(within(Duration::from_secs(10), || !is_alive(pid)));
}

/// What a trace of a storm must hold at least.
fn assert_storm_recorded(folder: &Path) {
    let report = report(folder);
    assert!(
        report["summary"]["swap_ins"].as_u64() > Some(10_000),
        "{}",
        report["summary"]
    );
    let worst = &report["objects"][0];
    assert_eq!(worst["name"], "buffer", "{worst}");
    assert_eq!(worst["function"], "main");
}

#[test]
fn ctrl_c_ends_the_program_and_keeps_the_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let run = Endless::start("forever");
    run.recorder.signal_group(Signal::INT);
    run.recorder
        .end()
        .expect_code(128 + 2)
        .expect_told(&["see it with: pagewise report"]);
    assert!(!is_alive(run.program));
    machine.assert_restored();
    assert_storm_recorded(run.folder.path());
}

#[test]
fn sigterm_to_the_recorder_is_passed_on() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let run = Endless::start("forever");
    run.recorder.signal(Signal::TERM);
    run.recorder
        .end()
        .expect_code(128 + 15)
        .expect_told(&["see it with: pagewise report"]);
    assert!(!is_alive(run.program));
    machine.assert_restored();
    assert_storm_recorded(run.folder.path());
}

#[test]
fn a_program_that_ignores_sigterm_goes_on_without_limit() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let mut run = Endless::start("stubborn");
    run.recorder.signal(Signal::TERM);
    // It holds no pipe of ours open but standard error.
    let code = run.recorder.wait();
    let (alive, cgroup) = (is_alive(run.program), cgroup_of(run.program));
    kill_and_wait(run.program);
    run.recorder.end().expect_told(&["goes on, without limit"]);
    assert_eq!(code, Some(128 + 15));
    assert!(alive);
    assert!(!cgroup.contains("pagewise-"), "{cgroup}");
    machine.assert_restored();
    assert_storm_recorded(run.folder.path());
}

#[test]
fn after_a_kill_of_the_recorder_the_program_lives_and_all_is_as_before() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let mut run = Endless::start("forever");
    // All but its last second is flushed.
    let faults = major_faults(run.program);
    sleep(Duration::from_millis(1300));
    run.recorder.signal(Signal::KILL);
    assert_eq!(run.recorder.wait(), None);
    machine.assert_restored();
    let cgroup = cgroup_of(run.program);
    // Unlimited: it gets all of its memory back.
    let unlimited = within(Duration::from_secs(5), || resident(run.program) > 40 << 20);
    let alive = is_alive(run.program);
    kill_and_wait(run.program);
    assert!(alive && unlimited);
    assert!(!cgroup.contains("pagewise-"), "{cgroup}");
    // `report` completes it, and says so once.
    let first = crate::common::command::run(run.folder.path(), &["report"]).expect_code(0);
    first.expect_told(&["cut short"]);
    assert_storm_recorded(run.folder.path());
    let report = report(run.folder.path());
    assert_eq!(report["complete"], false);
    let recorded = report["summary"]["swap_ins"].as_u64();
    assert!(recorded > Some(faults), "{recorded:?} of {faults}");
}

fn major_faults(pid: Pid) -> u64 {
    let stat = pagewise_host::process::stat(pid.as_raw_nonzero().get().unsigned_abs());
    stat.expect("it lives").major_faults
}

fn resident(pid: Pid) -> u64 {
    let text =
        fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).unwrap_or_default();
    let pages: Option<u64> = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * pagewise_host::page_bytes()
}

#[test]
fn closed_standard_streams_do_no_harm() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let closed =
        "exec \"$0\" record --memory 16M --swap zram -o closed -- ./ends 24 1 code 7 >&- 2>&- <&-";
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", closed])
        .arg(crate::common::install::pagewise())
        .current_dir(folder.path());
    start(shell).end().expect_code(7);
    machine.assert_restored();
    let ended =
        crate::common::command::run(folder.path(), &["report", "--json", "closed"]).expect_code(0);
    assert_eq!(ended.json()["complete"], true);
}

#[test]
fn a_standard_error_that_nobody_reads_does_no_harm() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut command = command(
        folder.path(),
        &record_arguments(LIMIT, "./ends 24 1 code 7"),
    );
    let status = command
        .stdout(Stdio::null())
        .stderr(writer)
        .status()
        .expect("ran");
    assert_eq!(status.code(), Some(7));
    machine.assert_restored();
    assert_eq!(report(folder.path())["complete"], true);
}
