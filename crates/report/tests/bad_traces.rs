//! Reports on traces that have little in them, too much, or what nobody expected.

mod common;

use pagewise_analyze::Findings;
use pagewise_analyze::analyze;
use pagewise_report::diff;
use pagewise_report::json::Report;
use pagewise_report::source;
use pagewise_report::text::render;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Frame;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Release;
use pagewise_trace::Site;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

use common::style;

const BASE: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;

fn findings(fill: impl FnOnce(&mut TraceWriter)) -> Findings {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut meta = Meta::default();
    meta.limit.bytes = Some(100 << 20);
    meta.swap.kind = Some("zram".to_owned());
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
    fill(&mut writer);
    writer.close().expect("closed");
    analyze(&Trace::open(&dir).expect("opened")).expect("analyzed")
}

fn event(writer: &mut TraceWriter, time_ns: u64, kind: EventKind, page: u64, stack: Option<u32>) {
    let is_fault = kind == EventKind::SwapIn;
    let event = Event {
        time_ns,
        space: 1,
        tid: is_fault.then_some(1),
        kind,
        address: BASE + page * PAGE,
        latency_ns: is_fault.then_some(1000),
        stack,
    };
    writer.events.push(event).expect("pushed");
}

fn allocate(writer: &mut TraceWriter, time_ns: u64, page: u64, pages: u64, stack: u32) {
    let allocation = Allocation {
        allocation: time_ns,
        space: 1,
        tid: 1,
        time_ns,
        address: BASE + page * PAGE,
        bytes: pages * PAGE,
        kind: AllocationKind::Malloc,
        stack: Some(stack),
        estimated_bytes: None,
    };
    writer.allocations.push(allocation).expect("pushed");
}

fn site(writer: &mut TraceWriter, stack: u32, name: Option<&str>, line: Option<u32>) {
    let site = Site {
        stack,
        name: name.map(str::to_owned),
        file: line.map(|_| "main.c".to_owned()),
        line,
        function: None,
        type_name: None,
    };
    writer.sites.push(site).expect("pushed");
}

/// All reports of these findings; none may panic.
fn reports(findings: &Findings) -> (String, serde_json::Value) {
    for width in [40, 80, 250] {
        render(findings, style(width));
    }
    diff::render(&diff::compare(findings, findings), style(80));
    source::select(findings, None);
    let document = Report::new(findings).to_text().expect("text");
    let document = serde_json::from_str(&document).expect("JSON");
    (render(findings, style(100)), document)
}

#[test]
fn a_trace_of_no_event() {
    let findings = findings(|writer| site(writer, 0, Some("x"), Some(1)));
    let (text, document) = reports(&findings);
    assert!(text.starts_with("Nothing was swapped."), "{text}");
    assert!(document["memory_need"]["extra_bytes"].is_null());
    assert_eq!(document["memory_need"]["curve"], serde_json::json!([]));
    assert_eq!(document["objects"], serde_json::json!([]));
}

#[test]
fn a_trace_of_one_event() {
    let findings = findings(|writer| event(writer, 5, EventKind::SwapIn, 0, None));
    let (text, document) = reports(&findings);
    assert!(text.contains("for 1 swap-ins."), "{text}");
    assert!(
        text.contains("How much memory would avoid it cannot be told"),
        "{text}"
    );
    assert_eq!(document["memory_need"]["unknown_swap_ins"], 1);
    assert!(document["objects"][0]["pattern"].is_null());
    assert_eq!(document["objects"][0]["phases"][0]["swap_ins"], 1);
}

#[test]
fn a_trace_of_one_page_that_left_and_came_back() {
    let findings = findings(|writer| {
        event(writer, 5, EventKind::Eviction, 0, None);
        event(writer, 9, EventKind::SwapIn, 0, None);
    });
    let (text, document) = reports(&findings);
    assert!(text.contains("Needs 100 MiB instead of 100 MiB"), "{text}");
    assert_eq!(document["memory_need"]["extra_bytes"], PAGE);
    assert_eq!(
        document["memory_need"]["limit_bytes"],
        (100u64 << 20) + PAGE
    );
}

