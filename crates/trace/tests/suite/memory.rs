//! Traces that are kept in memory, and traces that replace others only at the end.

use std::fs;

use crate::common::Tables;
use crate::common::create;
use crate::common::new_dir;
use pagewise_trace::*;

fn event(time_ns: u64) -> Event {
    Event {
        time_ns,
        space: 1,
        tid: None,
        kind: EventKind::Eviction,
        address: time_ns << 12,
        latency_ns: None,
        stack: None,
    }
}

#[test]
fn what_is_in_memory_reads_back_from_disk() {
    let (_parent, dir) = new_dir();
    let mut writer = TraceWriter::in_memory(Meta::default()).unwrap();
    let tables = Tables::numbered(0..1000);
    tables.push_to(&mut writer);
    let snapshot = writer.snapshot().unwrap();
    // The recording goes on.
    writer.events.push(event(1 << 40)).unwrap();
    let written = snapshot.write(&dir, Overwrite::Refuse, None).unwrap();
    written.close().unwrap();
    let mut read = Tables::read(&dir).unwrap();
    // A closed trace holds one row a space; here each has its own number.
    assert_eq!(read.spaces.len(), 1000);
    read.spaces = tables.spaces.clone();
    assert_eq!(read, tables);
    assert_eq!(writer.snapshot().unwrap().meta, Meta::default());
}

fn pressure(time_ns: u64, waited_ns: u64) -> Pressure {
    Pressure {
        time_ns,
        psi_some_ns: None,
        psi_full_ns: None,
        machine_psi_some_ns: Some(waited_ns),
        machine_psi_full_ns: None,
        delay_swapin_ns: None,
        delay_freepages_ns: Some(2 * waited_ns),
        delay_thrashing_ns: None,
        delay_blkio_ns: None,
    }
}

/// What the other tables have lost is not waited for either.
#[test]
fn waits_count_from_the_first_that_is_kept() {
    let waits = |writer: &mut TraceWriter| {
        let (_parent, dir) = new_dir();
        let snapshot = writer.snapshot().unwrap();
        let written = snapshot.write(&dir, Overwrite::Refuse, None).unwrap();
        written.close().unwrap();
        Tables::read(&dir).unwrap().pressure
    };
    let mut writer = TraceWriter::in_memory(Meta::default()).unwrap();
    for second in 0..4u64 {
        let row = pressure(second * 1000, 100 * second);
        writer.pressure.push(row).unwrap();
        writer.forget(0, u64::MAX).unwrap();
    }
    assert_eq!(waits(&mut writer).last(), Some(&pressure(3000, 300)));
    writer.forget(1500, u64::MAX).unwrap();
    let rows = [pressure(2000, 0), pressure(3000, 100)];
    assert_eq!(waits(&mut writer), rows);
    writer.forget(2500, u64::MAX).unwrap();
    let alone = &waits(&mut writer)[0];
    assert_eq!(
        (alone.machine_psi_some_ns, alone.delay_freepages_ns),
        (None, None)
    );
}

#[test]
fn the_oldest_events_go_and_what_lives_stays() {
    let (_parent, dir) = new_dir();
    let mut writer = TraceWriter::in_memory(Meta::default()).unwrap();
    let tables = Tables::numbered(0..10);
    writer
        .allocations
        .push(tables.allocations[1].clone())
        .unwrap();
    for second in 0..10u64 {
        for number in 0..100 {
            writer.events.push(event(second * 1000 + number)).unwrap();
        }
        writer.forget(0, u64::MAX).unwrap();
    }
    assert_eq!(writer.forgotten_until_ns(), None);
    writer.forget(3000, u64::MAX).unwrap();
    assert_eq!(writer.forgotten_until_ns(), Some(2099));
    let snapshot = writer.snapshot().unwrap();
    let written = snapshot.write(&dir, Overwrite::Refuse, None).unwrap();
    written.close().unwrap();
    let read = Tables::read(&dir).unwrap();
    assert_eq!(read.events.len(), 700);
    assert_eq!(read.events[0].time_ns, 3000);
    assert_eq!(read.allocations, tables.allocations[1..2]);
    // By size: everything that may go.
    writer.forget(0, 0).unwrap();
    assert_eq!(writer.forgotten_until_ns(), Some(9099));
}

