//! A recorder that is killed (`kill -9`), and who owns what it and its successor write.

use std::io::BufRead;
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use crate::common::Tables;
use crate::common::crashed;
use crate::common::create;
use crate::common::new_dir;
use pagewise_trace::*;

const FOLDER: &str = "PAGEWISE_TEST_RECORD_TO";
const ROWS_PER_FLUSH: u32 = 500;

/// Flushes until it is killed, saying so each time.
fn record(folder: &Path) {
    let mut writer = create(folder);
    for flush in 0.. {
        Tables::numbered(flush * ROWS_PER_FLUSH..(flush + 1) * ROWS_PER_FLUSH).push_to(&mut writer);
        writer.flush().unwrap();
        eprintln!("flushed {flush}");
    }
}

/// Starts itself once more as the recorder to be killed.
#[test]
fn everything_up_to_the_last_flush_survives_a_kill() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        record(Path::new(&folder));
    }
    let (_parent, dir) = new_dir();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "kill::everything_up_to_the_last_flush_survives_a_kill",
            "--exact",
            "--nocapture",
        ])
        .env(FOLDER, &dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut flushed = None;
    while flushed < Some(5) {
        let line = lines.next().unwrap().unwrap();
        flushed = line
            .strip_prefix("flushed ")
            .map(|n| n.parse::<u32>().unwrap())
            .or(flushed);
    }
    assert!(Trace::open(&dir).unwrap().in_progress());
    assert!(matches!(recover(&dir), Err(TraceError::InUse { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines.map_while(Result::ok) {
        flushed = line
            .strip_prefix("flushed ")
            .map(|n| n.parse::<u32>().unwrap())
            .or(flushed);
    }

    let read = Tables::read(&dir).unwrap();
    let rows = read.events.len() as u32;
    // One flush more may have counted before it could be reported.
    let reported = (flushed.unwrap() + 1) * ROWS_PER_FLUSH;
    assert!(
        rows == reported || rows == reported + ROWS_PER_FLUSH,
        "{rows}, {reported}"
    );
    assert_eq!(read, Tables::numbered(0..rows));
    let dropped = Trace::open(&dir).unwrap().recovered().unwrap().clone();
    assert_eq!(recover(&dir).unwrap(), dropped);
    assert_eq!(Tables::read(&dir).unwrap(), read);
}

fn owners(dir: &Path) -> Vec<(u32, u32)> {
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let all = files
        .chain([dir.to_owned()])
        .map(|path| path.metadata().unwrap());
    let mut owners: Vec<_> = all.map(|meta| (meta.uid(), meta.gid())).collect();
    owners.dedup();
    owners
}

/// As root the trace goes to somebody else, as anybody else to oneself: it must hold for both.
#[test]
fn a_trace_belongs_to_its_owner_also_after_recovery() {
    let (parent, dir) = new_dir();
    let me = parent.path().metadata().unwrap();
    let owner = match me.uid() {
        0 => Owner {
            uid: 4321,
            gid: 4321,
        },
        uid => Owner { uid, gid: me.gid() },
    };
    let mut writer = create(&dir);
    writer.set_owner(owner).unwrap();
    Tables::numbered(0..5).push_to(&mut writer);
    writer.update_meta(|meta| meta.wall_ns = Some(1)).unwrap();
    assert_eq!(owners(&dir), [(owner.uid, owner.gid)]);
    writer.close().unwrap();
    assert_eq!(owners(&dir), [(owner.uid, owner.gid)]);

    let dir = parent.path().join("crashed");
    crashed(&dir, 1, 5);
    let mut writer = TraceWriter::resume(&dir).unwrap().unwrap();
    writer.set_owner(owner).unwrap();
    drop(writer);
    recover(&dir).unwrap();
    assert_eq!(owners(&dir), [(owner.uid, owner.gid)]);
}
