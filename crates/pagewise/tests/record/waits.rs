//! Waiting for memory outside swap-in faults, against what the kernel counted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::command::assert_nothing_lost;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use crate::common::programs::compile_pattern;
use crate::common::programs::folder_with;
use crate::common::within;
use pagewise_trace::EventKind;
use pagewise_trace::StallKind;
use pagewise_trace::Trace;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

const ZRAM: &str = "--memory 32M --swap zram --swap-size 512M";
const FILE: &str = "--memory 32M --swap file --swap-size 512M";

/// The kernel's delay accounting, switched for a test and back again.
struct DelayAccounting {
    before: String,
}

impl DelayAccounting {
    const SETTING: &str = "/proc/sys/kernel/task_delayacct";

    fn switch(to: &str) -> Self {
        let before = fs::read_to_string(Self::SETTING).expect("this kernel has delay accounting");
        fs::write(Self::SETTING, to).expect("switched");
        Self { before }
    }
}

impl Drop for DelayAccounting {
    fn drop(&mut self) {
        let _ = fs::write(Self::SETTING, &self.before);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Records with delay accounting; asserts what holds of every such recording.
fn recorded_with_delays(folder: &Path, options: &str, program: &str) -> Option<Value> {
    let machine = Machine::reserve()?;
    compile_pattern(folder);
    compile(folder, "fill.c");
    let accounting = DelayAccounting::switch("1");
    record(folder, options, program).expect_code(0);
    drop(accounting);
    machine.assert_restored();
    let report = report(folder);
    assert_nothing_lost(&report);
    assert_eq!(report["sensors"]["stalls"], "on");
    assert_eq!(report["sensors"]["delays"], "on");
    let pair = &report["reconciliation"]["reclaims"];
    // A reclaim that tries again with other settings is counted by the kernel twice (mm/vmscan.c, 6.12,
    // do_try_to_free_pages).
    let (recorded, again) = (number(&pair["recorded"]), number(&pair["kernel"]));
    assert!(recorded > 100, "{pair}");
    assert!(
        (recorded..=recorded + recorded / 100 + 1).contains(&again),
        "{pair}"
    );
    // The kernel's account begins later and ends earlier; its clock is another.
    let summary = &report["summary"];
    let ours = number(&summary["reclaim_stall_ns"]) + number(&summary["reclaim_in_fault_ns"]);
    let kernels = number(&summary["delay_freepages_ns"]);
    assert!(kernels > 0 && ours + ours / 100 > kernels, "{summary}");
    Some(report)
}

#[test]
fn reclaims_are_those_that_the_kernel_counts() {
    let folder = tempdir().expect("a folder");
    let Some(report) = recorded_with_delays(folder.path(), ZRAM, "./pattern --passes 2") else {
        return;
    };
    let summary = &report["summary"];
    // Sweeps reclaim in the faults that read, filling in those that do not.
    let inside = number(&summary["reclaim_in_fault_ns"]);
    assert!(inside > 0 && number(&summary["reclaim_stall_ns"]) > 0);
    assert!(inside < number(&summary["stall_ns"]), "{summary}");
    assert!(number(&summary["delay_swapin_ns"]) > 0, "{summary}");
    assert!(summary["psi_scope"].is_string(), "{summary}");
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    for stall in trace.stalls().expect("a table") {
        let stall = stall.expect("a row");
        assert_eq!(stall.kind, StallKind::MemcgReclaim, "{stall:?}");
        assert!(
            stall.space == 1 && stall.tid != 0 && stall.duration_ns > 0,
            "{stall:?}"
        );
    }
}

/// Asserts that the kernel's account is of the same time as what was recorded, of a program that reclaimed before, too.
fn assert_same_reclaims(folder: &Path) {
    let report = report(folder);
    let pair = &report["reconciliation"]["reclaims"];
    let (recorded, kernel) = (number(&pair["recorded"]), number(&pair["kernel"]));
    assert!(recorded > 100, "{pair}");
    // Sensor and account do not begin at the very same moment.
    assert!(kernel.abs_diff(recorded) < recorded / 10, "{pair}");
    let summary = &report["summary"];
    let ours = number(&summary["reclaim_stall_ns"]) + number(&summary["reclaim_in_fault_ns"]);
    let kernels = number(&summary["delay_freepages_ns"]);
    assert!(kernels.abs_diff(ours) < ours / 4, "{summary}");
    let wall = number(&summary["wall_ns"]);
    let pressure = number(&summary["psi_some_ns"]);
    assert!(pressure <= wall + wall / 4, "{summary}");
}

#[test]
fn what_was_waited_before_the_window_opens_is_left_out() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let accounting = DelayAccounting::switch("1");
    let options = format!("{ZRAM} --delay 2 --duration 1");
    let recorder = start(command(
        folder.path(),
        &record_arguments(&options, "./ends 48 0 forever"),
    ));
    let meta = folder.path().join("pagewise.data/meta.json");
    let closed = || fs::read_to_string(&meta).is_ok_and(|text| text.contains("\"closed\""));
    assert!(within(Duration::from_secs(60), closed));
    recorder.signal(Signal::TERM);
    recorder.end();
    drop(accounting);
    machine.assert_restored();
    assert_same_reclaims(folder.path());
}

/// So that its pages will be those of who reads them.
fn write_uncached(path: &Path, bytes: usize) {
    fs::write(path, vec![1; bytes]).expect("written");
    let file = fs::File::open(path).expect("opened");
    file.sync_all().expect("on disk");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
}

#[test]
fn what_a_running_process_waited_before_is_left_out() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    write_uncached(&folder.path().join("file"), 32 << 20);
    let accounting = DelayAccounting::switch("1");
    let mut limited = Limited::create("waits");
    // Each page of the file takes the place of another one.
    limited.limit(8 << 20);
    let words: Vec<&str> = ["cat"].into_iter().chain(["file"; 10_000]).collect();
    let program = limited.start(folder.path(), &words);
    std::thread::sleep(Duration::from_secs(2));
    let pid = program.as_raw_nonzero().to_string();
    let arguments = ["record", "--pid", &pid, "--duration", "1"];
    run(folder.path(), &arguments).expect_code(0);
    limited.end();
    drop(limited);
    drop(accounting);
    machine.assert_restored();
    assert_same_reclaims(folder.path());
}

