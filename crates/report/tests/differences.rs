//! What changed between two recordings.

mod common;

use std::sync::Arc;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectFrame;
use pagewise_report::diff;
use pagewise_report::diff::Change;
use pagewise_report::diff::MatchedBy;

use common::findings;
use common::object;
use common::style;

fn with(objects: Vec<Object>) -> Findings {
    let mut findings = findings();
    findings.totals.stall_ns = objects.iter().map(|object| object.counts.stall_ns).sum();
    findings.objects = objects;
    findings
}

type Found = (Option<MatchedBy>, Change);

fn changes(before: &Findings, after: &Findings) -> Vec<Found> {
    let difference = diff::compare(before, after);
    let objects = difference.objects.iter();
    objects
        .map(|object| (object.matched_by, object.change))
        .collect()
}

#[test]
fn objects_are_matched_by_site_and_by_name_where_the_line_moved() {
    let before = with(vec![
        object(Some("cost"), Some(41), 3_000_000_000),
        object(Some("flow"), Some(50), 1_000_000_000),
        object(Some("old"), Some(60), 500_000_000),
    ]);
    let after = with(vec![
        object(Some("flow"), Some(57), 1_050_000_000),
        object(Some("cost"), Some(41), 1_000_000_000),
        object(Some("new"), Some(61), 400_000_000),
    ]);
    let found = changes(&before, &after);
    assert_eq!(
        found,
        [
            (Some(MatchedBy::Site), Change::Better),
            (None, Change::Gone),
            (None, Change::New),
            (Some(MatchedBy::MovedLine), Change::Similar),
        ]
    );
}

#[test]
fn two_of_one_name_are_matched_by_their_lines_first() {
    let before = with(vec![
        object(Some("buffer"), Some(10), 1_000_000_000),
        object(Some("buffer"), Some(20), 2_000_000_000),
    ]);
    let after = with(vec![
        object(Some("buffer"), Some(20), 2_000_000_000),
        object(Some("buffer"), Some(11), 1_000_000_000),
    ]);
    let difference = diff::compare(&before, &after);
    for object in &difference.objects {
        let [before, after] = [object.before, object.after].map(|side| side.expect("a pair"));
        assert_eq!(before.counts.stall_ns, after.counts.stall_ns);
        assert_eq!(object.change, Change::Similar);
    }
}

#[test]
fn without_names_the_call_path_tells() {
    let nameless = |function: &str, stall_ns| {
        let mut object = object(None, None, stall_ns);
        object.identity.function = None;
        object.identity.stack = Some(stall_ns as u32);
        object.site = vec![Arc::new(ObjectFrame {
            function: Some(function.to_owned()),
            module: Some(format!("/build-{stall_ns}/solver")),
            ..ObjectFrame::default()
        })];
        object
    };
    let before = with(vec![
        nameless("a", 3_000_000_000),
        nameless("b", 1_000_000_000),
    ]);
    let after = with(vec![
        nameless("b", 2_000_000_000),
        nameless("c", 2_500_000_000),
    ]);
    let found = changes(&before, &after);
    assert!(
        found.contains(&(Some(MatchedBy::CallPath), Change::Worse)),
        "{found:?}"
    );
    assert!(found.contains(&(None, Change::Gone)) && found.contains(&(None, Change::New)));
}

#[test]
fn a_difference_is_told_with_what_it_is_worth() {
    let before = with(vec![
        object(Some("cost"), Some(41), 3_000_000_000),
        object(Some("flow"), Some(50), 1_000_000_000),
    ]);
    let mut after = with(vec![
        object(Some("cost"), Some(43), 1_000_000_000),
        object(Some("flow"), Some(50), 950_000_000),
    ]);
    after.meta.limit.bytes = Some(300 << 20);
    let text = diff::render(&diff::compare(&before, &after), style(100));
    let expected = "\
Waited 1.9 s, before 4.0 s: better.

                before    after  change
wall time         10 s     10 s       =
stall            4.0 s    1.9 s   -51 %
swap-ins       400,000  400,000       =
evictions       97,280   97,280       =
pages written   97,280   97,280       =
memory limit   256 MiB  300 MiB   +17 %
needs          348 MiB  348 MiB       =

object                                      stall  before   swap-ins     before  pattern
cost (solver.cpp:43) (was line 41)  better  1.0 s   3.0 s  1,000,000  3,000,000     loop
Hardly differ, or hardly waited: 1 objects.
The memory limits differ: that alone changes how much is swapped.
";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.contains("One recording of each shows no spread."),
        "{text}"
    );
}

#[test]
fn the_document_says_the_same() {
    let before = with(vec![object(Some("cost"), Some(41), 3_000_000_000)]);
    let after = with(vec![object(Some("cost"), Some(43), 1_000_000_000)]);
    let text = diff::to_json(&diff::compare(&before, &after)).expect("text");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["schema"], "pagewise.diff/1");
    assert_eq!(document["change"], "better");
    let object = &document["objects"][0];
    assert_eq!(object["matched_by"], "moved_line");
    assert_eq!(
        (&object["before"]["line"], &object["after"]["line"]),
        (&41.into(), &43.into())
    );
}

#[test]
fn the_unknown_is_no_zero() {
    let mut blind = findings();
    let sensors = &mut blind.meta.sensors;
    sensors.insert("faults".to_owned(), "missing: needs root".to_owned());
    sensors.insert("major_faults".to_owned(), "on".to_owned());
    let sighted = findings();
    let difference = diff::compare(&blind, &sighted);
    assert!(!difference.by_stall);
    let text = diff::render(&difference, style(100));
    assert!(text.contains("swap-ins are compared, not time"), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&diff::to_json(&difference).expect("text")).expect("JSON");
    assert!(document["before"]["stall_ns"].is_null());
    assert_eq!(document["compared_by"], "swap_ins");
}

#[test]
fn nothing_compares_with_nothing() {
    let nothing = with(Vec::new());
    let text = diff::render(&diff::compare(&nothing, &nothing), style(80));
    assert!(
        text.starts_with("Waited 0 ns, before 0 ns: about the same."),
        "{text}"
    );
}
