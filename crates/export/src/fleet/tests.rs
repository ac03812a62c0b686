//! Small traces, appended and read back.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use arrow_array::Array;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use tempfile::TempDir;
use tempfile::tempdir;

use super::*;
use crate::tests::trace_of;
use crate::tests::usual_events;

fn labels(host: &str) -> Labels {
    Labels {
        host: Some(host.to_owned()),
        release: Some("4.2".to_owned()),
        ..Labels::default()
    }
}

fn added(trace: &Trace, folder: &Path, labels: &Labels) -> (PathBuf, PathBuf) {
    match append(trace, folder, labels).expect("appended") {
        Appended::Added { events, recording } => (events, recording),
        other => panic!("{other:?}"),
    }
}

fn read(path: &Path) -> RecordBatch {
    let bytes = bytes::Bytes::from(fs::read(path).expect("a file"));
    let mut reader = ParquetRecordBatchReader::try_new(bytes, 1000).expect("parquet");
    reader.next().expect("rows").expect("read")
}

fn text(batch: &RecordBatch, column: &str) -> Option<String> {
    let values = batch
        .column_by_name(column)
        .expect("a column")
        .as_string::<i32>();
    values.is_valid(0).then(|| values.value(0).to_owned())
}

fn number(batch: &RecordBatch, column: &str) -> Option<i64> {
    let values = batch.column_by_name(column).expect("a column");
    let values = values.as_primitive::<Int64Type>();
    values.is_valid(0).then(|| values.value(0))
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("read") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sample() -> (TempDir, Trace, TempDir) {
    let (dir, trace) = trace_of(&usual_events());
    (dir, trace, tempdir().expect("a folder"))
}

#[test]
fn a_recording_has_its_rows_in_its_partition() {
    let (_dir, trace, fleet) = sample();
    let (events, recording) = added(&trace, fleet.path(), &labels("web-17"));
    let partition = Path::new("host=web-17/date=2023-11-14");
    for (table, file) in [(EVENTS, &events), (RECORDINGS, &recording)] {
        let folder = fleet.path().join(table).join(partition);
        assert_eq!(file.parent(), Some(folder.as_path()));
    }
    assert_eq!(files(fleet.path()), [events.clone(), recording.clone()]);

    let (rows, row) = (read(&events), read(&recording));
    assert_eq!((rows.num_rows(), row.num_rows()), (10, 1));
    for batch in [&rows, &row] {
        assert_eq!(text(batch, "service").as_deref(), Some("sweep"));
        assert_eq!(text(batch, "release").as_deref(), Some("4.2"));
        let id = events.file_stem().map(|stem| stem.to_string_lossy());
        assert_eq!(text(batch, "recording").as_deref(), id.as_deref());
    }
    assert_eq!(text(&row, "command").as_deref(), Some("./sweep a b"));
    assert_eq!(number(&row, "events"), Some(10));
    assert_eq!(number(&row, "limit_bytes"), None, "unknown is not zero");
}

#[test]
fn events_are_those_of_the_plain_export_in_signed_numbers() {
    let (_dir, trace, fleet) = sample();
    let (events, _) = added(&trace, fleet.path(), &labels("a"));
    let rows = read(&events);
    let plain: Vec<_> = EventRows::open(&trace).expect("opened").collect();
    let plain = plain[0].as_ref().expect("read");
    assert_eq!(rows.num_columns(), plain.num_columns() + 3);
    let times = rows.column_by_name("time_ns").expect("a column");
    let wanted = plain.column_by_name("time_ns").expect("a column");
    let wanted = wanted.as_primitive::<arrow_array::types::UInt64Type>();
    let found = times.as_primitive::<Int64Type>();
    assert!(
        found
            .iter()
            .eq(wanted.iter().map(|time| time.map(|ns| ns as i64)))
    );
    assert_eq!(
        rows.column_by_name("latency_ns")
            .map(|column| column.null_count()),
        plain
            .column_by_name("latency_ns")
            .map(|column| column.null_count())
    );
}

#[test]
fn the_same_recording_is_there_once() {
    let (_dir, trace, fleet) = sample();
    let (_, recording) = added(&trace, fleet.path(), &labels("a"));
    let before = files(fleet.path());
    for again in ["a", "b"] {
        let found = append(&trace, fleet.path(), &labels(again)).expect("looked");
        assert_eq!(found, Appended::Already(recording.clone()));
    }
    assert_eq!(files(fleet.path()), before);
}

#[test]
fn another_recording_of_the_same_program_is_another() {
    let (_dir, trace, fleet) = sample();
    let (_other_dir, other) = trace_of(&usual_events()[..5]);
    added(&trace, fleet.path(), &labels("a"));
    added(&other, fleet.path(), &labels("a"));
    assert_eq!(files(fleet.path()).len(), 4);
}

#[test]
fn what_was_interrupted_is_written_again() {
    let (_dir, trace, fleet) = sample();
    let (events, recording) = added(&trace, fleet.path(), &labels("a"));
    let whole = fs::read(&events).expect("read");
    fs::remove_file(&recording).expect("removed");
    fs::write(&events, &whole[..100]).expect("cut");
    added(&trace, fleet.path(), &labels("a"));
    assert_eq!(fs::read(&events).expect("read"), whole);
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let (_dir, trace, fleet) = sample();
    fs::write(fleet.path().join(RECORDINGS), "a file").expect("written");
    let error = append(&trace, fleet.path(), &labels("a")).expect_err("refused");
    assert!(matches!(error, FleetError::Read { .. }), "{error:?}");
    fs::remove_file(fleet.path().join(RECORDINGS)).expect("removed");
    fs::write(fleet.path().join(EVENTS), "a file").expect("written");
    let error = append(&trace, fleet.path(), &labels("a")).expect_err("refused");
    assert!(matches!(error, FleetError::Write { .. }), "{error:?}");
    assert_eq!(files(fleet.path()), [fleet.path().join(EVENTS)]);
}

#[test]
fn labels_that_are_none_are_refused_with_what_to_give() {
    let (_dir, trace, fleet) = sample();
    let refused = |labels: &Labels| {
        let error = append(&trace, fleet.path(), labels).expect_err("refused");
        assert!(files(fleet.path()).is_empty());
        error.to_string()
    };
    assert!(refused(&Labels::default()).contains("--host NAME"));
    for host in ["", "a/b", "..=", "w\u{e9}b", "a b"] {
        assert!(refused(&labels(host)).contains("give letters"), "{host}");
    }
    let dated = Labels {
        date: Some("2026-02-30".to_owned()),
        ..labels("a")
    };
    assert!(refused(&dated).contains("YYYY-MM-DD"));
}
