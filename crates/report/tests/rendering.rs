//! Whole reports from findings made by hand, as people and scripts get them.

mod common;

use pagewise_analyze::Coverage;
use pagewise_analyze::Findings;
use pagewise_analyze::PsiScope;
use pagewise_analyze::RegionCoverage;
use pagewise_analyze::Waits;
use pagewise_analyze::WorkingSet;
use pagewise_report::json::Report;
use pagewise_report::text::Style;
use pagewise_report::text::render;

use common::findings;
use common::style;

#[test]
fn the_report_says_what_hurts_and_where() {
    let expected = "\
Waited 4.0 s of 10 s (40 %) for 400,000 swap-ins.
75 % of the waiting was for cost (solver.cpp:41), touched in reprice (solver.cpp:107): a loop of
48,640 pages (190 MiB), 1.2 s a round.
Needs 348 MiB instead of 256 MiB to avoid 99 % of it.
limit 256 MiB, 97,280 evictions, 97,280 pages written

object                 stall   swap-ins  pattern     size    needs  evictions
cost (solver.cpp:41)   3.0 s  3,000,000     loop  190 MiB  320 MiB     48,640
solve (no line known)  1.0 s  1,000,000     loop  190 MiB  320 MiB     48,640

Where it waited
  75 %  reprice (solver.cpp:107) < solve < main
  25 %  (call path unknown)

Swap-in latency: median 2.5 us, p99 3.0 us, longest 3.0 us
What it needs is told from the order in which pages left memory, as if those used longest ago always
left first.
Objects without a line come from code without debug information: compile with -g, install the
package's debug symbols, or record with --debuginfod to name them.
";
    let text = render(&findings(), style(100));
    assert_eq!(text, expected);
}

#[test]
fn who_else_pages_out_is_told_everywhere_and_an_old_recording_says_nothing_of_it() {
    let mut findings = findings();
    let document = |findings: &Findings| {
        let text = Report::new(findings).to_text().expect("rendered");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    assert!(document(&findings)["page_out"].is_null());
    assert!(!render(&findings, style(300)).contains("DAMON"));
    let seen = "DAMON (kdamond.0) pages out what was hardly used for 60 s";
    findings.meta.host.page_out = Some(vec![seen.to_owned()]);
    assert_eq!(document(&findings)["page_out"][0], seen);
    let expected = "DAMON (kdamond.0) pages out what was hardly used for 60 s: evictions, what comes back after them, and times may be its \
                    doing, whatever the limit.";
    let text = render(&findings, style(300));
    assert!(text.lines().any(|line| line == expected), "{text}");
}

#[test]
fn input_and_output_of_io_uring_is_not_silent() {
    let mut findings = findings();
    let losses = &mut findings.meta.losses;
    losses.insert("io_of_other_threads".to_owned(), 0);
    assert!(!render(&findings, style(300)).contains("io_uring"));
    let losses = &mut findings.meta.losses;
    losses.insert("io_of_other_threads".to_owned(), 4096);
    let text = render(&findings, style(300));
    let expected = "io_uring or AIO was used by this program: 4,096 calls asked for";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("SQPOLL"), "{text}");
    let totals = &mut findings.meta.totals;
    totals.insert("polled_rings".to_owned(), 2);
    let text = render(&findings, style(300));
    assert!(text.contains("(IORING_SETUP_SQPOLL, 2 rings)"), "{text}");
}

