//! Calls on files are told exactly: which, where in which file, how much, by which call path; and what they mean.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::hints;
use super::hints::Overlay;
use super::hints::UserSpace;
use crate::common::command::assert_nothing_lost;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::record_all_paths;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use crate::common::programs::compile_example;
use crate::common::programs::folder_with;
use crate::common::within;
use pagewise_trace::Frame;
use pagewise_trace::IoCache;
use pagewise_trace::IoCacheKind;
use pagewise_trace::IoCall;
use pagewise_trace::IoDirection;
use pagewise_trace::IoFile;
use pagewise_trace::Trace;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

pub(super) const BLOCK: u64 = 4096;

/// Call, what it does, place, and bytes or error.
pub(super) type Told = (&'static str, &'static str, Option<u64>, Result<u64, u32>);

/// A recording's calls on files, by the function of the program that made them.
pub(super) struct Recorded {
    pub(super) calls: BTreeMap<String, Vec<IoCall>>,
    pub(super) cache: Vec<(String, IoCache)>,
    pub(super) files: HashMap<u32, IoFile>,
}

impl Recorded {
    pub(super) fn read(folder: &Path, program: &str) -> Self {
        let trace = Trace::open(&folder.join("pagewise.data")).expect("a trace");
        let functions = functions(&trace, program);
        let function = |stack: Option<u32>| {
            let name = stack.and_then(|stack| functions.get(&stack));
            name.cloned().unwrap_or_default()
        };
        let mut calls: BTreeMap<String, Vec<IoCall>> = BTreeMap::new();
        for call in trace.io_calls().expect("calls") {
            let call = call.expect("a row");
            calls.entry(function(call.stack)).or_default().push(call);
        }
        let cache = trace.io_cache().expect("changes").map(|row| {
            let row = row.expect("a row");
            (function(row.stack), row)
        });
        let files = trace.io_files().expect("files").into_iter();
        Self {
            calls,
            cache: cache.collect(),
            files: files.map(|file| (file.file, file)).collect(),
        }
    }

    /// Call, place and bytes (or error) of each, in order.
    pub(super) fn of(&self, function: &str) -> Vec<Told> {
        let calls = self.calls.get(function).map_or(&[][..], Vec::as_slice);
        let told = |call: &IoCall| {
            let result = call.error.map_or(Ok(call.bytes.unwrap_or(0)), Err);
            (
                call.call.as_str(),
                call.direction.as_str(),
                call.offset,
                result,
            )
        };
        calls.iter().map(told).collect()
    }

    pub(super) fn file_of(&self, function: &str) -> &IoFile {
        let file = self.calls[function][0].file.expect("a number");
        &self.files[&file]
    }

    pub(super) fn name_of_file(&self, function: &str) -> &str {
        let path = self.file_of(function).path.as_deref().expect("a path");
        path.rsplit('/').next().expect("a name")
    }
}

/// Of each call path, the innermost function of that program.
fn functions(trace: &Trace, program: &str) -> HashMap<u32, String> {
    let mut frames: Vec<Frame> = trace.frames().expect("frames");
    frames.sort_by_key(|frame| (frame.stack, frame.depth, frame.inline_index));
    let mut functions = HashMap::new();
    for frame in frames {
        let own = frame.module.is_some_and(|module| module.ends_with(program));
        if let (true, Some(function)) = (own, frame.function) {
            functions.entry(frame.stack).or_insert(function);
        }
    }
    functions
}

/// The context of that function that reads or writes.
pub(super) fn context<'a>(report: &'a Value, function: &str, does: &str) -> &'a Value {
    let contexts = report["contexts"].as_array().expect("contexts");
    let found = contexts
        .iter()
        .find(|context| context["function"] == function && context["does"] == does);
    found.unwrap_or_else(|| panic!("no {does} by {function} in {contexts:#?}"))
}

