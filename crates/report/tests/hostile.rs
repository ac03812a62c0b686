//! Names that programs bring along must not break a terminal, a document or a reader's mind.

mod common;

use std::sync::Arc;

use pagewise_analyze::Findings;
use pagewise_analyze::SampledSwapIn;
use pagewise_analyze::SwapInSample;
use pagewise_report::diff;
use pagewise_report::json::Report;
use pagewise_report::source;
use pagewise_report::source::SourceText;
use pagewise_report::text::Style;
use pagewise_report::text::render;
use unicode_width::UnicodeWidthStr;

use common::findings;
use common::style;

const HOSTILE: [&str; 7] = [
    "two\nlines\r\n",
    "\x1b[2J\x1b]0;title\x07\x1b[31mred",
    "\u{9b}31mred \u{90}q",
    "<script>alert(1)</script>&\"'",
    "txt.\u{202e}cpp\u{2066}",
    "zalgo\u{301}\u{301}\u{301}\u{301}\u{301}",
    "\0\u{7f}\u{feff}\t",
];

fn named(name: &str) -> Findings {
    let mut findings = findings();
    let some = || Some(name.to_owned());
    for object in &mut findings.objects {
        object.identity.name = Some(name.into());
        object.identity.file = Some(name.into());
        object.type_name = Some(name.into());
        object.identity.function = Some(name.into());
    }
    for path in &mut findings.fault_paths {
        for frame in path.frames.iter_mut().map(Arc::make_mut) {
            (frame.function, frame.file, frame.module) = (some(), some(), some());
        }
    }
    // One without debug information.
    findings.objects[1].identity.line = None;
    findings.objects[1].site = findings.fault_paths[0].frames.clone();
    let site = &mut findings.objects[1].site;
    for frame in site.iter_mut().map(Arc::make_mut) {
        (frame.line, frame.module_offset) = (None, Some(0x4f10));
    }
    let meta = &mut findings.meta;
    meta.command = vec![name.to_owned(), name.to_owned()];
    meta.exit.reason = some();
    meta.swap.kind = some();
    meta.losses.insert(name.to_owned(), 7);
    meta.sensors
        .insert(name.to_owned(), format!("missing: {name}"));
    meta.sensors
        .insert("allocations".to_owned(), name.to_owned());
    findings.sample = SwapInSample {
        points: (0..100)
            .map(|page| SampledSwapIn {
                time_ns: page,
                space: 1,
                address: page << 12,
                object: 0,
            })
            .collect(),
        one_in: 1,
    };
    findings
}

fn annotated(findings: &Findings, style: Style) -> String {
    let files = source::select(findings, None).into_iter();
    let with_text = files.map(|file| {
        let text = SourceText::Found {
            path: file.file.clone(),
            text: format!("{}\n", HOSTILE[1]).repeat(200),
            doubts: vec![file.file.clone()],
        };
        (file, text)
    });
    source::render(&with_text.collect::<Vec<_>>(), findings, style)
}

/// Everything that is printed for people.
fn printed(findings: &Findings, style: Style) -> Vec<String> {
    let other = common::findings();
    vec![
        render(findings, style),
        annotated(findings, style),
        diff::render(&diff::compare(&other, findings), style),
        diff::render(&diff::compare(findings, &other), style),
    ]
}

fn is_harmless(character: char) -> bool {
    let turns = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    character == '\n' || !character.is_control() && !turns
}

#[test]
fn nothing_in_a_name_reaches_the_terminal_as_it_is() {
    for name in HOSTILE {
        for text in printed(&named(name), style(100)) {
            let bad = text.chars().find(|&character| !is_harmless(character));
            assert_eq!(bad, None, "{name:?} in {text:?}");
            assert!(!text.contains("\u{301}\u{301}\u{301}"), "{text:?}");
        }
    }
}

#[test]
fn a_name_adds_no_lines() {
    let lines = |name: &str| {
        let texts = printed(&named(name), style(400));
        texts
            .iter()
            .map(|text| text.lines().count())
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(HOSTILE[0]), lines("plain"));
}

#[test]
fn colour_is_the_only_escape_there_is() {
    let colored = Style {
        color: true,
        ..style(100)
    };
    for text in printed(&named(HOSTILE[1]), colored) {
        let rest = ["\x1b[1m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(text, |text, code| text.replace(code, ""));
        assert!(!rest.contains('\x1b'), "{rest:?}");
    }
}

#[test]
fn without_utf8_there_is_ascii_only() {
    let ascii = Style {
        unicode: false,
        ..style(100)
    };
    for name in ["größe 日本語", HOSTILE[4]] {
        for text in printed(&named(name), ascii) {
            assert!(text.is_ascii(), "{text}");
        }
    }
}

#[test]
fn ten_thousand_characters_fit() {
    let long = "x".repeat(10_000);
    for width in [40, 80, 250] {
        let text = render(&named(&long), style(width));
        assert!(text.len() < 40_000, "{} bytes", text.len());
        let table = text
            .lines()
            .filter(|line| line.contains("190 MiB") && line.contains('~'));
        for line in table {
            assert!(line.width() <= width.max(170), "{width}: {line}");
        }
    }
}

#[test]
fn documents_hold_names_as_they_are() {
    for name in HOSTILE {
        let findings = named(name);
        let report = Report::new(&findings).to_text().expect("text");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["objects"][0]["name"], name);
        assert_eq!(report["command"][1], name);
        let other = common::findings();
        let difference = diff::to_json(&diff::compare(&other, &findings)).expect("text");
        let difference: serde_json::Value = serde_json::from_str(&difference).expect("JSON");
        assert_eq!(difference["after"]["command"][0], name);
    }
}

#[test]
fn without_debug_information_there_is_symbol_and_offset() {
    let mut findings = named("solver");
    findings.objects[1].identity.name = None;
    findings.objects[1].identity.function = Some("solve(int)".into());
    findings.objects[1].identity.file = None;
    findings.objects[1].identity.line = None;
    findings.objects[1].identity.code = Some("solve (solver+0x4f10)".into());
    let text = render(&findings, style(100));
    assert!(text.contains("solve (solver+0x4f10)"), "{text}");
}