#[test]
fn what_is_estimated_belongs_to_nobody_or_is_missing_is_told() {
    let mut findings = findings();
    findings.estimated_swap_ins = 100_000;
    findings.unattributed_swap_ins = 1000;
    findings.meta.sampling.sample_bytes = Some(32 << 10);
    let state = "missing (static program: nothing can be preloaded)";
    let sensors = &mut findings.meta.sensors;
    sensors.insert("allocations".to_owned(), state.to_owned());
    let text = render(&findings, style(300));
    for line in [
        "allocations: missing (static program: nothing can be preloaded)",
        "1,000 of the swap-ins (0.2 %) lie in memory of no recorded object.",
        "100,000 of the swap-ins (25 %) are given to objects by a sample of the allocations (one in 32 KiB of small \
         ones): their counts are estimates.",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    let json = pagewise_report::json::Report::new(&findings);
    let json: serde_json::Value =
        serde_json::from_str(&json.to_text().expect("text")).expect("JSON");
    assert_eq!(json["summary"]["estimated_swap_ins"], 100_000);
    assert_eq!(json["summary"]["unattributed_swap_ins"], 1000);
    assert_eq!(json["sampling"]["sample_bytes"], 32 << 10);
    assert!(json["sampling"]["threshold_bytes"].is_null());
}

#[test]
fn a_narrow_terminal_loses_columns_not_names() {
    let text = render(&findings(), style(50));
    let table: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("solver.cpp:41)  "))
        .collect();
    assert_eq!(table.len(), 1, "{text}");
    assert!(
        !text.contains("evictions  ") && !text.contains("needs  "),
        "{text}"
    );
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
    assert_eq!(document["objects"][0]["resident_share"], 0.625);
    assert!(document["summary"]["dropped_without_write"].is_null());
}

#[test]
fn residency_adds_a_column_and_a_count() {
    let mut findings = findings();
    findings
        .meta
        .sensors
        .insert("residency".to_owned(), "on".to_owned());
    findings.dropped_without_write = Some(1234);
    findings.shared_pages_gone = Some(0);
    findings.objects[1].resident_share = None;
    let text = render(&findings, style(300));
    assert!(
        text.contains("97,280 pages written, 1,234 dropped without a write"),
        "{text}"
    );
    assert!(!text.contains("shared memory"), "{text}");
    findings.shared_pages_gone = Some(56);
    let shared = render(&findings, style(300));
    assert!(shared.contains("56 of shared memory gone, perhaps to swap"));
    assert!(shared.contains("shared memory (tmpfs, System V, memfd)"));
    assert!(text.contains("320 MiB       62 %     48,640"), "{text}");
    assert!(text.contains("320 MiB          ?     48,640"), "{text}");
}

