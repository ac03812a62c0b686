//! Whole reports from findings made by hand, as people and scripts get them.

use pagewise_analyze::Findings;
use pagewise_analyze::Histogram;
use pagewise_analyze::Identity;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;
use pagewise_analyze::Totals;
use pagewise_report::json::Report;
use pagewise_report::text::Style;
use pagewise_report::text::render;
use pagewise_trace::Meta;

fn object(name: Option<&str>, line: Option<u32>, stall_ns: u64) -> Object {
    Object {
        identity: Identity {
            kind: ObjectKind::Allocation,
            name: name.map(str::to_owned),
            file: line.map(|_| "/home/me/src/solver.cpp".to_owned()),
            line,
            function: Some("solve(int)".to_owned()),
            stack: None,
        },
        bytes: Some(190 << 20),
        allocations: 1,
        swap_ins: stall_ns / 1000,
        swap_cache_hits: 0,
        evictions: 48_640,
        pages_written: 48_640,
        zero_filled: 0,
        stall_ns,
        distinct_pages: 48_640,
        pattern: Some(Pattern::Loop),
        site: Vec::new(),
    }
}

fn findings() -> Findings {
    let mut latency = Histogram::default();
    for ns in 2_000..3_000 {
        latency.add(ns);
    }
    let mut meta = Meta {
        wall_ns: Some(10_000_000_000),
        end_monotonic_ns: Some(1),
        ..Meta::default()
    };
    meta.limit.bytes = Some(256 << 20);
    meta.sensors.insert("faults".to_owned(), "on".to_owned());
    Findings {
        meta,
        totals: Totals {
            swap_ins: 400_000,
            swap_cache_hits: 0,
            evictions: 97_280,
            pages_written: 97_280,
            zero_filled: 0,
            stall_ns: 4_000_000_000,
        },
        objects: vec![
            object(Some("cost"), Some(41), 3_000_000_000),
            object(None, None, 1_000_000_000),
        ],
        latency,
    }
}

fn style(width: usize) -> Style {
    Style {
        width,
        color: false,
        objects: 20,
    }
}

#[test]
fn the_report_says_what_hurts_and_where() {
    let expected = "\
Waited 4.0 s of 10 s (40 %) for 400,000 swap-ins.
75 % of the waiting was for cost (solver.cpp:41).
limit 256 MiB, 97,280 evictions, 97,280 pages written

object                 stall   swap-ins  evictions     size  pattern
cost (solver.cpp:41)   3.0 s  3,000,000     48,640  190 MiB     loop
solve (no line known)  1.0 s  1,000,000     48,640  190 MiB     loop

Swap-in latency: median 2.5 us, p99 3.0 us, longest 3.0 us
Objects without a line come from code without debug information: compile with -g to name them.
";
    let text = render(&findings(), style(100));
    assert_eq!(text, expected);
}

#[test]
fn a_narrow_terminal_loses_columns_not_names() {
    let text = render(&findings(), style(50));
    let table: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("solver.cpp:41)  "))
        .collect();
    assert_eq!(table.len(), 1, "{text}");
    assert!(!text.contains("pattern"), "{text}");
}

#[test]
fn colour_is_only_where_it_is_asked_for() {
    assert!(!render(&findings(), style(100)).contains('\x1b'));
    assert!(
        render(
            &findings(),
            Style {
                color: true,
                ..style(100)
            }
        )
        .contains("\x1b[1m")
    );
}

fn json(findings: &Findings) -> serde_json::Value {
    let text = Report::new(findings).to_text().expect("serializable");
    serde_json::from_str(&text).expect("valid JSON")
}

#[test]
fn the_document_holds_the_same_numbers() {
    let document = json(&findings());
    assert_eq!(document["schema"], "pagewise.report/1");
    assert_eq!(document["summary"]["stall_ns"], 4_000_000_000u64);
    assert_eq!(document["objects"][0]["name"], "cost");
    assert_eq!(document["objects"][0]["line"], 41);
    assert_eq!(document["latency"]["max_ns"], 2_999);
    assert!(
        document["summary"]["zero_filled"].is_null(),
        "this kernel has no such counter"
    );
    assert!(document["objects"][0]["resident_share"].is_null());
}

#[test]
fn what_was_not_observed_is_unknown_not_zero() {
    let mut findings = findings();
    findings
        .meta
        .sensors
        .insert("faults".to_owned(), "off".to_owned());
    let document = json(&findings);
    for key in [
        "swap_ins",
        "evictions",
        "stall_ns",
        "pages_written",
        "swap_cache_hits",
    ] {
        assert!(document["summary"][key].is_null(), "{key}");
        assert!(document["objects"][0][key].is_null(), "{key}");
    }
    assert!(render(&findings, style(100)).starts_with("Faults and evictions were not observed"));
}
