//! Memory that the analysis of many objects takes. One test only: it looks at the process.

use pagewise_analyze::analyze;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Site;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

const OBJECTS: u32 = 50_000;
const PAGE: u64 = 4096;
const BASE: u64 = 0x7f00_0000_0000;

/// A kilobyte for each of a million objects is a gigabyte.
const MOST_BYTES: u64 = 1500 * OBJECTS as u64;

#[test]
fn an_object_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer =
        TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("created");
    for number in 0..OBJECTS {
        add_object(&mut writer, number);
    }
    writer.close().expect("closed");
    let trace = Trace::open(&dir).expect("opened");
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak is forgotten");
    let before = status_bytes("VmRSS:");
    let findings = analyze(&trace).expect("analyzed");
    let taken = status_bytes("VmHWM:").saturating_sub(before);
    assert_eq!(findings.objects.len(), OBJECTS as usize);
    assert!(taken < MOST_BYTES, "{taken} bytes for {OBJECTS} objects");
}

/// One allocation at a site of its own, whose page left memory and came back.
fn add_object(writer: &mut TraceWriter, number: u32) {
    let address = BASE + u64::from(number) * PAGE;
    let allocation = Allocation {
        allocation: u64::from(number),
        space: 1,
        tid: 1,
        time_ns: u64::from(number),
        address,
        bytes: PAGE,
        kind: AllocationKind::Malloc,
        stack: Some(number),
        estimated_bytes: None,
    };
    writer.allocations.push(allocation).expect("pushed");
    let site = Site {
        stack: number,
        name: Some(format!("node{number}")),
        file: Some("/home/me/storm/storm.c".to_owned()),
        line: Some(1 + number),
        function: Some("prepare".to_owned()),
        type_name: None,
    };
    writer.sites.push(site).expect("pushed");
    let event = |kind, latency_ns| Event {
        time_ns: u64::from(OBJECTS + number),
        space: 1,
        tid: Some(1),
        kind,
        address,
        latency_ns,
        stack: None,
    };
    let events = &mut writer.events;
    events
        .push(event(EventKind::Eviction, None))
        .expect("pushed");
    events
        .push(event(EventKind::SwapIn, Some(3000)))
        .expect("pushed");
}

/// A line of /proc/self/status, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number") * 1024
}