#[test]
fn swap_ins_without_latency_are_counted_and_nothing_else_is_invented() {
    let mut findings = findings();
    let sensors = &mut findings.meta.sensors;
    let why = "missing: needs root".to_owned();
    sensors.insert("faults".to_owned(), why);
    sensors.insert("major_faults".to_owned(), "on".to_owned());
    let document = json(&findings);
    assert_eq!(document["summary"]["swap_ins"], 400_000);
    assert_eq!(document["objects"][0]["swap_ins"], 3_000_000);
    for key in ["swap_cache_hits", "evictions", "stall_ns", "pages_written"] {
        assert!(document["summary"][key].is_null(), "{key}");
        assert!(document["objects"][0][key].is_null(), "{key}");
    }
    let text = render(&findings, style(300));
    assert!(
        text.starts_with("400,000 swap-ins were seen; how long"),
        "{text}"
    );
    assert!(
        !text.contains("evictions") && !text.contains(" stall"),
        "{text}"
    );
    assert!(
        text.contains("The sensor faults is missing: needs root"),
        "{text}"
    );
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

#[test]
fn waiting_is_told_beside_what_the_kernel_says() {
    let mut findings = findings();
    findings.waits = Waits {
        reclaim_stall_ns: Some(1_200_000_000),
        psi_scope: Some(PsiScope::Machine),
        psi_some_ns: Some(5_100_000_000),
        delay_swapin_ns: Some(3_900_000_000),
        delay_freepages_ns: Some(2_000_000_000),
        ..Waits::default()
    };
    let expected = "Stall: 4.0 s in swap-in faults + 1.2 s reclaiming memory outside them; PSI of the machine: some 5.1 s; \
                    delay accounting: swap-in 3.9 s, reclaim 2.0 s";
    let text = render(&findings, style(300));
    assert!(text.lines().any(|line| line == expected), "{text}");
    let document = json(&findings);
    assert_eq!(document["summary"]["reclaim_stall_ns"], 1_200_000_000u64);
    assert_eq!(document["summary"]["psi_scope"], "machine");
    assert!(document["summary"]["psi_full_ns"].is_null());
    assert!(document["reconciliation"]["reclaims"]["recorded"].is_null());
}

#[test]
fn that_others_had_the_processors_is_told_where_it_is_much() {
    let mut findings = findings();
    findings.meta.wall_ns = Some(10_000_000_000);
    let mut told = |ns| {
        findings.waits = Waits {
            reclaim_stall_ns: Some(0),
            run_delay_ns: ns,
            ..Waits::default()
        };
        let text = render(&findings, style(300));
        let line = text.lines().find(|line| line.contains("the processors"));
        (
            line.map(str::to_owned),
            json(&findings)["summary"]["run_delay_ns"].clone(),
        )
    };
    let (line, number) = told(Some(1_900_000_000));
    let expected = "Others had the processors for 1.9 s while threads of the program were ready to run: \
                    with less to do beside it, it takes up to that much less time";
    assert_eq!(line.as_deref(), Some(expected));
    assert_eq!(number, 1_900_000_000u64);
    assert_eq!(told(Some(400_000_000)).0, None);
    let (line, number) = told(None);
    assert!(line.is_none() && number.is_null());
}

#[test]
fn the_working_set_is_told_where_it_was_looked_at() {
    let mut findings = findings();
    assert!(!render(&findings, style(300)).contains("Working set"));
    assert_eq!(json(&findings)["working_set"], serde_json::json!([]));
    let look = |time_ns, accessed_bytes| WorkingSet {
        time_ns,
        interval_ns: 1_000_000_000,
        accessed_bytes,
        resident_bytes: 256 << 20,
    };
    findings.working_set = vec![look(1, 10 << 20), look(2, 90 << 20), look(3, 20 << 20)];
    findings.objects[0].accessed_share = Some(0.25);
    let text = render(&findings, style(300));
    let expected = "Working set: 20 MiB accessed in 1.0 s (median of 3; most 90 MiB), of up to 256 MiB resident";
    assert!(text.lines().any(|line| line == expected), "{text}");
    let document = json(&findings);
    assert_eq!(document["working_set"][1]["accessed_bytes"], 90 << 20);
    assert_eq!(document["objects"][0]["accessed_share"], 0.25);
}

#[test]
fn huge_pages_and_coverage_are_told_where_accesses_were_recorded() {
    let mut findings = findings();
    let document = json(&findings);
    assert_eq!(document["coverage"], serde_json::json!([]));
    let region = |number: u64, is_huge, accessed| RegionCoverage {
        address: number << 21,
        resident_pages: 512,
        swapped_pages: 0,
        is_huge,
        accessed_pages: accessed,
    };
    findings.coverage = vec![Coverage {
        pid: Some(7),
        command: "a\u{1b}b".to_owned(),
        regions: vec![
            region(1, true, None),
            region(2, false, Some(249.0)),
            region(3, false, Some(250.0)),
            region(4, false, None),
        ],
    }];
    let text = render(&findings, style(300));
    let expected = "a\\u{1b}b 7 has 2.0 MiB of its 8.0 MiB in huge pages (25 %); of its 3 other regions of 2 MiB, 1 are accessed by half or more";
    assert!(text.lines().any(|line| line == expected), "{text}");
    let process = &json(&findings)["coverage"][0];
    assert_eq!(
        (&process["pid"], &process["huge_bytes"]),
        (&7.into(), &(2 << 20).into())
    );
    assert_eq!(process["buckets"][5]["regions"], 1);
    assert_eq!(process["buckets"][0]["resident_bytes"], 2 << 20);
}
