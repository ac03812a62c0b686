//! Versions, missing and added columns, interrupted closes, and what is in the way of a new trace.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::common::Tables;
use crate::common::closed;
use crate::common::copy;
use crate::common::crashed;
use crate::common::create;
use crate::common::file_names;
use crate::common::new_dir;
use arrow_array::ArrayRef;
use arrow_array::RecordBatch;
use arrow_array::UInt64Array;
use arrow_schema::Schema;
use pagewise_trace::*;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn change_meta(dir: &Path, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = dir.join(META_FILE);
    let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(meta.as_object_mut().unwrap());
    fs::write(&path, meta.to_string()).unwrap();
}

/// Rewrites a table's file as another program would, and drops the checksums that no longer hold.
fn rewrite(dir: &Path, table: &str, change: impl FnOnce(RecordBatch) -> RecordBatch) {
    let path = dir.join(format!("{table}.parquet"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap());
    let batch = reader.unwrap().build().unwrap().next().unwrap().unwrap();
    let batch = change(batch);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    change_meta(dir, |meta| {
        meta.remove("checksums");
    });
}

fn without(batch: &RecordBatch, column: &str) -> RecordBatch {
    let kept = batch
        .schema()
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name() != column)
        .map(|(i, _)| i)
        .collect::<Vec<_>>();
    batch.project(&kept).unwrap()
}

fn with(batch: &RecordBatch, name: &str, array: ArrayRef) -> RecordBatch {
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(arrow_schema::Field::new(
        name,
        array.data_type().clone(),
        true,
    )));
    let columns = batch.columns().iter().cloned().chain([array]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn a_missing_required_column_is_named() {
    let (_parent, dir) = new_dir();
    closed(&dir, 10);
    rewrite(&dir, "events", |batch| without(&batch, "address"));
    let error = Trace::open(&dir)
        .unwrap()
        .events()
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, TraceError::Corrupt { .. }));
    assert!(
        text.contains("events.parquet") && text.contains("column `address` is missing"),
        "{text}"
    );
}

#[test]
fn a_column_of_the_wrong_type_is_named() {
    let (_parent, dir) = new_dir();
    closed(&dir, 10);
    rewrite(&dir, "sites", |batch| {
        let numbers = Arc::new(UInt64Array::from(vec![1; 10]));
        with(&without(&batch, "name"), "name", numbers)
    });
    let text = Trace::open(&dir).unwrap().sites().unwrap_err().to_string();
    assert!(
        text.contains("column `name` has type UInt64, not Utf8"),
        "{text}"
    );
}

#[test]
fn nulls_in_a_required_column_are_refused() {
    let (_parent, dir) = new_dir();
    closed(&dir, 2);
    rewrite(&dir, "moves", |batch| {
        let numbers = Arc::new(UInt64Array::from(vec![Some(1), None]));
        with(&without(&batch, "old_bytes"), "old_bytes", numbers)
    });
    let text = Trace::open(&dir).unwrap().moves().unwrap_err().to_string();
    assert!(text.contains("column `old_bytes` holds 1 nulls"), "{text}");
}

#[test]
fn unknown_columns_are_ignored_and_missing_nullable_ones_are_none() {
    let (_parent, dir) = new_dir();
    let mut expected = closed(&dir, 10).events;
    expected
        .iter_mut()
        .for_each(|event| event.latency_ns = None);
    rewrite(&dir, "events", |batch| {
        let future = Arc::new(UInt64Array::from(vec![7; 10]));
        with(&without(&batch, "latency_ns"), "numa_node", future)
    });
    assert_eq!(Tables::read(&dir).unwrap().events, expected);
}

#[test]
fn a_table_that_an_older_trace_lacks_is_empty() {
    let (_parent, dir) = new_dir();
    closed(&dir, 10);
    fs::remove_file(dir.join("samples.parquet")).unwrap();
    let text = Trace::open(&dir)
        .unwrap()
        .samples()
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("the file is missing, with its 10 rows"),
        "{text}"
    );
    change_meta(&dir, |meta| {
        meta["row_counts"]
            .as_object_mut()
            .unwrap()
            .remove("samples");
    });
    assert_eq!(Trace::open(&dir).unwrap().samples().unwrap(), []);
}