#[test]
fn filling_memory_reclaims_outside_of_swap_ins_only() {
    let folder = tempdir().expect("a folder");
    let Some(report) = recorded_with_delays(folder.path(), ZRAM, "./fill") else {
        return;
    };
    let summary = &report["summary"];
    assert!(number(&summary["reclaim_stall_ns"]) > 0, "{summary}");
    if summary["swap_ins"] == 0 {
        assert_eq!(summary["reclaim_in_fault_ns"], 0, "{summary}");
    }
}

#[test]
fn writes_to_a_file_have_a_latency() {
    let folder = tempdir().expect("a folder");
    let Some(report) = recorded_with_delays(folder.path(), FILE, "./pattern --passes 1") else {
        return;
    };
    let (written, timed) = writes(folder.path());
    assert_eq!(written, number(&report["summary"]["pages_written"]));
    assert!(written > 1000, "{written}");
    // A slow disk still has some to write when the program ends: as much as waits in its queues.
    assert!((written - timed) * 4 < written, "{timed} of {written}");
    let latency = &report["write_latency"];
    assert!(
        number(&latency["p50_ns"]) <= number(&latency["max_ns"]),
        "{latency}"
    );
}

/// Writes, and of these those with a latency.
fn writes(folder: &Path) -> (u64, u64) {
    let trace = Trace::open(&folder.join("pagewise.data")).expect("opened");
    let (mut written, mut timed) = (0, 0);
    for event in trace.events().expect("a table") {
        let event = event.expect("a row");
        if event.kind == EventKind::PageWritten {
            written += 1;
            timed += u64::from(event.latency_ns.is_some_and(|ns| ns > 0));
        }
    }
    (written, timed)
}

#[test]
fn without_delay_accounting_its_numbers_are_unknown() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "fill.c");
    let accounting = DelayAccounting::switch("0");
    record(folder.path(), ZRAM, "./fill").expect_code(0);
    drop(accounting);
    machine.assert_restored();
    let report = report(folder.path());
    for key in ["delay_swapin_ns", "delay_freepages_ns", "delay_blkio_ns"] {
        assert!(report["summary"][key].is_null(), "{key}");
    }
    assert!(report["reconciliation"]["reclaims"]["kernel"].is_null());
    let state = report["sensors"]["delays"].as_str().expect("a state");
    assert!(state.contains("sysctl kernel.task_delayacct=1"), "{state}");
    assert_eq!(writes(folder.path()).1, 0, "zram is written at once");
}

#[test]
fn without_the_faults_sensor_stalls_are_unknown() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "fill.c");
    record(folder.path(), "--sensors allocations", "./fill").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    assert!(report["summary"]["reclaim_stall_ns"].is_null());
    assert!(report["reconciliation"]["reclaims"]["recorded"].is_null());
    assert_eq!(report["sensors"]["stalls"], "off");
}

/// What others do with the processors is no time of the program's own.
#[test]
fn waits_for_a_processor_between_swap_ins_are_those_that_the_kernel_counts() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("interrupted.c");
    let ran = record(folder.path(), ZRAM, "./interrupted").expect_code(0);
    machine.assert_restored();
    let kernels: u64 = ran.stdout.trim().parse().expect("a number");
    assert!(kernels > 50_000_000, "it was interrupted: {kernels}");
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    let delays = trace.run_delays().expect("a table");
    let delays: Vec<_> = delays.map(|row| row.expect("a row")).collect();
    let tid = delays[0].tid;
    assert!(
        delays.iter().all(|delay| delay.tid == tid),
        "the child waits for no page"
    );
    assert!(delays.iter().all(|delay| delay.duration_ns >= 100_000));
    // Those of the first sweep are in here, too; those within faults are not.
    let ours: u64 = delays.iter().map(|delay| delay.duration_ns).sum();
    assert!(
        ours > kernels / 3 && ours < kernels * 3,
        "{ours} of {kernels}"
    );
}
