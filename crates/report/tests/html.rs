//! Pages from recordings made by hand: complete, escaped, and safe to open.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use pagewise_analyze::analyze;
use pagewise_analyze::file_io::analyze_file_io;
use pagewise_report::html;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Frame;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Site;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

const BASE: u64 = 0x7f00_0000_0000;
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\n\x1b[31m\u{202e}";

fn page_of(meta: Meta, fill: impl FnOnce(&mut TraceWriter)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("a trace");
    fill(&mut writer);
    writer.flush().expect("flushed");
    writer.close().expect("closed");
    let trace = Trace::open(&dir).expect("opened");
    let findings = analyze(&trace).expect("analysed");
    let mut out = Vec::new();
    let io = analyze_file_io(&trace).expect("analysed");
    html::write(&trace, findings, io.as_ref(), &[], &mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

fn observed() -> Meta {
    let mut meta = Meta {
        wall_ns: Some(1_000_000),
        end_monotonic_ns: Some(1_000_000),
        ..Meta::default()
    };
    meta.sensors.insert("faults".to_owned(), "on".to_owned());
    meta
}

fn event(kind: EventKind, time_ns: u64, page: u64, stack: Option<u32>) -> Event {
    Event {
        time_ns,
        space: 1,
        tid: Some(1),
        kind,
        address: BASE + page * 4096,
        latency_ns: (kind == EventKind::SwapIn).then_some(5_000),
        stack,
    }
}

fn allocate(writer: &mut TraceWriter, number: u64, pages: u64, name: &str) {
    let allocation = Allocation {
        allocation: number,
        space: 1,
        tid: 1,
        time_ns: 1,
        address: BASE + (number << 24),
        bytes: pages * 4096,
        kind: AllocationKind::Malloc,
        stack: Some(number as u32),
        estimated_bytes: None,
    };
    writer.allocations.push(allocation).expect("pushed");
    let site = Site {
        stack: number as u32,
        name: Some(name.to_owned()),
        file: Some(format!("/src/{name}.c")),
        line: Some(7),
        function: Some(name.to_owned()),
        type_name: None,
    };
    writer.sites.push(site).expect("pushed");
}

/// The text of the element with this id.
fn element<'page>(page: &'page str, id: &str) -> &'page str {
    let begin = page.find(&format!("id=\"{id}\"")).expect("there");
    let begin = begin + page[begin..].find('>').expect("open") + 1;
    let end = begin + page[begin..].find("</script>").expect("closed");
    &page[begin..end]
}

fn model(page: &str) -> serde_json::Value {
    serde_json::from_str(element(page, "model")).expect("JSON")
}

fn unpacked(text: &str) -> Vec<u8> {
    let packed = STANDARD.decode(text).expect("Base64");
    let mut bytes = Vec::new();
    DeflateDecoder::new(&*packed)
        .read_to_end(&mut bytes)
        .expect("deflated");
    bytes
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let mut numbers = vec![0];
    let mut shift = 0;
    for byte in bytes {
        *numbers.last_mut().expect("one") |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(0);
            shift = 0;
        }
    }
    numbers.pop();
    numbers
}

fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// What holds for each page whatever it shows.
fn check(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("default-src 'none'"), "no policy");
    for scheme in [
        "src=\"http",
        "href=",
        "url(",
        "@import",
        "fetch(",
        "XMLHttp",
        "unsafe-inline",
    ] {
        assert!(!page.contains(scheme), "{scheme}");
    }
    // Two libraries' worth of scripts, the model, six columns, and the last word.
    assert_eq!(page.matches("<script").count(), 10);
    assert_eq!(page.matches("</script>").count(), 10);
    let hidden = |character: char| character.is_control() && character != '\n' && character != '\t';
    let found = page.find(hidden).map(|at| &page[at..at + 20]);
    assert_eq!(found, None);
    model(page);
}

#[test]
fn nothing_recorded_is_said_and_not_drawn() {
    let page = page_of(Meta::default(), |_| {});
    check(&page);
    assert!(page.contains("Nothing was swapped."));
    assert!(page.contains("No objects were recorded."));
    assert!(page.contains("<main class=\"without-points\">"));
}

#[test]
fn sensors_that_were_off_are_told() {
    let mut meta = observed();
    for sensor in ["faults", "allocations"] {
        meta.sensors.insert(sensor.to_owned(), "off".to_owned());
    }
    meta.losses.insert("events".to_owned(), 1234);
    let page = page_of(meta, |writer| allocate(writer, 0, 10, "grid"));
    check(&page);
    assert!(page.contains("Faults and evictions were not observed"));
    assert!(page.contains("Sensor faults: off"));
    assert!(page.contains("<li class=\"loss\">Lost: events 1,234</li>"));
    // What was not observed is not 0.
    assert!(page.contains("<td>?</td>"));
    assert_eq!(model(&page)["has_latency"], false);
}

