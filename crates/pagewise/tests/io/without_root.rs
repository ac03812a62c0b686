//! Calls on files recorded without root: the same rows as with it, less what only the kernel knows, which is unknown and not zero.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::Ended;
use crate::common::command::as_nobody;
use crate::common::command::record_all_paths;
use crate::common::command::record_arguments;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::compile_example;
use crate::common::programs::compile_with;
use crate::common::programs::folder_with;
use pagewise_trace::IoCall;
use pagewise_trace::Trace;
use serde_json::Value;
use tempfile::tempdir;

use super::hints::number;
use super::pools::readers;
use super::recording::BLOCK;
use super::recording::Recorded;
use super::recording::Told;
use super::recording::context;

const BLOCKS: u64 = 64;

/// Runs the command as nobody.
fn run(folder: &Path, arguments: &[&str]) -> Ended {
    start(as_nobody(folder, arguments)).end().expect_code(0)
}

/// What nobody records of a program, and what its report says.
fn recorded(folder: &Path, options: &str, program: &str) -> (Ended, Value) {
    let options = format!("{options} -f -o pagewise.data");
    let ended = run(folder, &record_arguments(&options, program));
    let report = run(folder, &["report", "--json"]).json();
    (ended, report)
}

fn assert_all_told(report: &Value) {
    let losses = &report["losses"];
    for place in ["io_calls", "call_paths", "malformed_allocation_records"] {
        assert_eq!(losses[place], 0, "{losses:#}");
    }
}

/// All calls, and the functions that made them.
fn calls(recorded: &Recorded) -> impl Iterator<Item = (&String, &IoCall)> {
    let of = |(function, calls)| {
        let calls: &Vec<IoCall> = calls;
        calls.iter().map(move |call| (function, call))
    };
    recorded.calls.iter().flat_map(of)
}

/// Of calls that fail, the place is nobody's.
fn told_without_place(mut calls: Vec<Told>, function: &str) -> Vec<Told> {
    if function == "fails" {
        calls.iter_mut().for_each(|call| call.2 = None);
    }
    calls
}

/// Numbers that the program wrote, for reads of it by blocks.
fn write_data(folder: &Path) {
    let line = [b'1'; 63].iter().chain(b"\n").copied();
    let lines: Vec<u8> = line.cycle().take((BLOCKS * BLOCK) as usize).collect();
    fs::write(folder.join("data"), lines).expect("written");
}

fn folder_of_told() -> tempfile::TempDir {
    let folder = folder_with("told.c");
    write_data(folder.path());
    folder
}

#[test]
fn calls_are_told_as_with_root_and_the_page_cache_is_unknown() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("files.c");
    let (_, as_root) = record_all_paths(folder.path(), "--io --sensors none", "./files .", || {});
    let with_root = Recorded::read(folder.path(), "/files");
    fs::remove_dir_all(folder.path().join("pagewise.data")).expect("removed");
    for name in ["data", "copy", "log"] {
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
    let (ended, report) = recorded(folder.path(), "--io --sensors none", "./files .");
    machine.assert_restored();
    ended.expect_told(&["the sensor io is in part", "sendfile", "sudo", "setcap"]);
    assert_all_told(&report);
    let told = Recorded::read(folder.path(), "/files");
    for function in [
        "write_all",
        "read_in_order",
        "read_anywhere",
        "vectors",
        "append",
        "traced",
        "fails",
        "in_memory",
        "without_a_name",
        "past_the_cache",
        "not_files",
    ] {
        let expected = told_without_place(with_root.of(function), function);
        let found = told_without_place(told.of(function), function);
        assert_eq!(found, expected, "{function}");
        if !told.of(function).is_empty() {
            let names = |recorded: &Recorded| recorded.name_of_file(function).to_owned();
            assert_eq!(names(&told), names(&with_root), "{function}");
            let facts = |recorded: &Recorded| {
                let file = recorded.file_of(function);
                let device = (file.major, file.minor);
                (device, file.filesystem.clone(), file.unlinked)
            };
            assert_eq!(facts(&told), facts(&with_root), "{function}");
            let direct = |recorded: &Recorded| recorded.calls[function][0].direct;
            assert_eq!(direct(&told), direct(&with_root), "{function}");
            for does in ["read", "write", "sync"] {
                let made = |call: &(_, &str, _, _)| call.1 == does;
                if told.of(function).iter().any(made) {
                    let (ours, theirs) = (
                        context(&report, function, does),
                        context(&as_root, function, does),
                    );
                    assert_eq!(ours["keys"], theirs["keys"], "{function}");
                    assert_eq!(ours["line"], theirs["line"], "{function}");
                }
            }
        }
    }
    assert_eq!(told.of("transfers"), [], "by sendfile and kin: not seen");
    assert!(told.cache.is_empty());
    for (function, call) in calls(&told) {
        assert_eq!((call.cached_bytes, call.ahead_bytes), (None, None));
        assert!(call.latency_ns > 0 && call.tid > 0, "{function}: {call:?}");
    }
    let state = report["sensors"]["io"].as_str().expect("a state");
    assert!(state.starts_with("in part: ") && state.contains("sudo"));
    for context in report["contexts"].as_array().expect("contexts") {
        for key in [
            "miss_ratio",
            "missed_bytes",
            "ahead_bytes",
            "unused_ahead_bytes",
            "in_vain_bytes",
            "refaulted_bytes",
            "again_cached_share",
        ] {
            assert!(context[key].is_null(), "{key}: {context:#}");
        }
    }
}

