//! The residency sensor, and recording without root, against a program that knows where its pages are.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::command::Ended;
use crate::common::command::record;
use crate::common::command::report;
use crate::common::install::pagewise;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use pagewise_trace::Trace;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const PAGE: u64 = 4096;
/// Swap for pages to go to, set up by root; what follows is run by nobody.
const SWAP: &str = "--sensors none --swap zram --swap-size 64M -o outer";

fn folder_with(program: &str) -> TempDir {
    let folder = tempdir().expect("a folder");
    compile(folder.path(), program);
    for name in ["pagewise", "libpagewise_runtime.so"] {
        let from = pagewise().with_file_name(name);
        fs::copy(from, folder.path().join(name)).expect("copied");
    }
    let everyone = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), everyone).expect("permitted");
    folder
}

const NOBODY: &str =
    "setpriv --reuid=65534 --regid=65534 --clear-groups env -u HOME ./pagewise record";

/// The last word of the table on each page of a range, as of then.
fn states(trace: &Trace, space: u32, until_ns: u64) -> BTreeMap<u64, &'static str> {
    let mut states = BTreeMap::new();
    for row in trace.residency().expect("a table") {
        let row = row.expect("a row");
        if row.space == space && row.time_ns <= until_ns {
            for page in (row.address..row.address + row.bytes).step_by(PAGE as usize) {
                states.insert(page, row.state.as_str());
            }
        }
    }
    states
}

/// Asserts that the table says of each page what the program says.
fn expect_states(folder: &Path, said: &str) {
    let trace = Trace::open(folder).expect("a trace");
    let spaces = trace.spaces().expect("spaces");
    let mut compared = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect(line);
        let (time_ns, pid, address, pages) = (number(0), number(1), number(2), number(3));
        let space = spaces
            .iter()
            .rev()
            .find(|space| u64::from(space.pid) == pid)
            .unwrap_or_else(|| panic!("no space of {pid}"));
        let states = states(&trace, space.space, time_ns);
        for page in (address..).step_by(PAGE as usize).take(pages as usize) {
            let found = states.get(&page).copied().unwrap_or("absent");
            assert_eq!(found, words[4], "page {page:#x} in {line:?}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{said}");
}

fn fault_rows(folder: &Path) -> usize {
    let trace = Trace::open(folder).expect("a trace");
    trace.thread_faults().expect("a table").count()
}

#[test]
fn every_page_is_where_the_program_put_it() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("residency.c");
    let ended = record(folder.path(), "--swap zram --swap-size 64M", "./residency").expect_code(0);
    expect_states(&folder.path().join("pagewise.data"), &ended.stdout);
    let report = report(folder.path());
    assert_eq!(report["sensors"]["residency"], "on");
    assert_eq!(report["losses"]["residency_processes"], 0);
    // Paged out, all of it was written.
    assert_eq!(report["summary"]["dropped_without_write"], 0);
    let share = report["objects"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|object| object["line"].is_number() && object["swap_ins"] == 12)
        .unwrap_or_else(|| panic!("{report:#}"))["resident_share"]
        .as_f64();
    // 40 of 64 pages at first, a fourth to a half of it later.
    assert!(
        share.is_some_and(|share| (0.25..0.65).contains(&share)),
        "{share:?}"
    );
    assert_eq!(
        fault_rows(&folder.path().join("pagewise.data")),
        0,
        "faults are observed"
    );
    machine.assert_restored();
}

#[test]
fn pages_that_leave_clean_are_counted_and_written_ones_are_not() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("dropped.c");
    let options = "--swap file --swap-size 64M";
    record(folder.path(), options, "./dropped").expect_code(0);
    let summary = report(folder.path())["summary"].clone();
    assert_eq!(summary["pages_written"], 32, "the first time: {summary:#}");
    assert_eq!(
        summary["dropped_without_write"], 32,
        "the second: {summary:#}"
    );
    machine.assert_restored();
}

