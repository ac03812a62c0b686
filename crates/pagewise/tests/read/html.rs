//! `report --html` as a user types it: the file, refusals, pipes, full disks.

use std::fs;
use std::path::Path;

use crate::common::command::record;
use crate::common::command::run;
use tempfile::TempDir;
use tempfile::tempdir;

/// A good recording; needs no root.
fn recording() -> TempDir {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--sensors allocations", "true").expect_code(0);
    folder
}

/// Files that nobody asked for.
fn leftovers(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("read").map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn a_page_is_written_and_not_overwritten_unasked() {
    let folder = recording();
    let page = folder.path().join("r.html");
    let told = run(folder.path(), &["report", "--html", "r.html"]).expect_code(0);
    assert_eq!(told.stdout, "");
    told.expect_told(&["wrote", "r.html"]);
    let before = fs::read_to_string(&page).expect("written");
    assert!(before.starts_with("<!DOCTYPE html>") && before.ends_with("</html>\n"));
    assert!(before.contains("Faults and evictions were not observed"));
    run(folder.path(), &["report", "--html", "r.html"])
        .expect_refusal(125, &["r.html", "exists", "-f"]);
    run(folder.path(), &["report", "--html", "r.html", "-f"]).expect_code(0);
    let after = fs::read_to_string(&page).expect("written");
    assert!(after == before, "it is not reproducible");
    let piped = run(folder.path(), &["report", "--html", "-"]).expect_code(0);
    assert!(piped.stdout == before);
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = recording();
    fs::create_dir(folder.path().join("d")).expect("made");
    run(folder.path(), &["report", "--html", "d"])
        .expect_refusal(125, &["d is a folder", "--html"]);
    run(folder.path(), &["report", "--html", "no/r.html"]).expect_refusal(125, &["no/r.html"]);
    run(folder.path(), &["report", "--html", "/dev/full"])
        .expect_refusal(125, &["/dev/full", "space"]);
    run(folder.path(), &["report", "no.data", "--html", "x.html"])
        .expect_refusal(125, &["no.data"]);
    assert!(!folder.path().join("x.html").exists());
    assert_eq!(leftovers(folder.path()), [""; 0]);
    // Arguments that do not go together.
    run(folder.path(), &["report", "--html", "x.html", "--json"]).expect_refusal(125, &["--json"]);
    run(folder.path(), &["report", "-f"]).expect_refusal(125, &["--html"]);
}
