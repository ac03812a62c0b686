//! How small a closed trace is.

use crate::common::create;
use crate::common::new_dir;
use crate::storm::Access;
use crate::storm::storm;
use pagewise_trace::Trace;

const EVENTS: u64 = 300_000;

/// Bytes per event of `events.parquet`, flushed as a recorder does.
fn bytes_per_event(access: Access, pages: u64) -> f64 {
    let (_parent, dir) = new_dir();
    let mut writer = create(&dir);
    for (number, event) in storm(access, pages, EVENTS).enumerate() {
        writer.events.push(event).unwrap();
        if number % 50_000 == 0 {
            writer.flush().unwrap();
        }
    }
    writer.close().unwrap();
    assert_eq!(
        Trace::open(&dir).unwrap().meta().row_counts["events"],
        EVENTS
    );
    let bytes = std::fs::metadata(dir.join("events.parquet")).unwrap().len();
    bytes as f64 / EVENTS as f64
}

#[test]
fn an_event_of_a_storm_takes_at_most_eight_bytes() {
    for (access, pages) in [
        (Access::Sweep, 1 << 17),
        (Access::Random, 1 << 17),
        (Access::Random, 1 << 21),
        (Access::RandomThreads(4), 1 << 17),
        (Access::RandomThreads(4), 1 << 21),
    ] {
        let bytes = bytes_per_event(access, pages);
        println!(
            "{access:?} over {} MiB: {bytes:.2} bytes per event",
            pages >> 8
        );
        assert!(bytes <= 8.0, "{access:?}: {bytes:.2} bytes per event");
    }
}
