//! Memory of several processes together.

use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::programs::folder_with;
use pagewise_trace::Trace;

const MIB: u64 = 1 << 20;
const SHARED: u64 = 64 * MIB;
const CHILDREN: u64 = 20;

/// What workers have from the parent that forked them is there once.
fn assert_counted_once(options: &str) {
    let folder = folder_with("many.c");
    // Long enough for a look at all of them on a busy machine.
    let program = format!("./many {CHILDREN} {} 8", SHARED / MIB);
    record(folder.path(), options, &program).expect_code(0);
    // Page tables, stacks and the loader's data of each.
    let expected = SHARED + CHILDREN * MIB..SHARED + CHILDREN * 4 * MIB;
    let peak = report(folder.path())["summary"]["peak_rss_bytes"].as_u64();
    let peak = peak.expect("a peak");
    assert!(expected.contains(&peak), "{options}: {} MiB", peak / MIB);
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    let samples = trace.samples().expect("samples");
    let most = samples.iter().filter_map(|sample| sample.rss_bytes).max();
    assert_eq!(most, Some(peak), "{options}");
}

#[test]
fn what_processes_share_counts_once() {
    assert_counted_once("--sensors none");
}

#[test]
fn in_a_cgroup_too() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    assert_counted_once("--sensors none --memory 512M --swap none");
    machine.assert_restored();
}