#[test]
fn each_call_is_told_with_its_file_place_and_result() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("files.c");
    let (ended, report) =
        record_all_paths(folder.path(), "--io --sensors none", "./files .", || {});
    machine.assert_restored();
    let told: Value =
        serde_json::from_str(ended.stdout.lines().next().expect("a line")).expect("JSON");
    let recorded = Recorded::read(folder.path(), "/files");
    assert_nothing_lost(&report);

    let at =
        |call, does, block: u64, blocks: u64| (call, does, Some(block * BLOCK), Ok(blocks * BLOCK));
    let all: Vec<_> = (0..64)
        .map(|block| at("write", "write", block, 1))
        .collect();
    assert_eq!(recorded.of("write_all"), all);
    let mut in_order: Vec<_> = (0..64).map(|block| at("read", "read", block, 1)).collect();
    in_order.push(at("read", "read", 64, 0));
    assert_eq!(recorded.of("read_in_order"), in_order);
    let anywhere: Vec<_> = (0..100)
        .map(|call| at("pread", "read", call * 37 % 64, 1))
        .collect();
    assert_eq!(recorded.of("read_anywhere"), anywhere);
    assert_eq!(
        recorded.of("vectors"),
        [
            at("readv", "read", 0, 2),
            at("preadv", "read", 8, 2),
            at("preadv", "read", 2, 2),
            at("pwritev", "write", 16, 2),
            at("pwrite", "write", 20, 1),
            at("writev", "write", 4, 2),
        ]
    );
    assert_eq!(
        recorded.of("transfers"),
        [
            at("sendfile", "read", 8, 3),
            at("sendfile", "write", 0, 3),
            at("copy_file_range", "read", 4, 2),
            at("copy_file_range", "write", 32, 2),
            at("splice", "read", 10, 1),
            at("splice", "write", 40, 1),
        ]
    );
    let mut lines: Vec<_> = (0..10)
        .map(|line| ("write", "write", Some(line * 100), Ok(100)))
        .collect();
    lines.push(("fdatasync", "sync", None, Ok(0)));
    lines.push(("fsync", "sync", None, Ok(0)));
    assert_eq!(recorded.of("append"), lines);
    let traced: Vec<_> = (0..10).map(|block| at("pread", "read", block, 1)).collect();
    assert_eq!(recorded.of("traced"), traced, "with another tracer");

    let errors: Vec<_> = recorded.of("fails").iter().map(|call| call.3).collect();
    assert_eq!(errors, [Err(9), Err(22), Err(14)]);
    assert_eq!(recorded.of("not_files"), [], "pipes, sockets, nothing open");
    assert_eq!(recorded.name_of_file("read_in_order"), "data");
    assert_eq!(recorded.name_of_file("append"), "log");
    assert_eq!(recorded.name_of_file("in_memory"), "memfd:scratch");
    assert_eq!(recorded.file_of("in_memory").filesystem, "tmpfs");
    assert!(recorded.file_of("without_a_name").unlinked);
    if told["direct"] == 1 {
        assert!(recorded.calls["past_the_cache"][0].direct);
        assert_eq!(recorded.of("past_the_cache"), [at("pread", "read", 1, 1)]);
    }
    let data = recorded.file_of("read_in_order");
    if data.filesystem != "tmpfs" {
        let by_mapping = recorded
            .cache
            .iter()
            .filter(|(function, row)| function == "touch_mapping" && row.file == Some(data.file));
        let mapped: u64 = by_mapping.map(|(_, row)| row.bytes).sum();
        assert_eq!(mapped, 64 * BLOCK, "brought in by faults");
        let dropped = recorded
            .cache
            .iter()
            .filter(|(_, row)| row.kind == IoCacheKind::Dropped && row.file == Some(data.file));
        let dropped: u64 = dropped.map(|(_, row)| row.bytes).sum();
        assert_eq!(dropped, 64 * BLOCK, "by POSIX_FADV_DONTNEED");
    }
}

/// Records `uring` on a file of 64 blocks; `None`: the kernel has no io_uring, or lets nobody use it.
fn record_requests(folder: &Path, how: &str) -> Option<(Recorded, Value)> {
    let program = format!("./uring data {how}");
    let blocks = || {
        let file = fs::File::create(folder.join("data")).expect("made");
        file.set_len(0).expect("empty");
        fs::write(folder.join("data"), vec![1; 64 * BLOCK as usize]).expect("written");
        file.sync_all().expect("written back");
    };
    let (ended, report) =
        record_all_paths(folder, "--io --sensors none", program.trim_end(), blocks);
    if ended.stdout == "no io_uring\n" {
        println!("skipped: this kernel refuses io_uring");
        return None;
    }
    assert_nothing_lost(&report);
    Some((Recorded::read(folder, "/uring"), report))
}