#[test]
fn memory_is_bounded_by_bytes() {
    let mut writer = TraceWriter::in_memory(Meta::default()).unwrap();
    let mut kept = Vec::new();
    for second in 0..50u64 {
        for number in 0..10_000 {
            writer
                .events
                .push(event(second * 1_000_000 + number))
                .unwrap();
        }
        writer.forget(0, 1 << 20).unwrap();
        kept.push(second - writer.forgotten_until_ns().map_or(0, |ns| ns / 1_000_000));
    }
    // 33 bytes an event: some 3 batches fit.
    let most = kept.iter().max();
    assert!(most <= Some(&6), "{kept:?}");
    assert!(kept[49] >= 1, "the latest is there: {kept:?}");
}

#[test]
fn churn_of_allocations_does_not_fill_memory() {
    let mut writer = TraceWriter::in_memory(Meta::default()).unwrap();
    let row = Tables::numbered(1..2);
    let mut space = row.spaces[0].clone();
    (space.space, space.end_ns) = (1, None);
    writer.spaces.push(space).unwrap();
    for second in 0..20u64 {
        for number in 0..20_000u64 {
            let time_ns = second * 1_000_000 + number * 2;
            let mut allocation = row.allocations[0].clone();
            (allocation.space, allocation.time_ns) = (1, time_ns);
            allocation.address = (number % 100) << 12;
            writer.allocations.push(allocation).unwrap();
            let release = Release {
                space: 1,
                time_ns: time_ns + 1,
                address: (number % 100) << 12,
                bytes: None,
            };
            writer.releases.push(release).unwrap();
        }
        writer
            .events
            .push(event(second * 1_000_000 + 999_999))
            .unwrap();
        writer.forget(second * 1_000_000, 1 << 30).unwrap();
    }
    let (_parent, dir) = new_dir();
    let written = writer.snapshot().unwrap();
    let written = written.write(&dir, Overwrite::Refuse, None).unwrap();
    written.close().unwrap();
    let read = Tables::read(&dir).unwrap();
    // Of 400,000 allocations, those of the last seconds.
    assert!(
        read.allocations.len() < 100_000,
        "{}",
        read.allocations.len()
    );
    assert!(read.allocations.len() >= 20_000);
}

#[test]
fn a_prepared_trace_replaces_the_old_one_only_when_it_settles() {
    let (parent, dir) = new_dir();
    crate::common::closed(&dir, 3);
    let before = fs::read(dir.join(META_FILE)).unwrap();
    for overwrite in [Overwrite::Replace, Overwrite::KeepOld] {
        let writer = TraceWriter::prepare(&dir, Meta::default(), overwrite).unwrap();
        assert_eq!(fs::read(dir.join(META_FILE)).unwrap(), before);
        writer.abandon().unwrap();
        assert_eq!(crate::common::file_names(parent.path()), ["pagewise.data"]);
    }
    let mut writer = TraceWriter::prepare(&dir, Meta::default(), Overwrite::KeepOld).unwrap();
    writer.events.push(event(7)).unwrap();
    writer.flush().unwrap();
    writer.settle().unwrap();
    writer.events.push(event(8)).unwrap();
    assert_eq!(writer.dir(), dir);
    writer.close().unwrap();
    assert_eq!(Tables::read(&dir).unwrap().events, [event(7), event(8)]);
    let names = crate::common::file_names(parent.path());
    assert_eq!(names, ["pagewise.data", "pagewise.data.old"]);
}

#[test]
fn an_empty_folder_is_used_as_it_is_and_left_so() {
    let (_parent, dir) = new_dir();
    fs::create_dir(&dir).unwrap();
    let writer = TraceWriter::prepare(&dir, Meta::default(), Overwrite::Refuse).unwrap();
    assert_eq!(writer.dir(), dir);
    writer.abandon().unwrap();
    assert!(crate::common::file_names(&dir).is_empty());
}

#[test]
fn bytes_on_disk_are_those_of_the_streams() {
    let (_parent, dir) = new_dir();
    let mut writer = create(&dir);
    Tables::numbered(0..1000).push_to(&mut writer);
    writer.flush().unwrap();
    let files = TABLE_NAMES
        .iter()
        .map(|table| dir.join(format!("{table}.arrows")));
    let bytes: u64 = files.map(|file| fs::metadata(file).unwrap().len()).sum();
    assert_eq!(writer.bytes_on_disk(), bytes);
}
