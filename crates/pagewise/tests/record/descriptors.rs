//! Many processes, and few files that may be open.

use std::process::Command;

use crate::common::command::Ended;
use crate::common::command::report;
use crate::common::command::start;
use crate::common::install::pagewise;
use crate::common::programs::folder_with;
use tempfile::TempDir;

const CHILDREN: u64 = 300;

/// Records all the processes after a command of the shell that sets a limit.
fn record_under(limit: &str) -> (TempDir, Ended) {
    let folder = folder_with("many.c");
    let record = "\"$0\" record --sensors residency,allocations -- ./many";
    let mut shell = Command::new("sh");
    let script = format!("{limit} && {record} {CHILDREN}");
    shell.args(["-c", &script]).arg(pagewise());
    shell.current_dir(folder.path());
    let ended = start(shell).end().expect_code(0);
    (folder, ended)
}

#[test]
fn a_low_limit_of_descriptors_is_raised_for_us_and_not_for_the_program() {
    let (folder, ended) = record_under("ulimit -Sn 256");
    assert_eq!(ended.stdout, "256\n");
    let losses = &report(folder.path())["losses"];
    for place in ["allocation_processes", "residency_processes"] {
        assert_eq!(losses[place], 0, "{losses:#}");
    }
}

#[test]
fn what_there_is_no_descriptor_for_is_counted() {
    let (folder, ended) = record_under("ulimit -n 128");
    ended.expect_told(&["records were lost"]);
    let losses = &report(folder.path())["losses"];
    let lost = losses["residency_processes"].as_u64().expect("counted");
    assert!((1..=CHILDREN).contains(&lost), "{losses:#}");
}