#[test]
fn without_debug_information_there_is_symbol_and_offset() {
    let findings = findings(|writer| {
        site(writer, 0, None, None);
        allocate(writer, 1, 0, 64, 0);
        for (stack, function) in [(0, "make"), (1, "walk")] {
            let module = Some("/opt/solver/bin/solver".to_owned());
            let frame = Frame {
                stack,
                depth: 0,
                inline_index: 0,
                function: Some(function.to_owned()),
                file: None,
                line: None,
                module: module.clone(),
                inlined: false,
            };
            writer.frames.push(frame).expect("pushed");
            let frame = StackFrame {
                stack,
                depth: 0,
                address: 0x5555_0000_1234,
                module,
                module_offset: Some(0x1234 + u64::from(stack)),
                truncated: false,
            };
            writer.stacks.push(frame).expect("pushed");
        }
        for page in 0..64 {
            event(writer, 10 + page, EventKind::Eviction, page, None);
            event(writer, 100 + page, EventKind::SwapIn, page, Some(1));
        }
    });
    let (text, document) = reports(&findings);
    assert!(text.contains("walk (solver+0x1235)"), "{text}");
    assert!(text.contains("solver+0x1234"), "{text}");
    assert_eq!(document["objects"][0]["site"][0]["module_offset"], 0x1234);
    assert_eq!(document["objects"][0]["touched_at"]["function"], "walk");
    assert!(source::files(&findings).is_empty());
}

#[test]
fn objects_at_one_address_one_after_the_other() {
    let findings = findings(|writer| {
        for (stack, name) in [(0, "first"), (1, "second")] {
            site(writer, stack, Some(name), Some(10 + stack));
            let begin = 1000 * u64::from(stack) + 1;
            allocate(writer, begin, 0, 64, stack);
            for page in 0..64 {
                event(writer, begin + 10 + page, EventKind::Eviction, page, None);
                event(writer, begin + 100 + page, EventKind::SwapIn, page, None);
            }
            let release = Release {
                space: 1,
                time_ns: begin + 500,
                address: BASE,
                bytes: None,
            };
            writer.releases.push(release).expect("pushed");
        }
    });
    let (_, document) = reports(&findings);
    for object in 0..2 {
        let object = &document["objects"][object];
        assert_eq!(
            (&object["swap_ins"], &object["distinct_pages"]),
            (&64.into(), &64.into())
        );
        assert_eq!(object["pattern"], "sequential", "{object}");
    }
}

#[test]
fn memory_that_was_given_back_is_no_memory_that_is_needed() {
    let extra_bytes = |gives_back: bool| {
        let findings = findings(|writer| {
            event(writer, 1, EventKind::Eviction, 0, None);
            for page in 1000..2000 {
                event(writer, page, EventKind::Eviction, page, None);
            }
            if gives_back {
                let release = Release {
                    space: 1,
                    time_ns: 3000,
                    address: BASE + 1000 * PAGE,
                    bytes: Some(900 * PAGE),
                };
                writer.releases.push(release).expect("pushed");
            }
            event(writer, 4000, EventKind::SwapIn, 0, None);
        });
        findings.memory_need.extra_bytes.expect("it is known")
    };
    // To a bucket of the curve.
    assert!((1001 * PAGE..1020 * PAGE).contains(&extra_bytes(false)));
    assert!((101 * PAGE..104 * PAGE).contains(&extra_bytes(true)));
}

#[test]
fn a_hundred_thousand_objects() {
    const OBJECTS: u32 = 100_000;
    let findings = findings(|writer| {
        for object in 0..OBJECTS {
            let (time, page) = (u64::from(object) + 1, u64::from(object));
            site(writer, object, Some("node"), Some(object + 1));
            allocate(writer, time, page, 1, object);
            event(writer, 1_000_000 + time, EventKind::Eviction, page, None);
        }
        for page in 0..u64::from(OBJECTS) {
            event(writer, 2_000_000 + page, EventKind::SwapIn, page, None);
        }
    });
    let (text, document) = reports(&findings);
    assert!(text.contains("and 99,980 more"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
    assert_eq!(document["objects"].as_array().map(Vec::len), Some(100_000));
    let extra = findings.memory_need.extra_bytes.expect("it is known");
    // They come back in the order in which they left: the last of them would have needed least.
    let all = u64::from(OBJECTS) * PAGE;
    assert!(
        (all * 98 / 100..all * 101 / 100).contains(&extra),
        "{extra}"
    );
}
