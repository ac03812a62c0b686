//! Programs that forbid themselves system calls.

use crate::common::command::record;
use crate::common::command::report;
use crate::common::programs::folder_with;

const ALLOCATIONS: &str = "--sensors allocations --sample-bytes off";

#[test]
fn a_child_in_a_sandbox_is_recorded_and_lives() {
    let folder = folder_with("sandboxed.c");
    record(folder.path(), ALLOCATIONS, "./sandboxed").expect_code(0);
    let report = report(folder.path());
    let objects = report["objects"].as_array().expect("objects");
    let made = |object: &&serde_json::Value| object["function"] == "allocate";
    let object = objects.iter().find(made).expect("recorded");
    assert_eq!(object["allocations"], 200, "{object:#}");
}

#[test]
fn a_child_that_begins_in_a_sandbox_lives() {
    let folder = folder_with("sandboxed.c");
    record(folder.path(), ALLOCATIONS, "./sandboxed nested").expect_code(0);
}
