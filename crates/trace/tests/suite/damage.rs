//! Cut and changed files: an error or a prefix, never a wrong row, never a panic.

use std::fs;
use std::path::Path;

use crate::common::Random;
use crate::common::Tables;
use crate::common::closed;
use crate::common::copy;
use crate::common::crashed;
use crate::common::file_names;
use crate::common::new_dir;
use pagewise_trace::*;

fn truncate(path: &Path, length: u64) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(length)
        .unwrap();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Everything that may be read from a damaged trace must be a prefix of what was written.
fn check_prefix(dir: &Path, whole: &Tables, what: &str) {
    if let Ok(trace) = Trace::open(dir) {
        assert!(Tables::read_prefixes(&trace).is_prefix_of(whole), "{what}");
    }
    if recover(dir).is_ok() {
        let trace = Trace::open(dir).unwrap();
        assert!(
            Tables::read_prefixes(&trace).is_prefix_of(whole),
            "recovered: {what}"
        );
        let meta = trace.meta();
        let (dropped, tables) = (meta.recovered.clone().unwrap_or_default(), &meta.row_counts);
        let complete = tables
            .values()
            .all(|&rows| rows == whole.events.len() as u64);
        assert!(
            complete || dropped.dropped_bytes > 0 || what.contains("journal"),
            "{what}"
        );
    }
}

#[test]
fn a_stream_cut_anywhere_yields_a_prefix() {
    let (parent, dir) = new_dir();
    let whole = crashed(&dir, 3, 6);
    let target = parent.path().join("cut");
    for table in TABLE_NAMES {
        let name = format!("{table}.arrows");
        let full = length(&dir.join(&name));
        // Densely at the ends of the file, sparsely between.
        let cuts = (0..full).filter(|cut| cut % 61 == 0 || *cut < 20 || full - cut < 20);
        for cut in cuts {
            copy(&dir, &target);
            truncate(&target.join(&name), cut);
            let trace = Trace::open(&target).unwrap();
            let recovered = trace.recovered().unwrap();
            assert!(recovered.dropped_bytes > 0, "{name} cut at {cut}");
            assert_eq!(recovered.tables.keys().collect::<Vec<_>>(), [table]);
            let read = Tables::read(&target).unwrap();
            assert!(
                read.is_prefix_of(&whole) && read != whole,
                "{name} cut at {cut}"
            );
        }
    }
}

#[test]
fn recovery_of_a_cut_stream_keeps_the_whole_batches() {
    let (parent, dir) = new_dir();
    let whole = crashed(&dir, 3, 6);
    let target = parent.path().join("cut");
    let full = length(&dir.join("events.arrows"));
    for cut in (0..=full).step_by(97).chain([full - 1, full]) {
        copy(&dir, &target);
        truncate(&target.join("events.arrows"), cut);
        let before = Tables::read(&target).unwrap();
        let reported = Trace::open(&target).unwrap().recovered().cloned().unwrap();
        assert_eq!(recover(&target).unwrap(), reported);
        assert_eq!(reported.dropped_bytes == 0, cut == full);
        let after = Tables::read(&target).unwrap();
        assert_eq!(after, before);
        assert_eq!(after.spaces, whole.spaces);
        assert_eq!(after.events.len() % 6, 0);
    }
    assert_eq!(Tables::read(&target).unwrap(), whole);
}

#[test]
fn a_cut_recording_can_be_resumed_and_extended() {
    let (_parent, dir) = new_dir();
    let whole = crashed(&dir, 3, 6);
    truncate(
        &dir.join("events.arrows"),
        length(&dir.join("events.arrows")) - 1,
    );
    let mut writer = TraceWriter::resume(&dir).unwrap().unwrap();
    writer.events.push(whole.events[17].clone()).unwrap();
    writer.flush().unwrap();
    // A second crash, after which the journal holds lines that were taken back.
    drop(writer);
    let expected = [&whole.events[..12], &whole.events[17..]].concat();
    assert_eq!(Tables::read(&dir).unwrap().events, expected);
    recover(&dir).unwrap();
    assert_eq!(Tables::read(&dir).unwrap().events, expected);
}

