//! Reports in terminals of all widths, and the map.

mod common;

use pagewise_analyze::Counts;
use pagewise_analyze::Findings;
use pagewise_analyze::Pattern;
use pagewise_analyze::Phase;
use pagewise_analyze::SampledSwapIn;
use pagewise_analyze::SwapInSample;
use pagewise_report::text::Style;
use pagewise_report::text::render;
use unicode_width::UnicodeWidthStr;

use common::facts;
use common::findings;
use common::style;

/// `cost` is swept in two rounds, 2 s each; nothing is known of where the other one lies.
fn swept() -> Findings {
    let mut findings = findings();
    findings.meta.clock.start_monotonic_ns = Some(1_000_000_000);
    let point = |step: u64| SampledSwapIn {
        time_ns: 2_000_000_000 + step * 4_000_000,
        space: 1,
        address: 0x7f00_0000_0000 + step % 500 * 4096,
        object: 0,
    };
    findings.sample = SwapInSample {
        points: (0..1000).map(point).collect(),
        one_in: 4,
    };
    findings.objects[0].phases = vec![Phase {
        begin_ns: 2_000_000_000,
        end_ns: 6_000_000_000,
        swap_ins: 1000,
        stall_ns: 3_000_000_000,
        distinct_pages: 1000,
        others: Counts::default(),
        facts: Some(facts()),
    }];
    findings
}

fn map_of(findings: &Findings, style: Style) -> String {
    let text = render(findings, style);
    let from = text.find("When and where").expect("a map");
    let to = text.find("\nWhere it waited").expect("call paths");
    text[from..to].to_owned()
}

#[test]
fn the_map_shows_rounds_as_lines() {
    let expected = "\
When and where
cost (solver.cpp:41): double *; a row is 500 KiB; a loop of 48,640
pages (190 MiB), 1.2 s a round (97 % of 145,919 steps)
      0 B │⠙⠢⢄⡀                        ⠈⠑⠤⣀
          │   ⠈⠑⠢⣀                         ⠉⠢⢄⡀
          │       ⠉⠒⢄⡀                        ⠈⠑⠢⣀
  2.0 MiB │          ⠈⠑⠢⣀                         ⠉⠒⢄
          └─────────────┬─────────────┬─────────────┬─────────────┬──────
";
    let map = map_of(&swept(), style(70));
    for line in expected.lines().take(3) {
        assert!(map.lines().any(|found| found == line), "{map}");
    }
    let rows: Vec<&str> = map.lines().filter(|line| line.contains('│')).collect();
    assert_eq!(rows.len(), 4, "{map}");
    // Each row begins further right than the one above, in both rounds.
    let begins: Vec<usize> = rows
        .iter()
        .map(|row| {
            let drawn = row.split('│').nth(1).unwrap_or("");
            drawn
                .chars()
                .take_while(|&character| character == ' ')
                .count()
        })
        .collect();
    assert!(begins.is_sorted_by(|a, b| a < b), "{map}");
    assert!(map.contains("2.0 s") && map.contains("4.0 s"), "{map}");
    assert!(map.contains("One in 4 swap-ins is drawn."), "{map}");
}

#[test]
fn without_utf8_the_map_is_ascii() {
    let ascii = Style {
        unicode: false,
        ..style(70)
    };
    let map = map_of(&swept(), ascii);
    assert!(
        map.is_ascii() && map.contains('#') && map.contains('|'),
        "{map}"
    );
    assert!(map.contains(". : + #"), "{map}");
}

#[test]
fn where_a_pattern_changes_each_has_its_time() {
    let mut findings = swept();
    let first = findings.objects[0].phases[0];
    let mut second = Phase {
        begin_ns: 6_500_000_000,
        end_ns: 9_000_000_000,
        ..first
    };
    second.facts = second.facts.map(|facts| pagewise_analyze::PatternFacts {
        pattern: Pattern::Hot,
        ..facts
    });
    findings.objects[0].phases.push(second);
    let map = map_of(&findings, style(400));
    assert!(
        map.contains("; 1.0 s to 5.0 s: a loop of 48,640 pages"),
        "{map}"
    );
    assert!(
        map.contains("; 5.5 s to 8.0 s: a few pages again and again"),
        "{map}"
    );
}

#[test]
fn few_swap_ins_make_no_map() {
    let mut findings = swept();
    findings.sample.points.truncate(20);
    assert!(!render(&findings, style(100)).contains("When and where"));
    assert!(!render(&common::findings(), style(100)).contains("When and where"));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for width in [40, 41, 60, 80, 100, 132, 160, 250] {
        for unicode in [true, false] {
            let style = Style {
                unicode,
                ..style(width)
            };
            for line in render(&swept(), style).lines() {
                assert!(line.width() <= width, "{width}: {line} ({})", line.width());
            }
        }
    }
}

#[test]
fn what_hurts_and_what_cures_it_is_in_the_first_lines_of_any_terminal() {
    for width in [40, 80, 250] {
        let text = render(&swept(), style(width));
        let first: String = text.lines().take(9).collect::<Vec<_>>().join(" ");
        for part in [
            "cost (solver.cpp:41)",
            "reprice (solver.cpp:107)",
            "a loop of",
            "348 MiB instead of 256 MiB",
        ] {
            assert!(first.contains(part), "{width}: {part} in {first}");
        }
    }
}
