//! Programs that need more than they may have: killed, told why, and recorded up to there.

use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use pagewise_host::Restorer;
use pagewise_host::SwapRequest;
use pagewise_host::TemporarySwap;
use tempfile::tempdir;

const KILLED: i32 = 128 + 9;
const SEGMENTATION_FAULT: i32 = 128 + 11;

#[test]
fn a_limit_below_what_cannot_be_swapped_is_told_and_the_trace_kept() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "ends.c");
    let options = "--memory 16M --swap zram --swap-size 256M";
    let ended = record(folder.path(), options, "./ends 32768 1 sparse");
    // On cgroup v1 the kernel's own access to a page of the program (rseq) may be what fails first.
    let (signal, words) = match ended.code {
        Some(SEGMENTATION_FAULT) => (11, "at its limit of 16"),
        _ => (9, "reclaim failed"),
    };
    let told = ended.expect_code(128 + signal);
    told.expect_told(&["limit of 16", words, "larger --memory"]);
    machine.assert_restored();
    let report = report(folder.path());
    assert_eq!(report["exit"]["signal"], signal);
    let reason = report["exit"]["reason"].as_str().expect("a reason");
    assert!(reason.contains(words), "{reason}");
}

#[test]
fn a_limit_below_what_an_exec_needs_ends_it_with_a_word() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    for limit in ["4K", "16K", "64K"] {
        let options = format!("--memory {limit} --swap zram --swap-size 64M");
        let ended = record(folder.path(), &options, "true");
        // Which of them it is depends on where the kernel runs out: 126, execve(2) said so itself; 127, the loader could not read.
        let codes = [126, 127, KILLED, SEGMENTATION_FAULT];
        let code = ended.code.filter(|code| codes.contains(code));
        let code = code.unwrap_or_else(|| panic!("{ended:#?}"));
        ended.expect_code(code).expect_told(&["memory"]);
        machine.assert_restored();
    }
}

#[test]
fn full_swap_is_told_and_the_trace_kept() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "ends.c");
    let killed_with_full_swap = || {
        record(
            folder.path(),
            "--memory 16M --swap zram --swap-size 8M -f",
            "./ends 64 1 code",
        )
        .expect_code(KILLED)
        .expect_told(&["swap is full", "--swap-size"]);
    };
    killed_with_full_swap();
    machine.assert_restored();
    // The machine's own swap is no part of what was asked for.
    let mut restorer = Restorer::without_keeper();
    let request = SwapRequest::Zram { algorithm: None };
    TemporarySwap::set_up(&request, 256 << 20, &mut restorer).expect("swap");
    killed_with_full_swap();
    assert!(restorer.undo_all().is_empty());
    machine.assert_restored();
    let report = report(folder.path());
    assert_eq!(report["complete"], true);
    assert!(
        report["summary"]["evictions"].as_u64() >= Some(1500),
        "{}",
        report["summary"]
    );
}

#[test]
fn no_swap_at_all_is_told_as_such() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "ends.c");
    let killed_without = || {
        record(
            folder.path(),
            "--memory 16M --swap none -f",
            "./ends 64 1 code",
        )
        .expect_code(KILLED)
        .expect_told(&["there is no swap", "--swap auto"]);
    };
    killed_without();
    machine.assert_restored();
    // Also where the machine has some.
    let mut restorer = Restorer::without_keeper();
    let request = SwapRequest::Zram { algorithm: None };
    TemporarySwap::set_up(&request, 256 << 20, &mut restorer).expect("swap");
    killed_without();
    assert!(restorer.undo_all().is_empty());
    machine.assert_restored();
}

#[test]
fn a_child_that_is_killed_by_the_limit_is_told_with_the_programs_own_code() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "ends.c");
    std::fs::write(folder.path().join("script"), "./ends 64 1 code\nexit 5\n").expect("written");
    record(
        folder.path(),
        "--memory 16M --swap zram --swap-size 8M",
        "sh ./script",
    )
    .expect_code(5)
    .expect_told(&["A process of the program was killed", "swap is full"]);
    machine.assert_restored();
}
