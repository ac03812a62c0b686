//! The table of objects.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::Pattern;
use unicode_width::UnicodeWidthStr;

use super::Style;
use super::clean::cut;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// A column to the right of the name, and how to fill it.
type Column = (&'static str, fn(&Object, &Findings) -> String);
const COLUMNS: &[Column] = &[
    ("stall", |object, _| duration(object.counts.stall_ns)),
    ("swap-ins", |object, _| count(object.counts.swap_ins)),
    ("pattern", |object, _| {
        object.pattern.map_or("-", Pattern::name).to_owned()
    }),
    ("size", |object, _| {
        object.bytes.map_or("?".to_owned(), bytes)
    }),
    ("needs", needs),
    ("in memory", |object, _| {
        let share = object.resident_share;
        share.map_or("?".to_owned(), |share| format!("{:.0} %", 100.0 * share))
    }),
    ("evictions", |object, _| {
        let known = object.counts.known_evictions();
        known.map_or("?".to_owned(), count)
    }),
];

/// The memory that would have avoided an object's stall: all of it, or without a limit what is missing.
pub(crate) fn needs(object: &Object, findings: &Findings) -> String {
    let none = || {
        if object.counts.swap_ins == 0 {
            "-"
        } else {
            "?"
        }
        .to_owned()
    };
    object
        .extra_bytes
        .map_or_else(none, |extra| match findings.meta.limit.bytes {
            Some(limit) => bytes(limit.saturating_add(extra)),
            None => format!("+{}", bytes(extra)),
        })
}

/// The columns of what was observed: an unknown number is not shown as 0.
fn columns_of(findings: &Findings) -> Vec<Column> {
    let known = |name: &str| match name {
        "stall" | "evictions" => findings.faults_observed(),
        "swap-ins" | "pattern" => findings.swap_ins_observed(),
        "in memory" => findings.residency_observed(),
        "needs" => findings.memory_need.extra_bytes.is_some(),
        _ => true,
    };
    COLUMNS
        .iter()
        .filter(|(name, _)| known(name))
        .copied()
        .collect()
}

/// Objects by stall.
pub(crate) fn table(text: &mut String, findings: &Findings, style: Style) {
    let shown: Vec<&Object> = findings.objects.iter().take(style.objects).collect();
    if shown.is_empty() {
        if findings.objects.is_empty() {
            let _ = writeln!(text, "\nNo objects were recorded.");
        }
        return;
    }
    let columns = columns_of(findings);
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let rows = shown.iter().map(|object| {
        let cells = columns.iter().map(|(_, cell)| cell(object, findings));
        (style.name_of(object), cells.collect())
    });
    table_of(text, "object", &heads, &rows.collect::<Vec<_>>(), style);
    if findings.objects.len() > shown.len() {
        let rest = &findings.objects[shown.len()..];
        let stall: u64 = rest.iter().map(|object| object.counts.stall_ns).sum();
        let together = match findings.faults_observed() {
            true => format!(", together {}", duration(stall)),
            false => String::new(),
        };
        let more = count(rest.len() as u64);
        let line = format!("and {more} more{together} (--objects N lists them)");
        style.add_wrapped(text, &line);
    }
}

const NARROWEST_NAME: usize = 36;
const GAP: usize = 2;

/// Names, and cells to their right. A narrow terminal loses columns from the right, never the names.
pub(crate) fn table_of(
    text: &mut String,
    name_head: &str,
    heads: &[&str],
    rows: &[(String, Vec<String>)],
    style: Style,
) {
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| {
            let cells = rows.iter().map(|(_, cells)| cells[column].width());
            cells.chain([heads[column].width()]).max().unwrap_or(0)
        })
        .collect();
    let right = |columns: usize| {
        widths[..columns]
            .iter()
            .map(|width| width + GAP)
            .sum::<usize>()
    };
    let names = rows.iter().map(|(name, _)| name.width());
    let longest = names.max().unwrap_or(0).max(name_head.len());
    // Half of a narrow terminal is for names.
    let narrowest = NARROWEST_NAME.min(style.width / 2).min(longest);
    let mut columns = heads.len();
    while columns > 1 && right(columns) + narrowest > style.width {
        columns -= 1;
    }
    let room = style
        .width
        .saturating_sub(right(columns))
        .max(narrowest)
        .min(longest);
    let fitted_names = told_apart(rows.iter().map(|(name, _)| name.as_str()), room);
    let line = |name: &str, cells: &[&str]| {
        let cells = cells.iter().zip(&widths).take(columns);
        let cells = cells.map(|(cell, width)| {
            let padding = (width + GAP).saturating_sub(cell.width());
            format!("{}{cell}", " ".repeat(padding))
        });
        format!("{}{}", fitted(name, room), cells.collect::<String>())
    };
    let _ = writeln!(text, "\n{}", style.dim(&line(name_head, heads)));
    for (name, (_, cells)) in fitted_names.iter().zip(rows) {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{}", line(name, &cells));
    }
}

/// Names cut to a width. Those that differ only in what is cut away are numbered.
fn told_apart<'name>(names: impl Iterator<Item = &'name str>, width: usize) -> Vec<String> {
    let mut seen: Vec<(String, Vec<&str>)> = Vec::new();
    let apart = |name: &'name str| {
        let short = cut_to(name, width);
        let Some((_, same)) = seen.iter_mut().find(|(other, _)| *other == short) else {
            seen.push((short.clone(), vec![name]));
            return short;
        };
        let known = same.iter().position(|other| *other == name);
        let at = known.unwrap_or_else(|| {
            same.push(name);
            same.len() - 1
        });
        match at {
            0 => short,
            _ => {
                let number = format!(" ({})", at + 1);
                cut_to(name, width.saturating_sub(number.len())) + &number
            }
        }
    };
    names.map(apart).collect()
}

fn cut_to(name: &str, width: usize) -> String {
    match name.width() <= width {
        true => name.to_owned(),
        false => cut(name, width),
    }
}

/// A name cut or padded to a width.
fn fitted(name: &str, width: usize) -> String {
    let name = cut_to(name, width);
    let padding = width.saturating_sub(name.width());
    format!("{name}{}", " ".repeat(padding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_what_is_cut_away_are_numbered() {
        let names = [
            "begin 1 end",
            "begin 2 end",
            "begin 1 end",
            "other",
            "begin 3 end",
        ];
        let told = told_apart(names.into_iter(), 9);
        assert_eq!(told[0], told[2]);
        assert_eq!(told[1], "be~nd (2)");
        assert_eq!(told[3], "other");
        assert!(
            told[4].ends_with(" (3)") && told[4].width() == 9,
            "{told:?}"
        );
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(fitted("abcdefghij", 10), "abcdefghij");
        assert_eq!(fitted("abcdefghijk", 7), "abc~ijk");
        assert_eq!(fitted("ab", 4), "ab  ");
    }
}