#[test]
fn requests_of_io_uring_are_told_as_calls_are() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("uring.c");
    let Some((recorded, report)) = record_requests(folder.path(), "") else {
        return;
    };
    machine.assert_restored();
    let read = |block: u64, blocks: u64| {
        let place = Some(block * BLOCK);
        ("io_uring read", "read", place, Ok(blocks * BLOCK))
    };
    let write = |block: u64, blocks: u64| {
        let place = Some(block * BLOCK);
        ("io_uring write", "write", place, Ok(blocks * BLOCK))
    };
    let sorted = |mut told: Vec<Told>| {
        told.sort_unstable();
        told
    };
    let all: Vec<Told> = (0..64).map(|block| read(block, 1)).collect();
    assert_eq!(recorded.of("read_in_order"), all);
    // Eight at a time end in whatever order.
    let anywhere: Vec<Told> = (0..96).map(|call| read(call * 37 % 64, 1)).collect();
    assert_eq!(sorted(recorded.of("read_anywhere")), sorted(anywhere));
    let all: Vec<Told> = (0..64).map(|block| write(block, 1)).collect();
    assert_eq!(recorded.of("write_all"), all);
    let sync = ("io_uring fsync", "sync", None, Ok(0));
    assert_eq!(recorded.of("syncs"), [sync, sync]);
    assert_eq!(recorded.of("vectors"), [read(8, 2), write(16, 2)]);
    assert_eq!(recorded.of("at_position"), [read(3, 1), read(4, 1)]);
    let lines: Vec<Told> = (0..10)
        .map(|line| ("io_uring write", "write", Some(line * 100), Ok(100)))
        .collect();
    assert_eq!(recorded.of("append"), lines);
    assert_eq!(recorded.name_of_file("append"), "data.log");
    let registered: Vec<Told> = (0..4).map(|block| read(block, 1)).collect();
    assert_eq!(recorded.of("registered"), registered);
    assert_eq!(recorded.name_of_file("registered"), "data");
    let fails = ("io_uring read", "read", Some(0), Err(14));
    assert_eq!(recorded.of("fails_to"), [fails]);
    assert_eq!(recorded.of("not_files"), []);
    assert_eq!(report["losses"]["io_of_other_threads"], 0);
    for function in ["read_in_order", "read_anywhere"] {
        let latency = &context(&report, function, "read")["latency"];
        assert!(latency["p50_ns"].as_u64() > Some(0), "{latency}");
    }
    assert_eq!(
        context(&report, "read_in_order", "read")["class"],
        "SEQUENTIAL WILLNEED"
    );
    if recorded.file_of("read_in_order").filesystem != "tmpfs" {
        // What the kernel does for a request at once is the request's, and what a worker of its does, too.
        let by_mapping = report["contexts"].as_array().expect("contexts").iter();
        let mut by_mapping = by_mapping.filter(|context| context["does"] == "map");
        assert!(by_mapping.all(|context| context["function"] != "write_all"));
        let brought = recorded.calls["read_in_order"].iter();
        let brought: u64 = brought
            .map(|call| call.cached_bytes.unwrap_or(0) + call.ahead_bytes.unwrap_or(0))
            .sum();
        assert_eq!(brought, 64 * BLOCK);
    }
}

#[test]
fn requests_that_a_thread_of_the_kernel_submits_have_no_path_and_that_is_told() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("uring.c");
    let Some((recorded, _)) = record_requests(folder.path(), "polled") else {
        return;
    };
    machine.assert_restored();
    let requests = recorded.of("");
    let requests = requests.iter().filter(|call| call.0 == "io_uring read");
    let places: Vec<Option<u64>> = requests.map(|call| call.2).collect();
    let expected: Vec<Option<u64>> = (0..64).map(|block| Some(block * BLOCK)).collect();
    assert_eq!(places, expected);
    let text = run(folder.path(), &["report"]).expect_code(0).stdout;
    assert!(text.contains("(IORING_SETUP_SQPOLL, 1 rings)"), "{text}");
}

