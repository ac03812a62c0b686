//! When is observed and how much is kept: `--duration`, `--delay`, `--max-size`, `--snapshot`, and a full disk.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::install::pagewise;
use crate::common::machine::Machine;
use crate::common::programs::compile_pattern;
use crate::common::programs::folder_with;
use crate::common::within;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

const LIMIT: &str = "--memory 16M --swap zram --swap-size 256M";

#[test]
fn times_and_sizes_that_make_no_sense_are_refused() {
    let folder = tempdir().expect("a folder");
    for option in ["--duration", "--delay"] {
        for time in ["", "-1", "0", "0ms", "abc", "5x", "1.2.3", "2y"] {
            let ended = run(folder.path(), &["record", option, time, "--", "true"]);
            ended.expect_refusal(125, &["is not a time", "500ms"]);
        }
    }
    let snapshot = run(folder.path(), &["record", "--snapshot=-1", "--", "true"]);
    snapshot.expect_refusal(125, &["is not a time"]);
    for (size, word) in [
        ("4K", "at least 1M"),
        ("0", "is not a size"),
        ("60%", "peak"),
    ] {
        let ended = run(folder.path(), &["record", "--max-size", size, "--", "true"]);
        ended.expect_refusal(125, &[word]);
    }
    assert!(!folder.path().join("pagewise.data").exists());
}

#[test]
fn after_the_duration_the_program_goes_on_to_its_own_end() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let options = format!("{LIMIT} --duration 500ms");
    let mut recorder = start(command(
        folder.path(),
        &record_arguments(&options, "./ends 24 0 forever"),
    ));
    // The recording is complete and can be read while the program runs.
    let meta = folder.path().join("pagewise.data/meta.json");
    let closed = || fs::read_to_string(&meta).is_ok_and(|text| text.contains("\"closed\""));
    assert!(within(Duration::from_secs(30), closed));
    let early = report(folder.path());
    // It is still there, and we still look after it: a signal to us is for the program.
    recorder.signal(Signal::TERM);
    assert_eq!(recorder.wait(), Some(128 + 15));
    recorder.end().expect_told(&["recorded to pagewise.data"]);
    machine.assert_restored();
    assert_eq!(early["exit"]["code"], Value::Null);
    assert_eq!(early["complete"], true);
    let wall = early["summary"]["wall_ns"].as_u64().expect("a time");
    assert!(wall >= 500_000_000, "{wall}");
    assert!(early["summary"]["swap_ins"].as_u64() > Some(0));
}

#[test]
fn the_delay_leaves_out_the_start_and_keeps_the_names() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let options = format!("{LIMIT} --delay 500ms --duration 1");
    let recorder = start(command(
        folder.path(),
        &record_arguments(&options, "./ends 24 0 forever"),
    ));
    let meta = folder.path().join("pagewise.data/meta.json");
    let closed = || fs::read_to_string(&meta).is_ok_and(|text| text.contains("\"closed\""));
    assert!(within(Duration::from_secs(30), closed));
    recorder.signal(Signal::TERM);
    recorder.end();
    machine.assert_restored();
    let report = report(folder.path());
    let worst = &report["objects"][0];
    assert_eq!(worst["name"], "buffer", "made before: {worst}");
    // Faults of the delay are neither seen nor missed.
    let summary = &report["summary"];
    assert!(summary["swap_ins"].as_u64() > Some(100), "{summary}");
    assert!(
        summary["faults_without_exception"].as_u64() <= Some(16),
        "{summary}"
    );
}

#[test]
fn a_program_that_ends_before_the_delay_was_not_observed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    record(folder.path(), &format!("{LIMIT} --delay 1h"), "true").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    assert_eq!(report["summary"]["swap_ins"], Value::Null);
    let state = report["sensors"]["faults"].as_str().expect("a state");
    assert!(state.contains("--delay"), "{state}");
}

