//! `export` and `import` as a user types them: files, pipes, full disks, refusals.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::install::pagewise;
use tempfile::TempDir;
use tempfile::tempdir;

const FORMATS: &[(&str, &str)] = &[
    ("perfetto", "pagewise.perfetto-trace"),
    ("pprof", "pagewise.pb.gz"),
    ("folded", "pagewise.folded"),
    ("csv", "pagewise.csv"),
    ("parquet", "pagewise.parquet"),
];

/// A good recording; needs no root.
fn recording() -> TempDir {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--sensors allocations", "true").expect_code(0);
    folder
}

fn is_there(folder: &Path, name: &str) -> bool {
    folder.join(name).exists()
}

/// Files that nobody asked for.
fn leftovers(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("read").map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn each_format_has_a_file_of_its_own_that_is_not_overwritten_unasked() {
    let folder = recording();
    for (format, name) in FORMATS {
        let told = run(folder.path(), &["export", format]).expect_code(0);
        assert_eq!(told.stdout, "");
        told.expect_told(&["wrote", name]);
        let before = fs::read(folder.path().join(name)).expect("written");
        run(folder.path(), &["export", format]).expect_refusal(125, &[name, "exists", "-f"]);
        run(folder.path(), &["export", format, "-f"]).expect_code(0);
        assert_eq!(
            fs::read(folder.path().join(name)).expect("written"),
            before,
            "{format} is not reproducible"
        );
    }
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

/// By the names that the recording has itself: this machine's, today's, the program's.
#[test]
fn a_recording_is_in_the_fleet_once() {
    let folder = recording();
    let append = ["export", "parquet", "--append", "fleet"];
    let told = run(folder.path(), &append).expect_code(0);
    told.expect_told(&["wrote", "fleet/recordings/host=", "/date=20", ".parquet"]);
    let again = run(folder.path(), &append).expect_code(0);
    again.expect_told(&["fleet has this recording already", "nothing was added"]);
    let elsewhere = run(
        folder.path(),
        &["export", "parquet", "--append", "fleet", "--host", "other"],
    );
    elsewhere.expect_code(0).expect_told(&["already"]);
    for table in ["recordings", "events"] {
        let hosts = fs::read_dir(folder.path().join("fleet").join(table)).expect("a table");
        assert_eq!(hosts.count(), 1, "{table}");
    }
}

#[test]
fn standard_output_gets_the_same() {
    let folder = recording();
    run(
        folder.path(),
        &["export", "csv", "pagewise.data", "-o", "events.csv"],
    )
    .expect_code(0);
    let shown = run(folder.path(), &["export", "csv", "-o", "-"]).expect_code(0);
    assert_eq!(
        shown.stdout,
        fs::read_to_string(folder.path().join("events.csv")).expect("text")
    );
    assert_eq!(shown.stderr, "");
    assert!(shown.stdout.starts_with("time_ns,space,pid,"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = recording();
    for (arguments, words) in [
        (
            &["export", "svg"][..],
            &["no format \"svg\"", "perfetto, pprof, folded, csv, parquet"][..],
        ),
        (&["export"], &["FORMAT"]),
        (
            &["export", "csv", "elsewhere"],
            &["no recording at elsewhere"],
        ),
        (&["export", "csv", "."], &["not a pagewise recording"]),
        (
            &["export", "csv", "-o", "pagewise.data"],
            &["pagewise.data is a folder"],
        ),
        (
            &["export", "csv", "-o", "no/such/folder.csv"],
            &["cannot write no/such/folder.csv"],
        ),
        (
            &["export", "csv", "--weight", "stall_ns"],
            &["--weight", "folded"],
        ),
        (
            &["export", "folded", "--weight", "time"],
            &["swap_ins, stall_ns, evictions, io_bytes, io_ns"],
        ),
        (
            &["export", "folded", "--weight", "io_bytes", "-o", "-"],
            &["no calls on files", "record with --io"],
        ),
        (
            &["export", "perfetto", "--call-path", "fault"],
            &["--call-path"],
        ),
        (
            &["export", "pprof", "--call-path", "fault"],
            &["no fault", "call path"],
        ),
        (
            &["export", "csv", "--append", "fleet"],
            &["--append is for parquet only"],
        ),
        (
            &["export", "parquet", "--host", "a"],
            &["not provided", "--append"],
        ),
        (
            &["export", "parquet", "--append", "fleet", "-f"],
            &["cannot be used with"],
        ),
        (
            &["export", "parquet", "--append", "fleet", "--host", "a/b"],
            &["--host \"a/b\"", "letters"],
        ),
        (
            &[
                "export",
                "parquet",
                "--append",
                "fleet",
                "--date",
                "2026-02-30",
            ],
            &["--date \"2026-02-30\"", "YYYY-MM-DD"],
        ),
        (&["import", "perf", "x"], &["perf"]),
        (&["import", "damo", "nothing"], &["cannot read nothing"]),
        (
            &["import", "damo", "pagewise.data"],
            &["cannot read pagewise.data"],
        ),
        (
            &["import", "damo", "pagewise.data/meta.json"],
            &["meta.json", "list of damo's records"],
        ),
    ] {
        run(folder.path(), arguments).expect_refusal(125, words);
    }
    assert_eq!(leftovers(folder.path()), [""; 0]);
    assert!(
        !is_there(folder.path(), "pagewise.csv") && !is_there(folder.path(), "pagewise.data.old")
    );
}

#[test]
fn recordings_that_cannot_be_read_leave_no_file() {
    let folder = recording();
    let trace = folder.path().join("pagewise.data");
    let meta = fs::read_to_string(trace.join("meta.json")).expect("text");
    let newer = meta.replace("\"version\": 1,", "\"version\": 999,");
    fs::write(trace.join("meta.json"), newer).expect("written");
    for (format, _) in FORMATS {
        run(folder.path(), &["export", format]).expect_refusal(125, &["999", "newer pagewise"]);
    }
    fs::write(trace.join("meta.json"), meta).expect("written");
    let mappings = trace.join("mappings.parquet");
    let length = fs::metadata(&mappings).expect("a table").len();
    let file = fs::File::options()
        .write(true)
        .open(&mappings)
        .expect("opened");
    file.set_len(length - 1).expect("cut");
    for (format, name) in FORMATS {
        run(folder.path(), &["export", format])
            .expect_refusal(125, &["mappings.parquet", "cut short"]);
        assert!(!is_there(folder.path(), name));
    }
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

#[test]
fn a_recording_that_was_killed_is_completed_and_exported() {
    let folder = tempdir().expect("a folder");
    let arguments = ["record", "--sensors", "allocations", "--", "sleep", "5"];
    let mut running = start(command(folder.path(), &arguments));
    let journal = folder.path().join("pagewise.data/journal");
    // Fourth in a line is how many rows it vouches for.
    let flushed = || {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        text.lines()
            .any(|line| line.split(' ').nth(3).is_some_and(|rows| rows != "0"))
    };
    assert!(crate::common::within(
        std::time::Duration::from_secs(20),
        flushed
    ));
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    // The keeper ends the program and lets go of the recording in its own time.
    let exported = || run(folder.path(), &["export", "csv", "-f"]).code == Some(0);
    assert!(crate::common::within(
        std::time::Duration::from_secs(20),
        exported
    ));
    assert!(folder.path().join("pagewise.data/events.parquet").exists());
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let folder = recording();
    for (format, _) in FORMATS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(folder.path(), &["export", format, "-o", "-"]);
        let child = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let ended = child.wait_with_output().expect("waited");
        assert_eq!(ended.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{format}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let folder = recording();
    for format in ["perfetto", "pprof", "csv", "parquet"] {
        run(folder.path(), &["export", format, "-o", "/dev/full"])
            .expect_refusal(125, &["/dev/full", "No space left", "free some"]);
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("opened");
        let mut command = command(folder.path(), &["export", format, "-o", "-"]);
        let status = command
            .stdout(full)
            .stderr(Stdio::null())
            .status()
            .expect("ran");
        assert_eq!(status.code(), Some(125), "{format}");
    }
}

#[test]
fn what_is_no_text_is_not_thrown_at_a_terminal() {
    let folder = recording();
    let mut shell = std::process::Command::new("script");
    shell
        .args([
            "-qec",
            &format!("{} export pprof -o -", pagewise().display()),
            "/dev/null",
        ])
        .current_dir(folder.path());
    let ended = start(shell).end();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.stdout.contains("not for terminals"), "{ended:?}");
}

const DAMO: &str = r#"[{"intervals": {"sample_us": "5000", "aggr_us": "100000", "ops_update_us": "1000000"},
    "target_id": 7, "snapshots": [{"start_time": "1000000000", "end_time": "1100000000", "regions": [
        {"start": "4,096", "end": "12,288", "nr_accesses": {"samples": 3, "percent": null},
         "age": {"usec": null, "aggr_intervals": "2"}}]}]}]"#;

#[test]
fn an_import_is_a_recording_and_replaces_none_that_it_should_not() {
    let folder = recording();
    let path = folder.path();
    fs::write(path.join("damon.data"), DAMO).expect("written");
    fs::write(path.join("cut.data"), &DAMO[..DAMO.len() - 9]).expect("written");
    let meta = || fs::read_to_string(path.join("pagewise.data/meta.json")).expect("text");
    let before = meta();
    run(path, &["import", "damo", "cut.data"])
        .expect_refusal(125, &["cut.data is cut short", "line 4"]);
    assert_eq!(meta(), before);
    run(
        path,
        &["import", "damo", "damon.data", "-o", "pagewise.data"],
    )
    .expect_refusal(125, &["exists already"]);
    assert_eq!(meta(), before);

    run(path, &["import", "damo", "damon.data"])
        .expect_code(0)
        .expect_told(&["pagewise.data", "1 regions in 1 snapshots of 1 targets"]);
    assert!(is_there(path, "pagewise.data.old"));
    run(path, &["report"]).expect_code(0);
    let exported = run(path, &["export", "csv", "-o", "-"]).expect_code(0);
    assert_eq!(exported.stdout.lines().count(), 1, "{exported:?}");
    run(
        path,
        &["import", "damo", "damon.data", "-f", "-o", "pagewise.data"],
    )
    .expect_code(0);
}