#[test]
fn faults_on_a_mapping_are_told_with_their_latency_and_as_many_as_the_program_counts() {
    const PAGES: u64 = 8192;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("mapread.c");
    fs::write(
        folder.path().join("data"),
        vec![1; (PAGES * BLOCK) as usize],
    )
    .expect("written");
    let options = "--io --sensors none";
    let (ended, report) = record_all_paths(folder.path(), options, "./mapread data", || {});
    machine.assert_restored();
    assert_nothing_lost(&report);
    let recorded = Recorded::read(folder.path(), "/mapread");
    let counts: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    if counts["anywhere"] == 0 {
        println!("skipped: the file is in memory");
        return;
    }
    let faults = |function: &str| recorded.calls.get(function).map_or(&[][..], Vec::as_slice);
    for fault in ["touch_in_order", "touch_anywhere", "touch_together"]
        .iter()
        .flat_map(|function| faults(function))
    {
        assert_eq!(
            (fault.call.as_str(), fault.direction.as_str()),
            ("fault", "map")
        );
        assert_eq!((fault.bytes, fault.direct), (Some(BLOCK), false));
        assert!(fault.latency_ns > 0 && fault.stack.is_some());
    }
    // One that waits for what is being read ahead may be no major fault.
    let told = |function: &str| faults(function).len() as u64;
    let counted = |function: &str| counts[function].as_u64().expect("a count");
    let in_order = told("touch_in_order");
    assert!(
        in_order >= counted("in_order") && in_order <= PAGES / 16,
        "{in_order}: {counts}"
    );
    assert_eq!(told("touch_anywhere"), counted("anywhere"));
    assert_eq!(
        counted("anywhere"),
        counted("touches"),
        "one page is read by each"
    );
    let places = faults("touch_anywhere").iter().map(|fault| fault.offset);
    let expected = (0..counted("touches")).map(|touch| Some(touch * 7919 % PAGES * BLOCK));
    assert!(places.eq(expected));
    // Of two threads that touch a page at the same time, one reads it and the other one waits, which is a major fault or not.
    let together = told("touch_together");
    assert!(together >= counted("together"), "{together}: {counts}");
    assert!(together <= 2 * counted("touches"), "{together}: {counts}");
    assert!(
        together > counted("touches") * 11 / 10,
        "{together}: {counts}"
    );

    let in_order = context(&report, "touch_in_order", "map");
    let anywhere = context(&report, "touch_anywhere", "map");
    assert_eq!(in_order["class"], "SEQUENTIAL", "{in_order:#}");
    assert_eq!(anywhere["class"], "RANDOM", "{anywhere:#}");
    assert_eq!(in_order["bytes"], PAGES * BLOCK);
    assert_eq!(anywhere["calls"], counts["touches"]);
    for context in [in_order, anywhere] {
        assert!(context["latency"]["p50_ns"].as_u64() > Some(0));
        assert!(context["latency_ns"].as_u64() > Some(0) && context["advice"].is_null());
    }
}

#[test]
fn a_scanner_and_a_server_are_told_apart() {
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
    let leave_the_page_cache = || {
        for name in ["big", "hot"] {
            let file = fs::File::open(folder.path().join(name)).expect("made");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
        }
    };
    // Not so fast that paths get lost before they are learnt.
    let program = "./scanserve -r 5000 -w 20 big hot";
    let options = "--io --sensors none --check-call-paths";
    let (_, report_of_calls) =
        record_all_paths(folder.path(), options, program, leave_the_page_cache);
    machine.assert_restored();
    assert_nothing_lost(&report_of_calls);
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("a trace");
    let total = |what: &str| trace.meta().totals.get(what).copied();
    assert!(total("call_paths_checked") > Some(1000));
    assert_eq!(total("call_paths_different"), Some(0));
    let scan = context(&report_of_calls, "scan_file", "read");
    let serve = context(&report_of_calls, "serve_block", "read");
    assert_eq!(scan["bytes"], 48 << 20);
    assert_eq!(scan["calls"], 48 * 8 + 1, "and one at the end");
    assert_eq!(scan["class"], "SEQUENTIAL DONTNEED");
    assert_eq!(serve["calls"], 5000);
    assert_eq!(serve["class"], "RANDOM WILLNEED");
    assert_eq!(serve["run_length"].as_f64().map(f64::round), Some(1.0));
    for context in [scan, serve] {
        let key = context["keys"][0].as_str().expect("a key");
        assert!(key.len() == 16 && context["keys"][1].is_null(), "{context}");
        assert!(context["latency"]["p50_ns"].as_u64() > Some(0));
    }
    assert_ne!(scan["keys"], serve["keys"]);
    let big = &report_of_calls["io_files"][0];
    assert!(
        big["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/big"))
    );
    assert_eq!(big["read_again_bytes"], 0);
    if big["filesystem"] != "tmpfs" {
        // All of it came in by this program, and nobody has read it again.
        assert_eq!(scan["in_vain_bytes"], 48 << 20);
        let brought = scan["missed_bytes"]
            .as_u64()
            .zip(scan["ahead_bytes"].as_u64());
        assert_eq!(
            brought.map(|(missed, ahead)| missed + ahead),
            Some(48 << 20)
        );
    }
    let text = run(folder.path(), &["report"]).expect_code(0).stdout;
    assert!(text.contains("SEQUENTIAL DONTNEED"), "{text}");
    assert!(text.contains("read by serve_block (scanserve.c:"), "{text}");

    let options = "--io=sums --sensors none";
    let (_, sums) = record_all_paths(folder.path(), options, program, || {});
    machine.assert_restored();
    let (scan_sum, serve_sum) = (
        context(&sums, "scan_file", "read"),
        context(&sums, "serve_block", "read"),
    );
    for (single, sum) in [(scan, scan_sum), (serve, serve_sum)] {
        assert_eq!(single["calls"], sum["calls"]);
        assert_eq!(single["bytes"], sum["bytes"]);
        assert_eq!(single["keys"], sum["keys"]);
        assert!(sum["again_share"].is_null() && sum["in_vain_bytes"].is_null());
    }
    assert_eq!(scan_sum["class"], "SEQUENTIAL");
    assert_eq!(serve_sum["class"], "RANDOM");
}