#[test]
fn beyond_the_size_events_are_counted_and_the_totals_right() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_pattern(folder.path());
    let options = "--memory 32M --swap zram --swap-size 512M --max-size 1M";
    let ended = record(folder.path(), options, "./pattern --mib 16 --passes 6").expect_code(0);
    machine.assert_restored();
    let own = ended.json();
    ended.expect_told(&["--max-size", "counted"]);
    let report = report(folder.path());
    let summary = &report["summary"];
    let total = |name: &str| {
        summary[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {summary}"))
    };
    assert!(total("counted_events") > 20_000, "{summary}");
    let faults = own["ru_majflt"].as_u64().expect("a count");
    let expected = faults - total("file_major_faults") - total("faults_without_exception");
    let recorded = total("swap_ins") - total("swap_cache_hits");
    assert!(
        recorded.abs_diff(expected) <= faults / 1000 + 16,
        "{recorded}, {expected}: {summary}"
    );
    // By object, within a region at each end.
    for array in own["arrays"].as_array().expect("arrays") {
        let (name, majors) = (
            &array["name"],
            array["major_faults"].as_u64().expect("a count"),
        );
        let objects = report["objects"].as_array().expect("objects");
        let object = objects.iter().find(|object| &object["name"] == name);
        let found = object
            .and_then(|object| object["swap_ins"].as_u64())
            .expect("found");
        assert!(
            found.abs_diff(majors) <= majors / 8 + 64,
            "{name}: {found} of {majors}"
        );
    }
    let files = fs::read_dir(folder.path().join("pagewise.data")).expect("a trace");
    let bytes: u64 = files
        .map(|file| file.expect("a file").metadata().expect("data").len())
        .sum();
    assert!(bytes <= 1 << 20, "{bytes}");
}

/// Folders of snapshots that are closed.
fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("listed").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let closed = fs::read_to_string(path.join("meta.json"))
                .is_ok_and(|text| text.contains("\"closed\""));
            name.starts_with("pagewise.data.2") && closed
        })
        .collect()
}

#[test]
fn snapshots_are_written_when_asked_for_and_at_the_end() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    let options = format!("{LIMIT} --snapshot=1s");
    let recorder = start(command(
        folder.path(),
        &record_arguments(&options, "./ends 24 0 forever"),
    ));
    std::thread::sleep(Duration::from_millis(3500));
    assert!(
        !folder.path().join("pagewise.data").exists(),
        "all is in memory"
    );
    recorder.signal(Signal::USR1);
    let written = within(Duration::from_secs(30), || {
        snapshots(folder.path()).len() == 1
    });
    recorder.signal(Signal::TERM);
    let ended = recorder.end().expect_code(128 + 15);
    machine.assert_restored();
    assert!(written, "{ended:#?}");
    ended.expect_told(&["snapshot written to pagewise.data.2"]);
    for trace in [
        snapshots(folder.path())[0].clone(),
        folder.path().join("pagewise.data"),
    ] {
        let trace = trace.display().to_string();
        let report = run(folder.path(), &["report", "--json", &trace])
            .expect_code(0)
            .json();
        assert_eq!(report["complete"], true);
        let worst = &report["objects"][0];
        assert_eq!(worst["name"], "buffer", "{worst}");
        assert!(
            report["summary"]["swap_ins"].as_u64() > Some(100),
            "{}",
            report["summary"]
        );
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("ends.c");
    // A limit of file sizes stands for a full disk: it comes in the midst of a storm. The allocation stream's ring,
    // which is a file too, is smaller.
    let mut limited = Command::new("prlimit");
    limited
        .args(["--fsize=12000000", "--"])
        .arg(pagewise())
        .args(record_arguments(LIMIT, "sh -c"))
        .arg("./ends 24 60 code 0; echo ended")
        .current_dir(folder.path());
    for (name, _) in command::<&str>(folder.path(), &[]).get_envs() {
        limited.env_remove(name);
    }
    let ended = start(limited).end().expect_code(125);
    machine.assert_restored();
    assert!(
        ended.stdout.ends_with("ended\n"),
        "the program went on: {ended:#?}"
    );
    let ended = ended.expect_told(&[
        "events.arrows",
        "the recording ends here, the program goes on",
    ]);
    ended.expect_told(&["cut short", "pagewise report pagewise.data"]);
    let report = report(folder.path());
    assert_eq!(report["complete"], false);
    assert_eq!(
        report["objects"][0]["name"], "buffer",
        "{}",
        report["objects"][0]
    );
    assert!(
        report["summary"]["swap_ins"].as_u64() > Some(10_000),
        "{}",
        report["summary"]
    );
}