#[test]
fn a_scanner_and_a_server_are_told_apart_and_have_a_plan() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_example(folder.path(), "scanserve.c");
    let make = Command::new("./scanserve")
        .args(["-m", "48,4", "-r", "1", "big", "hot"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(make.status.success(), "{make:?}");
    let program = "./scanserve -r 5000 -w 20 big hot";
    let (_, report) = recorded(folder.path(), "--io --sensors none", program);
    assert_all_told(&report);
    let scan = context(&report, "scan_file", "read");
    let serve = context(&report, "serve_block", "read");
    assert_eq!(scan["bytes"], 48 << 20);
    assert_eq!(scan["calls"], 48 * 8 + 1, "and one at the end");
    assert_eq!(scan["class"], "SEQUENTIAL DONTNEED");
    assert_eq!(serve["calls"], 5000);
    assert_eq!(serve["class"], "RANDOM WILLNEED");
    let plan = run(folder.path(), &["plan", "--min-io", "10M", "-f", "--json"]).json();
    let rules = plan["rules"].as_array().expect("rules").iter();
    let rules: Vec<(&str, &str)> = rules
        .filter_map(|rule| Some((rule["function"].as_str()?, rule["action"].as_str()?)))
        .collect();
    let expected = [("scan_file", "drop"), ("serve_block", "nothing")];
    assert_eq!(rules, expected, "{plan:#}");
    let text = run(folder.path(), &["report"]).stdout;
    assert!(text.contains("the page cache was not seen"), "{text}");
    assert!(text.contains("read by serve_block (scanserve.c:"), "{text}");

    let (_, sums) = recorded(folder.path(), "--io=sums --sensors none", program);
    machine.assert_restored();
    for function in ["scan_file", "serve_block"] {
        let (single, sum) = (
            context(&report, function, "read"),
            context(&sums, function, "read"),
        );
        for key in ["calls", "bytes", "keys"] {
            assert_eq!(single[key], sum[key], "{function}");
        }
        assert!(sum["missed_bytes"].is_null() && sum["again_share"].is_null());
    }
}

#[test]
fn threads_children_other_programs_and_streams_are_told() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_of_told();
    // Among allocations, too: both come by the same ring.
    for options in ["--io --sensors none", "--io"] {
        let (_, report) = recorded(folder.path(), options, "./told ways data");
        assert_all_told(&report);
        let told = Recorded::read(folder.path(), "/told");
        let at = |block: u64| ("pread", "read", Some(block % BLOCKS * BLOCK), Ok(BLOCK));
        let threads: BTreeSet<u32> = told.calls["by_thread"]
            .iter()
            .map(|call| call.tid)
            .collect();
        assert_eq!(threads.len(), 4, "{options}");
        let mut expected: Vec<_> = (0..4)
            .flat_map(|thread| (0..500).map(move |call| at(call + thread)))
            .collect();
        let mut found = told.of("by_thread");
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{options}");
        let by_child: Vec<_> = (0..100).map(at).collect();
        assert_eq!(told.of("by_child"), by_child, "{options}");
        let after_exec: Vec<_> = (0..50).map(at).collect();
        assert_eq!(told.of("after_exec"), after_exec, "{options}");
        let spaces: BTreeSet<u32> = ["by_thread", "by_child", "after_exec"]
            .iter()
            .map(|function| told.calls[*function][0].space)
            .collect();
        assert_eq!(spaces.len(), 3, "{options}: each process has its own");
        for function in ["by_stream", "by_line"] {
            let mut next = 0;
            for (call, does, offset, bytes) in told.of(function) {
                assert_eq!((call, does, offset), ("read", "read", Some(next)));
                next += bytes.expect("read");
            }
            assert_eq!(next, BLOCKS * BLOCK, "{function}, {options}");
        }
        assert_eq!(told.files.len(), 1, "{options}: {:?}", told.files);
    }
    machine.assert_restored();
}