#[test]
fn shared_memory_that_goes_to_swap_is_not_dropped() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("family.c");
    let options = "--memory 32M --swap zram --swap-size 128M";
    record(folder.path(), options, "./family shared").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let summary = &report["summary"];
    let count = |name: &str| summary[name].as_u64().expect("a count");
    // 48 MiB in turns: 16 MiB cannot stay, each time.
    assert!(count("shared_pages_gone") > 16 << 8, "{summary:#}");
    assert!(count("dropped_without_write") < 1024, "{summary:#}");
    // The third and the fourth turn bring that back.
    let memory = &report["objects"][0];
    assert_eq!(memory["function"], "shared", "{memory:#}");
    let swap_ins = memory["swap_ins"].as_u64().expect("a count");
    assert!(swap_ins > 2 * (16 << 8), "{memory:#}");
    let pages_read = &report["reconciliation"]["pages_read"];
    let [recorded, kernel] = ["recorded", "kernel"].map(|side| pages_read[side].as_u64());
    let (recorded, kernel) = recorded.zip(kernel).expect("both count");
    assert!(recorded.abs_diff(kernel) * 100 <= kernel, "{pages_read:#}");
    assert!(
        memory["stall_ns"].as_u64() > Some(swap_ins * 500),
        "{memory:#}"
    );
    assert_eq!(memory["evictions"], Value::Null, "{memory:#}");
    assert_eq!(memory["touched_at"]["function"], "shared", "{memory:#}");
}

/// What nobody recorded in this folder, of a program that knows its pages.
fn as_nobody(folder: &Path, options: &str) -> (Ended, Value) {
    let program = format!("{NOBODY} {options} -o inner -- ./residency");
    let ended = record(folder, SWAP, &program).expect_code(0);
    let report = crate::common::command::run(folder, &["report", "--json", "inner"]);
    (ended, report.expect_code(0).json())
}

#[test]
fn without_root_pages_and_swap_ins_are_seen_all_the_same() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("residency.c");
    let (ended, report) = as_nobody(folder.path(), "");
    expect_states(&folder.path().join("inner"), &ended.stdout);
    let ended = ended.expect_told(&["the sensor faults is missing", "root", "sudo setcap"]);
    assert!(!ended.stdout.is_empty());
    let (sensors, summary) = (&report["sensors"], &report["summary"]);
    assert_eq!(sensors["residency"], "on");
    assert_eq!(sensors["thread_faults"], "on");
    for unknown in [
        "stall_ns",
        "swap_cache_hits",
        "evictions",
        "pages_written",
        "pages_read",
    ] {
        assert!(summary[unknown].is_null(), "{unknown}: {summary:#}");
    }
    assert!(summary["dropped_without_write"].is_null());
    assert!(summary["major_faults"].as_u64() >= Some(12), "{summary:#}");
    assert!(fault_rows(&folder.path().join("inner")) > 0);
    let permitted = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .is_ok_and(|level| level.trim().parse::<i32>().is_ok_and(|level| level <= 2));
    if permitted {
        assert_eq!(sensors["major_faults"], "on");
        assert_eq!(summary["swap_ins"], 12, "{summary:#}");
        let objects = report["objects"].as_array().expect("a list");
        let swapped = objects.iter().find(|object| object["swap_ins"] == 12);
        let swapped = swapped.unwrap_or_else(|| panic!("{report:#}"));
        assert!(swapped["line"].is_number() && swapped["stall_ns"].is_null());
    } else {
        assert!(summary["swap_ins"].is_null());
    }
    machine.assert_restored();
}

/// As `setcap cap_bpf,cap_perfmon+ep` does (`struct vfs_cap_data`, include/uapi/linux/capability.h).
pub(crate) fn give_capabilities(executable: &Path) {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    const PERFMON_AND_BPF: u32 = 1 << (38 - 32) | 1 << (39 - 32);
    let words = [REVISION_2_EFFECTIVE, 0, 0, PERFMON_AND_BPF, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(executable, "security.capability", &value, flags)
        .expect("a file system with extended attributes");
}

#[test]
fn with_two_capabilities_every_sensor_works_without_root() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("residency.c");
    give_capabilities(&folder.path().join("pagewise"));
    let (ended, report) = as_nobody(folder.path(), "");
    expect_states(&folder.path().join("inner"), &ended.stdout);
    let (sensors, summary) = (&report["sensors"], &report["summary"]);
    assert_eq!(
        (&sensors["faults"], &sensors["residency"]),
        (&"on".into(), &"on".into())
    );
    assert_eq!(summary["swap_ins"], 12, "{summary:#}");
    assert_eq!(summary["evictions"], 16, "{summary:#}");
    assert!(summary["stall_ns"].as_u64() > Some(0), "{summary:#}");
    machine.assert_restored();
}