/// One function that the compiler has put into two others is a context in each.
#[test]
fn what_is_inlined_is_told_with_who_it_was_put_into() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("inlined.c");
    fs::write(folder.path().join("data"), vec![1; 1 << 20]).expect("written");
    record_all_paths(
        folder.path(),
        "--io --sensors none",
        "./inlined data",
        || {},
    );
    let report = report(folder.path());
    let contexts = report["contexts"].as_array().expect("contexts");
    let ours: Vec<&Value> = contexts
        .iter()
        .filter(|context| context["function"] == "read_block")
        .collect();
    let [one, other] = ours[..] else {
        panic!("{contexts:#?}");
    };
    assert_ne!(one["keys"], other["keys"]);
    let mut told = [one, other].map(|context| {
        assert_eq!(context["calls"], 256, "{context:#}");
        let frames = context["path"].as_array().expect("frames");
        let names: Vec<&str> = frames
            .iter()
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        let at = names
            .iter()
            .position(|&name| name == "read_block")
            .expect("it");
        let place = frames[at]["file"].as_str().expect("a file");
        assert!(place.ends_with("inlined.c"), "{context:#}");
        assert_eq!(frames[at]["inlined"], true, "{context:#}");
        (names[at + 1].to_owned(), context["class"].clone())
    });
    told.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(told[0].0, "look_up");
    assert_eq!(told[1].0, "scan");
    assert!(
        told[0]
            .1
            .as_str()
            .is_some_and(|class| class.starts_with("RANDOM"))
            && told[1]
                .1
                .as_str()
                .is_some_and(|class| class.starts_with("SEQUENTIAL")),
        "{told:?}"
    );
    let text = run(folder.path(), &["report"]).expect_code(0).stdout;
    assert!(text.contains("read_block (inlined.c:"), "{text}");
}

#[test]
fn what_is_read_ahead_of_vectors_and_of_an_offset_in_memory_is_no_miss() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ahead.c");
    let data = folder.path().join("data");
    fs::write(&data, vec![1; 4 << 20]).expect("written");
    let file = fs::File::open(&data).expect("opened");
    file.sync_all().expect("written back");
    record_all_paths(folder.path(), "--io --sensors none", "./ahead data", || {});
    machine.assert_restored();
    let recorded = Recorded::read(folder.path(), "/ahead");
    if recorded.file_of("by_vector").filesystem == "tmpfs" {
        return;
    }
    for (function, pages) in [("by_vector", 2), ("by_sendfile", 3)] {
        let mut calls = recorded.calls[function].iter();
        let read = calls.find(|call| call.direction == IoDirection::Read);
        let read = read.expect("a read");
        assert_eq!(read.cached_bytes, Some(pages * BLOCK), "{read:?}");
        let ahead = read.ahead_bytes.expect("the page cache was seen");
        let all = recorded.cache.iter().filter(|(by, row)| {
            by == function && row.kind == IoCacheKind::Added && row.file == read.file
        });
        let all: u64 = all.map(|(_, row)| row.bytes).sum();
        assert_eq!(pages * BLOCK + ahead, all);
        assert!(function == "by_sendfile" || ahead > 0);
    }
}