#[test]
fn one_event_without_any_names_is_a_picture() {
    let page = page_of(observed(), |writer| {
        let only = event(EventKind::SwapIn, 500, 3, None);
        writer.events.push(only).expect("pushed");
    });
    check(&page);
    let model = model(&page);
    assert_eq!(model["points"], 1);
    assert_eq!(model["bands"].as_array().map(Vec::len), Some(1));
    assert_eq!(model["bands"][0]["label"], "(memory of no recorded object)");
    assert_eq!(model["has_paths"], false);
}

#[test]
fn call_paths_that_read_the_same_are_one_row() {
    let page = page_of(observed(), |writer| {
        for (stack, recursions) in [(1, 2), (2, 3)] {
            for depth in 0..=recursions {
                let function = match depth == recursions {
                    true => "main",
                    false => "visit",
                };
                let frame = Frame {
                    stack,
                    depth,
                    inline_index: 0,
                    function: Some(function.to_owned()),
                    file: Some("/src/tree.c".to_owned()),
                    line: Some(7),
                    module: None,
                    inlined: false,
                };
                writer.frames.push(frame).expect("pushed");
            }
            let time_ns = 10_000 * u64::from(stack);
            let fault = event(EventKind::SwapIn, time_ns, u64::from(stack), Some(stack));
            writer.events.push(fault).expect("pushed");
        }
    });
    check(&page);
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("data-paths="))
        .collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].contains("data-paths=\"0 1\""), "{rows:?}");
    assert!(rows[0].contains("visit (tree.c:7) &lt; main"), "{rows:?}");
    assert!(rows[0].contains(">10 us</td>"), "{rows:?}");
}

#[test]
fn hostile_names_stay_text() {
    let long = "x".repeat(10_000);
    let mut meta = observed();
    meta.command = vec![HOSTILE.to_owned(), long.clone()];
    meta.swap.path = Some(HOSTILE.to_owned());
    meta.exit.reason = Some(HOSTILE.to_owned());
    meta.sensors.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    meta.losses.insert(HOSTILE.to_owned(), 1);
    meta.cost.insert(HOSTILE.to_owned(), 1.0);
    let page = page_of(meta, |writer| {
        writer.spaces.push(space(HOSTILE)).expect("pushed");
        allocate(writer, 0, 10, HOSTILE);
        allocate(writer, 1, 10, &long);
        for (depth, function) in [HOSTILE, &long, "{{objects}}"].into_iter().enumerate() {
            let frame = Frame {
                stack: 9,
                depth: depth as u16,
                inline_index: 0,
                function: Some(function.to_owned()),
                file: Some(format!("/src/{function}")),
                line: Some(1),
                module: Some(function.to_owned()),
                inlined: false,
            };
            writer.frames.push(frame).expect("pushed");
        }
        for page in [1, 4097] {
            let fault = event(EventKind::SwapIn, 100 + page, page, Some(9));
            writer.events.push(fault).expect("pushed");
        }
    });
    check(&page);
    assert!(!page.contains("<img"));
    assert!(page.len() < 200_000, "long names are cut: {}", page.len());
    let label = model(&page)["bands"][0]["label"].clone();
    let label = label.as_str().expect("text");
    assert!(label.starts_with("</script><script>alert(1)"), "{label}");
    assert!(label.contains("\\u{1b}[31m\\u{202e}"), "{label}");
}

fn space(command: &str) -> Space {
    Space {
        space: 1,
        pid: 42,
        start_time_ns: 0,
        exec_epoch: 0,
        parent_space: None,
        begin_ns: 0,
        end_ns: None,
        command: command.to_owned(),
        executable: None,
    }
}