#[test]
fn a_newer_version_is_refused_with_both_numbers() {
    let (_parent, dir) = new_dir();
    closed(&dir, 10);
    change_meta(&dir, |meta| {
        meta["version"] = 7.into();
        meta["schema"] = "pagewise.trace/7".into();
        // A newer format may give its keys another type.
        meta["host"] = 5.into();
    });
    let error = Trace::open(&dir).unwrap_err();
    assert!(matches!(
        error,
        TraceError::NewerVersion {
            found: 7,
            supported: 1,
            ..
        }
    ));
    assert!(error.to_string().contains("install a newer pagewise"));
}

#[test]
fn unknown_meta_keys_are_ignored() {
    let (_parent, dir) = new_dir();
    let tables = closed(&dir, 10);
    change_meta(&dir, |meta| {
        meta.insert("numa".to_owned(), serde_json::json!({"nodes": 2}));
        meta.remove("exit");
    });
    assert_eq!(Tables::read(&dir).unwrap(), tables);
}

#[test]
fn what_is_no_trace_is_told_apart() {
    let (parent, dir) = new_dir();
    let error = Trace::open(&dir).unwrap_err();
    assert!(matches!(error, TraceError::NotFound { .. }));
    let text = error.to_string();
    assert!(
        text.ends_with("pagewise.data: run `pagewise record -- CMD` first"),
        "{text}"
    );

    assert!(matches!(
        Trace::open(parent.path()),
        Err(TraceError::NotATrace { .. })
    ));
    let file = parent.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(
        Trace::open(&file),
        Err(TraceError::NotATrace { .. })
    ));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join(META_FILE), "{\"schema\": \"other/1\"}").unwrap();
    assert!(matches!(
        Trace::open(&dir),
        Err(TraceError::NotATrace { .. })
    ));
    fs::write(dir.join(META_FILE), "").unwrap();
    assert!(matches!(Trace::open(&dir), Err(TraceError::Empty { .. })));
    fs::write(
        dir.join(META_FILE),
        "{\"schema\": \"pagewise.trace/1\", \"version\": 0}",
    )
    .unwrap();
    assert!(matches!(Trace::open(&dir), Err(TraceError::Corrupt { .. })));
}

#[test]
fn a_recording_killed_before_its_first_rows_is_empty() {
    let (_parent, dir) = new_dir();
    drop(create(&dir));
    assert!(matches!(Trace::open(&dir), Err(TraceError::Empty { .. })));
    for name in file_names(&dir).iter().filter(|name| *name != META_FILE) {
        fs::remove_file(dir.join(name)).unwrap();
    }
    assert!(matches!(Trace::open(&dir), Err(TraceError::Empty { .. })));
    recover(&dir).unwrap();
    assert_eq!(Tables::read(&dir).unwrap(), Tables::default());
}

/// Crashes between the steps of a close: both kinds of files are there.
#[test]
fn an_interrupted_close_loses_nothing() {
    let (parent, recording) = new_dir();
    let whole = crashed(&recording, 2, 20);
    let done = parent.path().join("done");
    copy(&recording, &done);
    recover(&done).unwrap();

    let target = parent.path().join("target");
    // Killed between the renames: some Parquet files under their name, some not, meta as before.
    for renamed in 0..=TABLE_NAMES.len() {
        copy(&recording, &target);
        for (number, table) in TABLE_NAMES.iter().enumerate() {
            let name = format!("{table}.parquet");
            let suffix = if number < renamed { "" } else { ".tmp" };
            fs::copy(done.join(&name), target.join(format!("{name}{suffix}"))).unwrap();
        }
        assert_eq!(Tables::read(&target).unwrap(), whole);
        recover(&target).unwrap();
        assert_eq!(Tables::read(&target).unwrap(), whole);
        assert_eq!(file_names(&target), file_names(&done));
    }
    // Killed while writing a Parquet file.
    copy(&recording, &target);
    fs::write(target.join("events.parquet.tmp"), "PAR1").unwrap();
    recover(&target).unwrap();
    assert_eq!(Tables::read(&target).unwrap(), whole);
    // Killed between the meta file and the removals.
    copy(&recording, &target);
    for name in file_names(&done) {
        fs::copy(done.join(&name), target.join(&name)).unwrap();
    }
    fs::remove_file(target.join("events.arrows")).unwrap();
    assert_eq!(Tables::read(&target).unwrap(), whole);
    recover(&target).unwrap();
    assert_eq!(file_names(&target), file_names(&done));
}