/// They have ended, or run another program, before anybody looks at what they had mapped.
#[test]
fn programs_that_run_for_a_millisecond_have_call_paths_and_names() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ahead.c");
    fs::write(folder.path().join("data"), vec![1; 4 << 20]).expect("written");
    let one = "./ahead data\n";
    let script = format!("{}exec {one}", one.repeat(9));
    fs::write(folder.path().join("script"), script).expect("written");
    record(folder.path(), "--io --sensors none", "sh ./script").expect_code(0);
    machine.assert_restored();
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("a trace");
    assert_eq!(trace.meta().losses["call_paths"], 0);
    let recorded = Recorded::read(folder.path(), "/ahead");
    let data = |function: &str| {
        let calls = recorded.calls[function].iter();
        calls
            .filter(|call| call.direction == IoDirection::Read)
            .count()
    };
    assert_eq!((data("by_vector"), data("by_sendfile")), (10, 10));
    let spaces = trace.spaces().expect("spaces");
    let programs = spaces.iter().filter_map(|row| row.executable.as_deref());
    let ahead = programs.filter(|path| path.ends_with("/ahead")).count();
    assert!(ahead >= 10, "{spaces:?}");
}

#[test]
fn threads_that_share_a_position_are_told_where_each_has_read() {
    const MIB: u64 = 1 << 20;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("shared.c");
    fs::write(folder.path().join("data"), vec![1; 200 << 20]).expect("written");
    let options = "--io --sensors none";
    record_all_paths(folder.path(), options, "./shared position data", || {});
    machine.assert_restored();
    let recorded = Recorded::read(folder.path(), "/shared");
    let mut places: Vec<u64> = (recorded.calls["reads"].iter())
        .filter(|call| call.bytes > Some(0))
        .filter_map(|call| call.offset)
        .collect();
    assert_eq!(places.len(), 200);
    assert!(places.iter().all(|place| place.is_multiple_of(MIB)));
    places.sort_unstable();
    places.dedup();
    // A thread that is halted between the end of its call and the look at the position may be told another's.
    assert!(places.len() >= 190, "{} places", places.len());
}

#[test]
fn calls_of_threads_that_have_one_place_are_lost_and_counted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let first = fs::read_link("/proc/self/ns/pid").expect("a namespace");
    if first.to_str() != Some("pid:[4026531836]") {
        println!("skipped: numbers of threads are chosen in the first namespace only");
        return;
    }
    let folder = folder_with("shared.c");
    fs::write(folder.path().join("data"), vec![1; 1 << 20]).expect("written");
    let ended = record(
        folder.path(),
        "--io --sensors none",
        "./shared numbers data",
    )
    .expect_code(0);
    machine.assert_restored();
    let made: u64 = ended.stdout.trim().parse().expect("a number");
    if made == 0 {
        println!("skipped: no number can be chosen here");
        return;
    }
    let report = report(folder.path());
    let told = context(&report, "reads_begin", "read")["calls"].as_u64();
    let lost = report["losses"]["events"].as_u64();
    let (told, lost) = told.zip(lost).expect("counts");
    assert!(lost > 0 && told < made, "{told} and {lost} of {made}");
    assert!(told + lost >= made * 9 / 10, "{told} and {lost} of {made}");
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_told_from_its_successor() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = hints::folder();
    hints::write_file(&folder.path().join("other"), 3);
    let program = "./hints replaced data other";
    let (_, report) = record_all_paths(folder.path(), "--io --sensors none", program, || {});
    assert_nothing_lost(&report);
    let recorded = Recorded::read(folder.path(), "/hints");
    let (first, successor) = (recorded.file_of("reads"), recorded.file_of("other"));
    assert_ne!(first.inode, successor.inode);
    assert_eq!(
        [
            recorded.name_of_file("reads"),
            recorded.name_of_file("other")
        ],
        ["data", "other"]
    );
    // By its descriptor it is the first one to the end.
    let calls = &recorded.calls["reads"];
    assert!(calls.len() > 384 && calls.iter().all(|call| call.file == Some(first.file)));
}

/// The whole file is read there, which lies on another file system than the recording.
fn assert_told_of_whole_file(path: &Path) {
    let folder = hints::folder();
    let program = format!("./hints whole {} other", path.display());
    let (_, report) = record_all_paths(folder.path(), "--io --sensors none", &program, || {});
    assert_nothing_lost(&report);
    let recorded = Recorded::read(folder.path(), "/hints");
    let file = recorded.file_of("reads");
    let expected = path.canonicalize().expect("it is there");
    assert_eq!(file.path.as_deref(), expected.to_str());
    let piece = 64 << 10;
    let pieces = (0..24 << 20).step_by(piece);
    let told = pieces.map(|at| ("read", "read", Some(at), Ok(piece as u64)));
    let end = ("read", "read", Some(24 << 20), Ok(0));
    let expected: Vec<Told> = told.chain([end]).collect();
    assert_eq!(recorded.of("reads"), expected);
}

