//! References of a recording of ours.

use std::path::Path;

use pagewise_refs::Format;
use pagewise_refs::Options;
use pagewise_refs::Reader;
use pagewise_trace::Access;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Mapping;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::PageState;
use pagewise_trace::Residency;
use pagewise_trace::TraceWriter;

const REGION: u64 = 0x7f00_0000_0000;

fn fault(time_ns: u64, kind: EventKind, page: u64) -> Event {
    Event {
        time_ns,
        space: 0,
        tid: None,
        kind,
        address: REGION + page * 4096,
        latency_ns: None,
        stack: None,
    }
}

/// A look that found the first and the sixth of eight resident pages accessed.
fn look(time_ns: u64, space: u32, address: u64, dirty_pages: u16) -> Access {
    let zeros = |digits: &str| Some(format!("{digits:0<128}"));
    Access {
        time_ns,
        interval_ns: 100,
        space,
        address,
        resident_pages: 8,
        accessed_pages: 2,
        dirty_pages,
        huge: false,
        swapped_pages: 0,
        resident_map: zeros("ff"),
        accessed_map: zeros("12"),
    }
}

fn write(dir: &Path) {
    let mut writer = TraceWriter::create(dir, Meta::default(), Overwrite::Refuse).unwrap();
    writer.events.push(fault(50, EventKind::SwapIn, 5)).unwrap();
    writer
        .events
        .push(fault(60, EventKind::Eviction, 6))
        .unwrap();
    writer
        .events
        .push(fault(400, EventKind::SwapCacheHit, 0))
        .unwrap();
    writer.accesses.push(look(200, 0, REGION, 8)).unwrap();
    writer.accesses.push(look(200, 0, 0x40_0000, 0)).unwrap();
    writer.accesses.push(look(300, 1, REGION, 3)).unwrap();
    let mapping = Mapping {
        space: 0,
        time_ns: 0,
        start: 0x40_0000,
        end: 0x60_0000,
        permissions: "r-xp".to_owned(),
        offset: 0,
        path: "/bin/true".to_owned(),
    };
    writer.mappings.push(mapping).unwrap();
    for (state, file) in [
        (PageState::Resident, Some(true)),
        (PageState::Swapped, None),
    ] {
        let change = Residency {
            time_ns: 100,
            space: 0,
            address: REGION + (100 << 12),
            bytes: 2 << 12,
            state,
            file,
            mapped: None,
        };
        writer.residency.push(change).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn looks_arrivals_and_faults_come_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("pagewise.data");
    write(&dir);
    let mut reader = Reader::open(&dir, &Options::default()).unwrap();
    assert_eq!(reader.format(), Format::Pagewise);
    let all = reader.read_all().unwrap();
    let words: Vec<String> = (all.iter())
        .map(|reference| {
            let write = if reference.is_write() { "w" } else { "" };
            let file = if reference.is_file() { "f" } else { "" };
            format!("{}{write}{file}", reference.page())
        })
        .collect();
    // A fault, two pages of a file that came in, looks at three regions, a fault.
    assert_eq!(words.join(" "), "0 1f 2f 3w 0w 4f 5f 6 7 3");
}

#[test]
fn a_folder_that_is_no_recording_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Reader::open(folder.path(), &Options::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&folder.path().display().to_string()),
        "{error}"
    );
}
