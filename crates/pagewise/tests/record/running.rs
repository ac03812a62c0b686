//! Recording what runs already: by process or by cgroup, its children included; it goes on afterwards.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::command::Running;
use crate::common::command::assert_nothing_lost;
use crate::common::command::command;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::programs::folder_with;
use crate::common::within;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

const SWAP: [&str; 5] = ["record", "--swap", "zram", "--swap-size", "256M"];
const LIMIT: u64 = 16 << 20;

fn recorder(folder: &Path, arguments: &[&str]) -> Running {
    let arguments: Vec<&str> = SWAP.iter().chain(arguments).copied().collect();
    start(command(folder, &arguments))
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// Waits until the recording has its folder: the sensors are then attached.
fn wait_until_recording(folder: &Path) {
    let journal = folder.join("pagewise.data/journal");
    assert!(within(Duration::from_secs(30), || journal.exists()));
}

/// Waits until so many pages of that process have come back from swap.
fn wait_for_storm(pid: Pid, faults: u64) {
    let majors = || pagewise_host::process::stat(number(pid)).map(|stat| stat.major_faults);
    assert!(within(Duration::from_secs(40), || majors() > Some(faults)));
}

fn spaces(folder: &Path) -> Vec<Space> {
    let trace = Trace::open(&folder.join("pagewise.data")).expect("a trace");
    trace.spaces().expect("spaces")
}

fn assert_storm(report: &Value) {
    assert!(
        report["summary"]["swap_ins"].as_u64() > Some(3000),
        "{report}"
    );
    let worst = &report["objects"][0];
    let name = worst["name"].as_str().expect("a name");
    assert!(name.starts_with("[anonymous "), "{worst}");
    let allocations = report["sensors"]["allocations"].as_str();
    assert!(
        allocations.is_some_and(|state| state.starts_with("missing: running processes")),
        "{}",
        report["sensors"]
    );
    assert_nothing_lost(report);
}

#[test]
fn a_running_process_is_recorded_and_goes_on() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let mut limited = Limited::create("pid");
    let program = limited.run(folder.path(), "./ends 24 0 forever");
    let pid = number(program).to_string();
    let recorder = recorder(folder.path(), &["--pid", &pid]);
    wait_until_recording(folder.path());
    limited.limit(LIMIT);
    wait_for_storm(program, 5000);
    // The swap that is switched off now must fit into memory again.
    limited.unlimit();
    recorder.signal(Signal::INT);
    let ended = recorder.end().expect_code(0);
    ended.expect_told(&["see it with: pagewise report"]);
    assert!(pagewise_host::process::is_alive(number(program)));
    limited.end();
    machine.assert_restored();
    let report = report(folder.path());
    assert_storm(&report);
    assert_eq!(report["complete"], true);
    assert_eq!(report["exit"]["code"], Value::Null);
    // Every major fault since was seen, but for those in flight at the end.
    let summary = &report["summary"];
    let unseen = summary["faults_without_exception"].as_u64();
    assert!(unseen <= Some(16), "{summary}");
}

#[test]
fn children_that_are_there_and_those_to_come_belong_to_it() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let mut limited = Limited::create("family");
    let script = "./ends 1 0 forever >first & while [ ! -e go ]; do sleep 0.05; done; ./ends 1 1 code >second; \
                  sh -c 'exec ./ends 1 1 code' >third; touch done; wait";
    let parent = limited.start(folder.path(), &["sh", "-c", script]);
    let child = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        text.trim().parse::<u32>().ok()
    };
    assert!(within(Duration::from_secs(10), || child("first").is_some()));
    let pid = number(parent).to_string();
    let recorder = recorder(folder.path(), &["--pid", &pid]);
    wait_until_recording(folder.path());
    std::fs::write(folder.path().join("go"), "").expect("written");
    let done = folder.path().join("done");
    assert!(within(Duration::from_secs(20), || done.exists()));
    // Those that were named are gone; one of the family is not: the recording goes on until it is.
    let first = child("first").and_then(|pid| Pid::from_raw(pid as i32));
    rustix::process::kill_process(first.expect("its number"), Signal::KILL).expect("killed");
    recorder.end().expect_code(0);
    limited.end();
    machine.assert_restored();
    let recorded: BTreeSet<u32> = spaces(folder.path()).iter().map(|row| row.pid).collect();
    for process in [
        Some(number(parent)),
        child("first"),
        child("second"),
        child("third"),
    ] {
        let process = process.expect("its number");
        assert!(recorded.contains(&process), "{process} in {recorded:?}");
    }
    let exec = spaces(folder.path());
    let third = exec.iter().filter(|row| Some(row.pid) == child("third"));
    assert_eq!(third.count(), 2, "before and after its exec: {exec:?}");
}