#[test]
fn files_of_overlayfs_are_told_as_the_program_sees_them() {
    if let Some(overlay) = Overlay::mount() {
        assert_told_of_whole_file(&overlay.path().join("data"));
    }
}

/// What one call copies comes into the page cache for both files, each of which has another inode for that.
#[test]
fn files_of_overlayfs_that_are_copied_to_each_other_keep_their_names() {
    let Some(overlay) = Overlay::mount() else {
        return;
    };
    let merged = overlay.path();
    let (from, to) = (merged.join("data"), merged.join("copy"));
    let folder = folder_with("copies.c");
    let program = format!("./copies {} {}", from.display(), to.display());
    record_all_paths(folder.path(), "--io --sensors none", &program, || {});
    let recorded = Recorded::read(folder.path(), "/copies");
    let number = |path: &Path| {
        let is_it = |file: &&IoFile| file.path.as_deref() == path.to_str();
        let mut found = recorded.files.values().filter(is_it);
        found.next().map(|file| file.file)
    };
    let (from, to) = (number(&from), number(&to));
    assert!(from.is_some() && to.is_some() && from != to);
    let brought = |function: &str, file: Option<u32>| -> u64 {
        let rows = recorded.cache.iter();
        let of_it = rows.filter(|(by, row)| by == function && row.file == file);
        let added = of_it.filter(|(_, row)| row.kind == IoCacheKind::Added);
        added.map(|(_, row)| row.bytes).sum()
    };
    // By copy_file_range, and from a mapping of the one to the other.
    assert_eq!(brought("copies", from), 1 << 20);
    assert_eq!(brought("copies", to), 1 << 20);
    assert_eq!(brought("writes", to), 1 << 20);
}

#[test]
fn files_of_fuse_are_told_as_the_program_sees_them() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    if let Some(mounted) = UserSpace::mount() {
        assert_told_of_whole_file(&mounted.path().join("data"));
    }
}

#[test]
fn ten_thousand_open_files_are_each_told_by_name() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    const FILES: usize = 10_000;
    let folder = folder_with("manyfiles.c");
    let many = folder.path().join("many");
    let make_empty = || {
        let _ = fs::remove_dir_all(&many);
        fs::create_dir(&many).expect("a folder");
    };
    let program = format!("./manyfiles many {FILES}");
    let options = "--io --sensors none";
    let (_, report) = record_all_paths(folder.path(), options, &program, make_empty);
    machine.assert_restored();
    assert_nothing_lost(&report);
    let recorded = Recorded::read(folder.path(), "/manyfiles");
    let mut times: HashMap<&str, u32> = HashMap::new();
    for call in &recorded.calls["main"] {
        let file = &recorded.files[&call.file.expect("a number")];
        let path = file.path.as_deref().expect("a path");
        *times
            .entry(path.rsplit('/').next().expect("a name"))
            .or_default() += 1;
    }
    assert_eq!(times.len(), FILES);
    // A write and two reads each.
    times.retain(|_, calls| *calls != 3);
    let elsewhere: Vec<_> = (recorded.calls.iter())
        .map(|(function, calls)| (function, calls.len()))
        .collect();
    assert!(
        times.is_empty(),
        "{times:?}; calls by function: {elsewhere:?}"
    );
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_told_as_it_was_read() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = super::hints::folder();
    let data = folder.path().join("data");
    let whole = || super::hints::write_file(&data, 2);
    let program = "./hints shrinks data none";
    let (_, report) = record_all_paths(folder.path(), "--io --sensors none", program, whole);
    machine.assert_restored();
    assert_nothing_lost(&report);
    let reads = context(&report, "reads", "read");
    assert_eq!(reads["again_share"], 0.0, "{reads:#}");
    let recorded = Recorded::read(folder.path(), "/hints");
    let piece = |number: u64| ("read", "read", Some(number * 16 * BLOCK), Ok(16 * BLOCK));
    let mut pieces: Vec<Told> = (0..120).map(piece).collect();
    pieces.push(("read", "read", Some(120 * 16 * BLOCK), Ok(0)));
    assert_eq!(recorded.of("reads"), pieces, "the last one finds nothing");
}