#[test]
fn junk_behind_the_last_flush_is_dropped_and_counted() {
    let (_parent, dir) = new_dir();
    let whole = crashed(&dir, 2, 6);
    let path = dir.join("samples.arrows");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0xff; 1234]);
    fs::write(&path, bytes).unwrap();
    assert_eq!(
        Trace::open(&dir)
            .unwrap()
            .recovered()
            .unwrap()
            .dropped_bytes,
        1234
    );
    assert_eq!(Tables::read(&dir).unwrap(), whole);
    assert_eq!(recover(&dir).unwrap().dropped_bytes, 1234);
    assert_eq!(
        Trace::open(&dir).unwrap().recovered().unwrap().tables["samples"],
        1234
    );
}

#[test]
fn a_journal_cut_anywhere_yields_a_prefix() {
    let (parent, dir) = new_dir();
    let whole = crashed(&dir, 3, 6);
    let target = parent.path().join("cut");
    for cut in (0..length(&dir.join("journal"))).step_by(41) {
        copy(&dir, &target);
        truncate(&target.join("journal"), cut);
        check_prefix(&target, &whole, "journal");
    }
}

#[test]
fn changed_bytes_in_a_recording_never_yield_wrong_rows() {
    let (parent, dir) = new_dir();
    let whole = crashed(&dir, 3, 6);
    let target = parent.path().join("changed");
    let mut random = Random(0x9e37_79b9);
    for name in file_names(&dir).iter().filter(|name| *name != META_FILE) {
        for _ in 0..8 {
            copy(&dir, &target);
            let mut bytes = fs::read(target.join(name)).unwrap();
            let position = random.below(bytes.len() as u64) as usize;
            bytes[position] ^= 1 + random.below(255) as u8;
            fs::write(target.join(name), bytes).unwrap();
            check_prefix(&target, &whole, &format!("{name} at {position}"));
        }
    }
}

#[test]
fn changed_bytes_in_a_closed_table_are_found() {
    let (_parent, dir) = new_dir();
    let whole = closed(&dir, 300);
    let mut random = Random(0x517c_c1b7);
    for table in TABLE_NAMES {
        let path = dir.join(format!("{table}.parquet"));
        let good = fs::read(&path).unwrap();
        for _ in 0..15 {
            let mut bad = good.clone();
            let position = random.below(bad.len() as u64) as usize;
            bad[position] ^= 1 + random.below(255) as u8;
            fs::write(&path, bad).unwrap();
            match Tables::read(&dir) {
                Err(TraceError::Corrupt {
                    path: named,
                    detail,
                }) => {
                    assert_eq!(named, path);
                    assert!(detail.contains("checksum"), "{detail}");
                }
                other => panic!("{table} at {position}: {other:?}"),
            }
            assert!(Tables::read_prefixes(&Trace::open(&dir).unwrap()).is_prefix_of(&whole));
        }
        fs::write(&path, good).unwrap();
    }
    assert_eq!(Tables::read(&dir).unwrap(), whole);
}