#[test]
fn a_stream_of_another_version_is_read_closed_and_not_extended() {
    let (_parent, dir) = new_dir();
    let mut expected = crashed(&dir, 1, 5);
    // As a version that did not know `latency_ns` but a column unknown to this one would write it.
    let path = dir.join("events.arrows");
    let reader = arrow_ipc::reader::StreamReader::try_new(File::open(&path).unwrap(), None);
    let batch = reader.unwrap().next().unwrap().unwrap();
    let other = Arc::new(UInt64Array::from(vec![7; 5]));
    let batch = with(&without(&batch, "latency_ns"), "numa_node", other);
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    drop(writer);
    fs::write(&path, &bytes).unwrap();
    let mut line = format!("events 0 {} 5 {:08x}", bytes.len(), crc32fast::hash(&bytes));
    line = format!("{line} {:08x}\n", crc32fast::hash(line.as_bytes()));
    let journal = fs::read_to_string(dir.join("journal")).unwrap() + &line;
    fs::write(dir.join("journal"), journal).unwrap();
    expected
        .events
        .iter_mut()
        .for_each(|event| event.latency_ns = None);

    assert_eq!(Tables::read(&dir).unwrap(), expected);
    let mut writer = TraceWriter::resume(&dir).unwrap().unwrap();
    let text = writer
        .events
        .push(expected.events[0].clone())
        .unwrap_err()
        .to_string();
    assert!(text.contains("another version of pagewise"), "{text}");
    writer.close().unwrap();
    assert_eq!(Tables::read(&dir).unwrap(), expected);
}

#[test]
fn an_existing_trace_is_refused_replaced_or_kept() {
    let (parent, dir) = new_dir();
    let old = parent.path().join("pagewise.data.old");
    let begin = |overwrite| TraceWriter::create(&dir, Meta::default(), overwrite);
    let tables = closed(&dir, 5);
    let error = begin(Overwrite::Refuse).unwrap_err();
    assert!(matches!(error, TraceError::Exists { .. }));
    assert!(error.to_string().contains("use -f"));

    begin(Overwrite::KeepOld).unwrap().close().unwrap();
    assert_eq!(Tables::read(&old).unwrap(), tables);
    assert_eq!(Tables::read(&dir).unwrap(), Tables::default());
    begin(Overwrite::KeepOld).unwrap().close().unwrap();
    assert_eq!(Tables::read(&old).unwrap(), Tables::default());

    let live = begin(Overwrite::Replace).unwrap();
    for overwrite in [Overwrite::Replace, Overwrite::KeepOld] {
        assert!(matches!(begin(overwrite), Err(TraceError::InUse { .. })));
    }
    live.close().unwrap();
    assert_eq!(file_names(&dir).len(), TABLE_NAMES.len() + 1);
}

#[test]
fn what_is_not_a_trace_is_never_overwritten() {
    let (_parent, dir) = new_dir();
    fs::create_dir(&dir).unwrap();
    create(&dir).close().unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let writer = TraceWriter::create(&dir, Meta::default(), Overwrite::Replace).unwrap();
    writer.close().unwrap();
    assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");

    fs::remove_file(dir.join(META_FILE)).unwrap();
    for overwrite in [Overwrite::Replace, Overwrite::KeepOld] {
        let result = TraceWriter::create(&dir, Meta::default(), overwrite);
        assert!(matches!(result, Err(TraceError::NotATrace { .. })));
    }
    assert!(dir.join("notes.txt").exists() && dir.join("events.parquet").exists());
}

#[test]
fn planted_links_are_not_followed() {
    let (parent, dir) = new_dir();
    let victim = parent.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let whole = crashed(&dir, 1, 5);
    for name in ["events.parquet.tmp", "events.parquet", "meta.json.tmp"] {
        std::os::unix::fs::symlink(&victim, dir.join(name)).unwrap();
    }
    recover(&dir).unwrap();
    assert_eq!(Tables::read(&dir).unwrap(), whole);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
