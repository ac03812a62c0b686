//! Recordings that `report` cannot read, or not wholly.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::run;
use crate::common::command::start;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

/// A good recording; needs no root.
fn recording() -> (TempDir, PathBuf) {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--sensors allocations", "true").expect_code(0);
    let trace = folder.path().join("pagewise.data");
    (folder, trace)
}

/// A file of the trace with something in it.
fn a_table(trace: &Path) -> PathBuf {
    trace.join("mappings.parquet")
}

#[test]
fn a_missing_recording_says_what_to_type() {
    let folder = tempdir().expect("a folder");
    run(folder.path(), &["report"]).expect_refusal(125, &["no recording", "pagewise record"]);
    run(folder.path(), &["report", "elsewhere"]).expect_refusal(125, &["elsewhere"]);
}

#[test]
fn what_is_no_recording_is_named() {
    let folder = tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "text").expect("written");
    for path in [".", "file", "/dev/null"] {
        run(folder.path(), &["report", path])
            .expect_refusal(125, &[path, "not a pagewise recording"]);
    }
}

#[test]
fn who_else_pages_out_is_recorded_as_check_tells_it() {
    let (folder, _) = recording();
    let document = |words: &[&str]| -> Value {
        let told = run(folder.path(), words).expect_code(0);
        serde_json::from_str(&told.stdout).expect("JSON")
    };
    let report = document(&["report", "--json"]);
    let recorded = report["page_out"].as_array().expect("looked for");
    let check = document(&["check", "--json"]);
    let items = check["items"].as_array().expect("items");
    let item = items.iter().find(|item| item["name"] == "undisturbed");
    let item = item.expect("an item");
    assert_eq!(item["works"], recorded.is_empty(), "{item}");
    for line in recorded {
        let words = line.as_str().expect("text");
        let detail = item["detail"].as_str().expect("text");
        assert!(detail.contains(words), "{detail}");
        let text = run(folder.path(), &["report"])
            .expect_code(0)
            .stdout
            .replace('\n', " ");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_cut_recording_says_where() {
    let (folder, trace) = recording();
    let table = a_table(&trace);
    let length = fs::metadata(&table).expect("a table").len();
    let file = fs::File::options()
        .write(true)
        .open(&table)
        .expect("opened");
    file.set_len(length / 2).expect("cut");
    run(folder.path(), &["report"]).expect_refusal(125, &["mappings.parquet", "cut short"]);
    file.set_len(0).expect("emptied");
    run(folder.path(), &["report"]).expect_refusal(125, &["mappings.parquet"]);
}

#[test]
fn a_damaged_recording_says_where() {
    let (folder, trace) = recording();
    let table = a_table(&trace);
    let mut bytes = fs::read(&table).expect("a table");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&table, bytes).expect("written");
    run(folder.path(), &["report"]).expect_refusal(125, &["mappings.parquet", "damaged"]);
}

#[test]
fn a_damaged_or_empty_meta_file_says_so() {
    let (folder, trace) = recording();
    let meta = trace.join("meta.json");
    for text in ["", "{", "[1, 2]", "\0\0\0\0"] {
        fs::write(&meta, text).expect("written");
        run(folder.path(), &["report"]).expect_refusal(125, &["pagewise.data"]);
    }
}

#[test]
fn a_recording_of_a_newer_version_says_so() {
    let (folder, trace) = recording();
    let meta = trace.join("meta.json");
    let text = fs::read_to_string(&meta).expect("text");
    let newer = text.replace("\"version\": 1,", "\"version\": 999,");
    assert_ne!(text, newer);
    fs::write(&meta, newer).expect("written");
    run(folder.path(), &["report"]).expect_refusal(125, &["999", "newer pagewise"]);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let (folder, _) = recording();
    for arguments in [&["report"][..], &["report", "--json"], &["check"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(folder.path(), arguments);
        let mut child = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let status = child.wait().expect("waited");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "\"$0\" report | head -1"])
        .arg(crate::common::install::pagewise())
        .current_dir(folder.path());
    let ended = start(shell).end().expect_code(0);
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let (folder, _) = recording();
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("opened");
    let status = command(folder.path(), &["report"])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .expect("ran");
    assert_eq!(status.code(), Some(125));
}
