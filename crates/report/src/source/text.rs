//! Annotated source for people.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use unicode_width::UnicodeWidthStr;

use super::Line;
use super::SourceFile;
use super::SourceText;
use crate::text::Style;
use crate::text::take_width;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

/// Lines to show around each that waited.
const CONTEXT: u32 = 3;

/// The files' lines that waited, with some around them.
pub fn render(files: &[(SourceFile, SourceText)], findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    for (file, source) in files {
        head(&mut text, file, source, findings, style);
        body(&mut text, file, source, findings, style);
    }
    text
}

fn head(
    text: &mut String,
    file: &SourceFile,
    source: &SourceText,
    findings: &Findings,
    style: Style,
) {
    let share = percent(file.stall_ns, findings.totals.stall_ns);
    let name = style.clean(&file.file);
    let about = format!("{name}: waited {} ({share})", duration(file.stall_ns));
    text.push('\n');
    for line in style.wrapped(&about) {
        let _ = writeln!(text, "{}", style.bold(&line));
    }
    let remarks: Vec<String> = match source {
        SourceText::Missing { why } => vec![format!("The source is missing: {why}")],
        SourceText::Found { path, doubts, .. } => {
            let elsewhere = (path != &file.file).then(|| format!("Read from {path}"));
            elsewhere.into_iter().chain(doubts.clone()).collect()
        }
    };
    for remark in remarks {
        style.add_wrapped(text, &format!("{}\n", style.clean_sentence(&remark)));
    }
    let head = format!("{:>8} {:>6} {:>10} {:>6}", "stall", "", "swap-ins", "line");
    let _ = writeln!(text, "{}", style.dim(&head));
}

fn body(
    text: &mut String,
    file: &SourceFile,
    source: &SourceText,
    findings: &Findings,
    style: Style,
) {
    let lines: Vec<&str> = match source {
        SourceText::Found { text, .. } => text.lines().collect(),
        SourceText::Missing { .. } => Vec::new(),
    };
    let mut shown_to = 0;
    let numbers: Vec<u32> = file.lines.keys().copied().collect();
    for (at, &number) in numbers.iter().enumerate() {
        let last = (lines.len() as u32).max(number);
        let from = number.saturating_sub(CONTEXT).max(shown_to + 1);
        let until = number.saturating_add(CONTEXT).min(last);
        let until = numbers
            .get(at + 1)
            .map_or(until, |next| until.min(next - 1));
        let from = if lines.is_empty() { number } else { from };
        let until = if lines.is_empty() { number } else { until };
        if shown_to > 0 && from > shown_to + 1 {
            let _ = writeln!(text, "{}", style.dim(&format!("{:>33}", "...")));
        }
        for line in from..=until {
            let found = lines.get(line as usize - 1).copied();
            row(text, line, file.lines.get(&line), found, findings, style);
        }
        shown_to = until;
    }
}

fn row(
    text: &mut String,
    number: u32,
    line: Option<&Line>,
    source: Option<&str>,
    findings: &Findings,
    style: Style,
) {
    let waited = line.filter(|line| line.swap_ins > 0);
    let cells = waited.map_or(format!("{:26}", ""), |line| {
        let share = percent(line.stall_ns, findings.totals.stall_ns);
        format!(
            "{:>8} {share:>6} {:>10}",
            duration(line.stall_ns),
            count(line.swap_ins)
        )
    });
    let edge = if style.unicode { '│' } else { '|' };
    let left = format!("{cells} {number:>6} {edge} ");
    let room = style.width.saturating_sub(left.width());
    let source = source.map(|source| style.clean_sentence(&source.replace('\t', "    ")));
    let source = take_width(source.as_deref().unwrap_or("").chars(), room);
    let row = format!("{left}{source}");
    let row = row.trim_end();
    let _ = match waited {
        Some(_) => writeln!(text, "{}", style.bold(row)),
        None => writeln!(text, "{row}"),
    };
    for &made in line.map_or(&[][..], |line| &line.made) {
        let object = &findings.objects[made];
        let stall = duration(object.counts.stall_ns);
        let name = object.identity.name.as_deref().unwrap_or("an object");
        let note = format!(
            "{:>33} {edge} ^ {}: waited {stall} for it",
            "",
            style.clean(name)
        );
        let _ = writeln!(
            text,
            "{}",
            style.dim(&take_width(note.chars(), style.width))
        );
    }
}