#[test]
fn a_closed_table_cut_anywhere_is_truncated_or_empty() {
    let (_parent, dir) = new_dir();
    closed(&dir, 300);
    let path = dir.join("events.parquet");
    let good = fs::read(&path).unwrap();
    for cut in (0..good.len()).step_by(37) {
        fs::write(&path, &good[..cut]).unwrap();
        match Trace::open(&dir) {
            Err(TraceError::Empty { path: named }) if cut == 0 => assert_eq!(named, path),
            Err(TraceError::Truncated { path: named, .. }) if cut > 0 => assert_eq!(named, path),
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
}

/// Without checksums the decoders themselves must hold: they may find fault or not, but never panic.
#[test]
fn changed_bytes_without_checksums_do_not_panic() {
    let (_parent, dir) = new_dir();
    closed(&dir, 300);
    remove_checksums(&dir);
    let mut random = Random(0x2545_f491);
    let mut failures = 0;
    for table in ["events", "frames"] {
        let path = dir.join(format!("{table}.parquet"));
        let good = fs::read(&path).unwrap();
        for _ in 0..300 {
            let mut bad = good.clone();
            let position = random.below(bad.len() as u64) as usize;
            bad[position] ^= 1 + random.below(255) as u8;
            fs::write(&path, bad).unwrap();
            failures += usize::from(Tables::read(&dir).is_err());
        }
        fs::write(&path, good).unwrap();
    }
    assert!(failures > 100, "only {failures} of 600 were noticed");
}

#[test]
fn changed_bytes_in_meta_never_panic() {
    let (_parent, dir) = new_dir();
    let whole = closed(&dir, 5);
    let path = dir.join(META_FILE);
    let good = fs::read(&path).unwrap();
    let mut random = Random(0xb504_f333);
    for position in 0..good.len() {
        let mut bad = good.clone();
        bad[position] ^= 1 + random.below(255) as u8;
        fs::write(&path, &bad).unwrap();
        if let Ok(read) = Tables::read(&dir) {
            assert_eq!(read, whole);
        }
    }
}

#[test]
fn a_cut_meta_is_truncated_or_empty() {
    let (_parent, dir) = new_dir();
    closed(&dir, 5);
    let path = dir.join(META_FILE);
    let good = fs::read(&path).unwrap();
    for cut in 0..good.len() - 2 {
        fs::write(&path, &good[..cut]).unwrap();
        match Trace::open(&dir) {
            Err(TraceError::Empty { .. }) => assert_eq!(cut, 0),
            Err(TraceError::Truncated { .. }) => assert!(cut > 0),
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
}

/// Files may have holes, so that their length says nothing about what memory or disk they need.
const TERABYTE: u64 = 1 << 40;

#[test]
fn a_batch_of_a_terabyte_is_refused_before_it_is_read() {
    let (_parent, dir) = new_dir();
    crashed(&dir, 1, 6);
    truncate(&dir.join("events.arrows"), TERABYTE);
    let line = format!("events 0 {TERABYTE} 6 00000000");
    let line = format!("{line} {:08x}\n", crc32fast::hash(line.as_bytes()));
    let journal = fs::read_to_string(dir.join("journal")).unwrap();
    fs::write(dir.join("journal"), journal + &line).unwrap();
    let read = Tables::read(&dir).unwrap_err().to_string();
    assert!(
        read.contains("events.arrows") && read.contains("too many"),
        "{read}"
    );
}

#[test]
fn a_footer_of_gigabytes_is_refused_before_it_is_read() {
    let (_parent, dir) = new_dir();
    closed(&dir, 6);
    remove_checksums(&dir);
    let path = dir.join("events.parquet");
    truncate(&path, TERABYTE - 8);
    let mut bytes = vec![0xff, 0xff, 0xff, 0x7f];
    bytes.extend(b"PAR1");
    use std::io::Write;
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes).unwrap();
    let read = Tables::read(&dir).unwrap_err().to_string();
    assert!(
        read.contains("events.parquet") && read.contains("2147483647 bytes"),
        "{read}"
    );
}

#[test]
fn checksums_of_huge_blocks_are_refused() {
    let (_parent, dir) = new_dir();
    closed(&dir, 6);
    let path = dir.join(META_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let huge = text.replace("\"block_bytes\": 1048576", "\"block_bytes\": 1099511627776");
    assert_ne!(text, huge);
    fs::write(&path, huge).unwrap();
    let read = Tables::read(&dir).unwrap_err().to_string();
    assert!(
        read.contains("checksums in meta.json are unusable"),
        "{read}"
    );
}

fn remove_checksums(dir: &Path) {
    let path = dir.join(META_FILE);
    let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    meta.as_object_mut().unwrap().remove("checksums");
    fs::write(&path, meta.to_string()).unwrap();
}