#[test]
fn a_pool_reads_for_who_has_queued_it() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "pool.c", "pool", &[]);
    for name in ["data", "other"] {
        super::hints::write_file(&folder.path().join(name), 2);
    }
    let recorded = |options| recorded(folder.path(), options, "./pool marked data other").1;
    let report = recorded("--io --sensors none");
    assert_all_told(&report);
    let functions: Vec<(&str, &str)> = readers(&report)
        .into_iter()
        .map(|(function, _, class)| (function, class))
        .collect();
    assert_eq!(
        functions[..2],
        [
            ("queues_lookups", "RANDOM WILLNEED"),
            ("queues_scan", "SEQUENTIAL DONTNEED"),
        ]
    );
    machine.assert_restored();
}

#[test]
fn the_program_is_as_it_is_without_and_handlers_are_told_or_counted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_of_told();
    let (ended, report) = recorded(folder.path(), "--io", "./told unharmed data");
    machine.assert_restored();
    let handled: u64 = ended.stdout.trim().parse().expect("a number");
    let told = Recorded::read(folder.path(), "/told");
    let in_handlers = told.calls["in_handler"].len() as u64;
    // One that interrupts the library at its work is not told.
    let lost = report["losses"]["io_calls"].as_u64().expect("counted");
    assert!(
        in_handlers <= handled && in_handlers + lost >= handled,
        "{in_handlers} and {lost} of {handled}"
    );
    assert!(in_handlers > 0);
}

#[test]
fn what_finds_no_room_is_counted_and_nobody_waits_for_it() {
    const CALLS: u64 = 300_000;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_of_told();
    let (_, report) = recorded(folder.path(), "--io --sensors none", "./told paused data");
    machine.assert_restored();
    let lost = report["losses"]["io_calls"].as_u64().expect("counted");
    let told = Recorded::read(folder.path(), "/told");
    let calls = told.of("while_nobody_listens").len() as u64;
    assert!(calls > 0 && lost > 0, "{calls} and {lost}");
    assert_eq!(calls + lost, CALLS);
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("a trace");
    assert_eq!(trace.meta().losses.get("io_calls"), Some(&lost));
}

#[test]
fn a_program_that_cannot_be_preloaded_has_no_calls_and_says_so() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "told.c", "told", &["-static"]);
    write_data(folder.path());
    let (_, report) = recorded(folder.path(), "--io --sensors none", "./told ways data");
    machine.assert_restored();
    let state = report["sensors"]["io"].as_str().expect("a state");
    assert!(
        state.starts_with("missing") && state.contains("static"),
        "{state}"
    );
    assert!(report["contexts"].is_null(), "unknown, not none");
    let lost = number(&report["losses"]["io_calls"]);
    assert_eq!(lost, 0);
}
