//! Source with the time that was waited at each line.

mod common;

use std::sync::Arc;

use pagewise_analyze::Findings;
use pagewise_analyze::ObjectFrame;
use pagewise_report::source;
use pagewise_report::source::SourceFile;
use pagewise_report::source::SourceText;

use common::findings;
use common::style;

const FILE: &str = "/home/me/src/solver.cpp";

fn rendered(findings: &Findings, files: Vec<SourceFile>, text: Option<&str>) -> String {
    let with_text = files.into_iter().map(|file| {
        let source = match text {
            Some(text) => SourceText::Found {
                path: file.file.clone(),
                text: text.to_owned(),
                doubts: vec![
                    "It was changed after the recording: its lines may be others.".to_owned(),
                ],
            },
            None => SourceText::Missing {
                why: "there is no such file".to_owned(),
            },
        };
        (file, source)
    });
    source::render(&with_text.collect::<Vec<_>>(), findings, style(80))
}

fn numbered() -> String {
    (1..=200).map(|line| format!("\tline {line};\n")).collect()
}

#[test]
fn lines_have_their_stall_and_objects_are_shown_where_they_are_made() {
    let findings = findings();
    let files = source::select(&findings, None);
    let text = rendered(&findings, files, Some(&numbered()));
    let expected = "
/home/me/src/solver.cpp: waited 3.0 s (75 %)
It was changed after the recording: its lines may be others.
   stall          swap-ins   line
                               38 │     line 38;
                               39 │     line 39;
                               40 │     line 40;
                               41 │     line 41;
                                  │ ^ cost: waited 3.0 s for it
                               42 │     line 42;
                               43 │     line 43;
                               44 │     line 44;
                              ...
                              104 │     line 104;
                              105 │     line 105;
                              106 │     line 106;
   3.0 s   75 %  3,000,000    107 │     line 107;
                              108 │     line 108;
                              109 │     line 109;
                              110 │     line 110;
";
    assert_eq!(text, expected);
}

#[test]
fn a_missing_source_is_told_and_its_lines_still_count() {
    let findings = findings();
    let files = source::select(&findings, Some("solver.cpp"));
    let text = rendered(&findings, files, None);
    assert!(
        text.contains("The source is missing: there is no such file"),
        "{text}"
    );
    assert!(
        text.contains("   3.0 s   75 %  3,000,000    107 │\n"),
        "{text}"
    );
}

#[test]
fn a_source_shorter_than_its_lines_is_no_reason_to_fail() {
    let findings = findings();
    let files = source::select(&findings, None);
    let text = rendered(&findings, files, Some("one line\n"));
    assert!(text.contains("107 │\n"), "{text}");
}

#[test]
fn files_and_functions_are_found_by_name() {
    let findings = findings();
    let found = |wanted: &str| {
        let files = source::select(&findings, Some(wanted));
        files
            .iter()
            .map(|file| file.lines.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(FILE), [2]);
    assert_eq!(found("solver.cpp"), [2]);
    assert_eq!(found("src/solver.cpp"), [2]);
    assert_eq!(found("reprice"), [1]);
    assert_eq!(found("olver.cpp"), [0usize; 0]);
    assert_eq!(found("price"), [0usize; 0]);
}

#[test]
fn a_fault_in_a_library_is_charged_to_the_line_that_called_it() {
    let mut findings = findings();
    let memcpy = ObjectFrame {
        function: Some("memcpy".to_owned()),
        file: Some("../sysdeps/x86_64/memmove.S".to_owned()),
        line: Some(300),
        module: Some("/usr/lib/x86_64-linux-gnu/libc.so.6".to_owned()),
        ..ObjectFrame::default()
    };
    findings.fault_paths[0].frames.insert(0, memcpy.into());
    let files = source::files(&findings);
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].lines[&107].swap_ins, 3_000_000);
}

#[test]
fn without_lines_there_are_no_files() {
    let mut findings = findings();
    for path in &mut findings.fault_paths {
        let frames = path.frames.iter_mut();
        frames.for_each(|frame| Arc::make_mut(frame).line = None);
    }
    findings.objects.clear();
    assert!(source::files(&findings).is_empty());
}