#[test]
fn a_cgroup_is_recorded_with_those_that_join_it() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let mut limited = Limited::create("group");
    let first = limited.run(folder.path(), "./ends 24 0 forever");
    let name = limited
        .cgroup
        .path()
        .file_name()
        .expect("a name")
        .to_owned();
    let name = name.to_str().expect("text");
    let recorder = recorder(folder.path(), &["--cgroup", name]);
    wait_until_recording(folder.path());
    // Before there is a limit: v1's reclaim may kill who joins a cgroup that is full.
    let second = limited.run(folder.path(), "./ends 1 0 forever");
    limited.limit(LIMIT);
    wait_for_storm(first, 5000);
    let trace = folder.path().join("pagewise.data");
    let joined = || {
        let rows = Trace::open(&trace).and_then(|trace| trace.spaces());
        rows.is_ok_and(|rows| rows.iter().any(|row| row.pid == number(second)))
    };
    assert!(within(Duration::from_secs(10), joined));
    limited.unlimit();
    recorder.signal(Signal::TERM);
    recorder.end().expect_code(0);
    limited.end();
    machine.assert_restored();
    assert_storm(&report(folder.path()));
    let recorded: BTreeSet<u32> = spaces(folder.path()).iter().map(|row| row.pid).collect();
    assert_eq!(recorded, BTreeSet::from([number(first), number(second)]));
}

#[test]
fn after_a_kill_of_the_recorder_the_process_lives_and_the_trace_is_readable() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let mut limited = Limited::create("killed");
    let program = limited.run(folder.path(), "./ends 24 0 forever");
    let pid = number(program).to_string();
    let mut recorder = recorder(folder.path(), &["--pid", &pid]);
    wait_until_recording(folder.path());
    limited.limit(LIMIT);
    wait_for_storm(program, 5000);
    // All but its last second is flushed.
    std::thread::sleep(Duration::from_millis(2300));
    limited.unlimit();
    recorder.signal(Signal::KILL);
    assert_eq!(recorder.wait(), None);
    let alive = pagewise_host::process::is_alive(number(program));
    machine.assert_restored();
    limited.end();
    assert!(alive);
    let report = report(folder.path());
    assert_storm(&report);
    assert_eq!(report["complete"], false);
    assert!(
        report["summary"]["wall_ns"].as_u64() > Some(1_000_000_000),
        "{}",
        report["summary"]
    );
}

#[test]
fn a_process_that_ends_at_once_ends_the_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let mut sleeper = Command::new("sh")
        .args([
            "-c",
            "while [ ! -e pagewise.data/journal ]; do sleep 0.05; done",
        ])
        .current_dir(folder.path())
        .spawn()
        .expect("a shell");
    let pid = sleeper.id().to_string();
    let recorder = start(command(folder.path(), &["record", "--pid", &pid]));
    // Its zombie does not count as alive.
    recorder.end().expect_code(0);
    sleeper.wait().expect("waited");
    machine.assert_restored();
    assert_eq!(report(folder.path())["summary"]["swap_ins"], 0);
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let mut zombie = Command::new("true").spawn().expect("true");
    let zombie_pid = zombie.id();
    let is_zombie =
        || pagewise_host::process::stat(zombie_pid).is_some_and(|stat| stat.state == 'Z');
    assert!(within(Duration::from_secs(5), is_zombie));
    let zombie_pid = zombie_pid.to_string();
    let ours = std::process::id().to_string();
    let with_ours = format!("{ours},4194303");
    let empty = Limited::create("empty");
    let empty_name = empty.cgroup.path().display().to_string();
    let refused: [(&[&str], &[&str]); 12] = [
        (&["--pid", "4194303"], &["4194303", "no such process"]),
        (&["--pid", "0"], &["no such process"]),
        (&["--pid", "-5"], &["-5"]),
        (&["--pid", "redis"], &["redis", "invalid"]),
        (&["--pid", "4294967296"], &["4294967296"]),
        (&["--pid", &zombie_pid], &[&zombie_pid, "zombie"]),
        (&["--pid", &with_ours], &["4194303"]),
        (
            &["--pid", &ours, "--memory", "64M"],
            &["--memory", "record --memory SIZE -- CMD"],
        ),
        (&["--pid", &ours, "--", "true"], &["--pid"]),
        (
            &["--cgroup", "no-such.service"],
            &["no-such.service", "systemd-cgls"],
        ),
        (
            &["--cgroup", &empty_name],
            &["no process runs in", &empty_name],
        ),
        (&["--cgroup", "../.."], &["names no cgroup"]),
    ];
    for (arguments, words) in refused {
        let arguments: Vec<&str> = ["record"].iter().chain(arguments).copied().collect();
        run(folder.path(), &arguments).expect_refusal(125, words);
    }
    if pagewise_host::process::comm(2).as_deref() == Some("kthreadd") {
        run(folder.path(), &["record", "--pid", "2"])
            .expect_refusal(125, &["a thread of the kernel"]);
    }
    zombie.wait().expect("waited");
    drop(empty);
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    machine.assert_restored();
}