#[test]
fn more_paths_through_generated_code_than_can_be_told_apart_lose_paths_and_no_calls() {
    const PATHS: u64 = 70_000;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("flood.c");
    fs::write(folder.path().join("data"), [1]).expect("written");
    let program = format!("./flood {PATHS} data");
    let ended = record(folder.path(), "--io --sensors none", &program).expect_code(0);
    machine.assert_restored();
    assert_eq!(
        ended.stdout,
        format!("{PATHS}\n"),
        "the program is unharmed"
    );
    let report = report(folder.path());
    let data = report["io_files"].as_array().expect("files").iter();
    let mut data = data.filter(|file| {
        file["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/data"))
    });
    let calls = data.next().expect("the file")["calls"].as_u64();
    let (calls, lost) = calls
        .zip(report["losses"]["events"].as_u64())
        .expect("counts");
    assert_eq!(calls + lost, PATHS, "{lost} lost");
    let text = run(folder.path(), &["report"]).expect_code(0).stdout;
    assert!(text.contains("call paths"), "{text}");
    // A plan has no rule for what it cannot know again.
    let plan = run(folder.path(), &["plan", "--json", "--min-io", "1K"])
        .expect_code(0)
        .json();
    let rules = plan["rules"].as_array().expect("rules");
    assert!(rules.len() <= 64, "{} rules", rules.len());
}

#[test]
fn a_running_program_is_joined_and_may_be_killed_meanwhile() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "reader.c");
    fs::write(folder.path().join("data"), vec![1; 1 << 20]).expect("written");
    let mut reader = Command::new("./reader")
        .arg("data")
        .current_dir(folder.path())
        .spawn()
        .expect("it starts");
    let pid = reader.id().to_string();
    let recorder = start(command(
        folder.path(),
        &["record", "--io", "--sensors", "none", "--pid", &pid],
    ));
    let journal = folder.path().join("pagewise.data/journal");
    let began = within(Duration::from_secs(30), || journal.exists());
    std::thread::sleep(Duration::from_millis(300));
    assert!(machine.has_more_attached(), "to the calls of all programs");
    reader.kill().expect("killed");
    reader.wait().expect("reaped");
    assert!(began);
    recorder.end().expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let reads = context(&report, "main", "read");
    assert!(reads["calls"].as_u64() > Some(100), "{reads}");
    assert_eq!(reads["mean_bytes"], BLOCK);
    assert_eq!(reads["class"], "RANDOM WILLNEED");
}

/// Calls that read, as the kernel counts them for the process.
fn reads_of(pid: Pid) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).expect("it runs");
    let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    count.and_then(|count| count.parse().ok()).expect("a count")
}

#[test]
fn of_a_cgroup_the_last_second_is_kept() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("reader.c");
    fs::write(folder.path().join("data"), vec![1; 1 << 20]).expect("written");
    let mut limited = Limited::create("io");
    let reader = limited.run(folder.path(), "./reader data");
    let group = limited
        .cgroup
        .path()
        .file_name()
        .expect("a name")
        .to_owned();
    let group = group.to_str().expect("text");
    let options = [
        "record",
        "--io",
        "--sensors",
        "none",
        "--snapshot=1s",
        "--cgroup",
    ];
    let recorder = start(command(folder.path(), &[&options[..], &[group]].concat()));
    std::thread::sleep(Duration::from_secs(4));
    let made = reads_of(reader);
    recorder.signal(Signal::TERM);
    recorder.end().expect_code(0);
    limited.end();
    machine.assert_restored();
    let report = report(folder.path());
    let reads = context(&report, "main", "read");
    let kept = reads["calls"].as_u64().expect("a count");
    assert!(kept > 100 && kept < made * 3 / 4, "{kept} of {made}");
}

#[test]
fn what_finds_no_more_room_is_summed() {
    const CALLS: u64 = 500_000;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let program = format!("dd if=/dev/zero of=copy bs=1 count={CALLS} status=none");
    record(folder.path(), "--io --sensors none --max-size 1M", &program).expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let contexts = report["contexts"].as_array().expect("contexts");
    let writes = contexts.iter().filter(|context| context["does"] == "write");
    let calls: u64 = writes
        .map(|context| context["calls"].as_u64().expect("a count"))
        .sum();
    // A busy machine's recorder may not keep up: then it counts.
    let lost = report["losses"]["events"].as_u64().expect("a count");
    assert!(
        calls <= CALLS && calls + lost >= CALLS,
        "{calls} and {lost}"
    );
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("a trace");
    let single = trace.io_calls().expect("calls").count() as u64;
    assert!(single < calls, "{single} single calls");
}