#[test]
fn of_a_hundred_thousand_objects_the_worst_have_bands() {
    let number = 100_000;
    let page = page_of(observed(), |writer| {
        for object in 0..number {
            let mut allocation = Allocation {
                allocation: object,
                space: 1,
                tid: 1,
                time_ns: 1,
                address: BASE + (object << 16),
                bytes: 65_536,
                kind: AllocationKind::Malloc,
                stack: Some(object as u32),
                estimated_bytes: None,
            };
            allocation.time_ns += object;
            writer.allocations.push(allocation).expect("pushed");
            let site = Site {
                stack: object as u32,
                name: Some(format!("v{object}")),
                file: Some("a.c".to_owned()),
                line: Some(object as u32 + 1),
                function: None,
                type_name: None,
            };
            writer.sites.push(site).expect("pushed");
            let fault = event(EventKind::SwapIn, number + object, object << 4, None);
            writer.events.push(fault).expect("pushed");
        }
    });
    check(&page);
    let model = model(&page);
    let bands = model["bands"].as_array().expect("bands");
    assert_eq!(bands.len(), 25);
    assert_eq!(bands[24]["label"], "(all other objects)");
    // Compressed, so that it does not fill the picture.
    assert!(bands[24]["height"].as_u64() < model["rows"].as_u64().map(|rows| rows * 19 / 20));
    assert!(page.contains("and 99,800 more"));
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn an_address_used_again_is_in_both_objects_bands() {
    let page = page_of(observed(), |writer| {
        allocate(writer, 0, 10, "first");
        let release = pagewise_trace::Release {
            space: 1,
            time_ns: 200,
            address: BASE,
            bytes: None,
        };
        writer.releases.push(release).expect("pushed");
        let again = Allocation {
            allocation: 5,
            space: 1,
            tid: 1,
            time_ns: 300,
            address: BASE,
            bytes: 40_960,
            kind: AllocationKind::Malloc,
            stack: Some(5),
            estimated_bytes: None,
        };
        writer.allocations.push(again).expect("pushed");
        let site = Site {
            stack: 5,
            name: Some("second".to_owned()),
            file: Some("b.c".to_owned()),
            line: Some(2),
            function: None,
            type_name: None,
        };
        writer.sites.push(site).expect("pushed");
        for time in [100, 400] {
            let fault = event(EventKind::SwapIn, time, 2, None);
            writer.events.push(fault).expect("pushed");
        }
    });
    check(&page);
    let labels: Vec<_> = model(&page)["bands"]
        .as_array()
        .expect("bands")
        .iter()
        .map(|band| band["label"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(labels, ["first (first.c:7)", "second (b.c:2)"]);
}

#[test]
fn the_same_recording_makes_the_same_page() {
    let page = || {
        page_of(observed(), |writer| {
            for object in 0..40 {
                allocate(writer, object, 1, &format!("v{object}"));
            }
            for number in 0..1_000 {
                let kind = [EventKind::SwapIn, EventKind::Eviction][number as usize % 2];
                let fault = event(
                    kind,
                    100 + number,
                    (number % 40) << 12,
                    Some(number as u32 % 3),
                );
                writer.events.push(fault).expect("pushed");
            }
        })
    };
    assert!(page() == page());
}

#[test]
fn points_come_back_as_they_were_recorded() {
    let events = [
        (EventKind::SwapIn, 100_000, 3),
        (EventKind::Eviction, 250_000, 4),
        (EventKind::SwapIn, 400_000, 1000),
        (EventKind::SwapIn, 900_000, 2),
    ];
    let page = page_of(observed(), |writer| {
        allocate(writer, 0, 2000, "grid");
        for (kind, time_ns, page) in events {
            let event = event(kind, time_ns, page, None);
            writer.events.push(event).expect("pushed");
        }
    });
    let model = model(&page);
    let column = |name: &str| unpacked(element(&page, &format!("column-{name}")));
    let number = |key: &str| model[key].as_u64().expect("a number");
    assert_eq!((number("points"), number("events")), (4, 4));

    let ticks: Vec<u64> = varints(&column("time"));
    let mut time = 0;
    let times: Vec<u64> = ticks
        .iter()
        .map(|step| {
            time += step;
            time * number("tick_ns")
        })
        .collect();
    // From the first event on, as the recording's start is not known.
    assert_eq!(times, [0, 150_000, 300_000, 800_000]);
    assert_eq!(column("what"), [0, 2, 0, 0]);
    assert_eq!(column("space"), [0; 4]);
    assert_eq!(column("latency").len(), 6);
    assert_eq!(column("path"), [0xff; 6]);

    // Two ranges of 16 pages; what lies between is left out.
    let band = &model["bands"][0];
    assert_eq!(band["shift"], 0);
    let segments = varints(&unpacked(band["segment_data"].as_str().expect("text")));
    assert_eq!(segments.len(), 6);
    let first = signed(segments[1]);
    let second = first + signed(segments[4]);
    assert_eq!(first as u64, BASE / 4096);
    assert_eq!(second as u64, BASE / 4096 + 992);
    assert_eq!((segments[0], segments[3]), (0, 16));
    let mut last = [0, 0];
    let rows: Vec<i64> = varints(&column("row"))
        .into_iter()
        .zip(events)
        .map(|(step, (kind, ..))| {
            let sort = usize::from(kind == EventKind::Eviction);
            last[sort] += signed(step);
            last[sort]
        })
        .collect();
    assert_eq!(rows, [3, 4, 16 + 8, 2]);
}
