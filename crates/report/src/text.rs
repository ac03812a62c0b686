//! The report in a terminal: the headline, then objects by stall time.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// How to render.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns to fill at most.
    pub width: usize,
    /// Escape sequences for bold and dim.
    pub color: bool,
    /// Objects to list.
    pub objects: usize,
}

impl Style {
    /// For standard output as it is: its width if it is a terminal, 100 columns and no colour if not; colour unless
    /// `NO_COLOR` is set (to anything but nothing).
    pub fn of_stdout() -> Self {
        let terminal = terminal_size::terminal_size_of(std::io::stdout());
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            width: terminal.map_or(100, |(width, _)| usize::from(width.0).max(40)),
            color: terminal.is_some() && color,
            objects: 20,
        }
    }

    fn bold(self, text: &str) -> String {
        if self.color {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn dim(self, text: &str) -> String {
        if self.color {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The whole report.
pub fn render(findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    headline(&mut text, findings, style);
    facts(&mut text, findings);
    table(&mut text, findings, style);
    latency(&mut text, findings);
    remarks(&mut text, findings, style);
    text
}

/// What an object is called in a line of text.
pub fn display_name(object: &Object) -> String {
    let identity = &object.identity;
    let file = identity
        .file
        .as_deref()
        .map(|file| file.rsplit('/').next().unwrap_or(file));
    let place = match (file, identity.line) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (Some(file), None) => Some(file.to_owned()),
        (None, _) => None,
    };
    let function = identity.function.as_deref();
    match (identity.kind, identity.name.as_deref(), place) {
        (ObjectKind::Heap, ..) => "[heap] (small allocations)".to_owned(),
        (ObjectKind::Stack, ..) => "[stack]".to_owned(),
        (ObjectKind::Unknown, ..) => "(memory of no recorded object)".to_owned(),
        (_, Some(name), Some(place)) => format!("{name} ({place})"),
        (_, Some(name), None) => name.to_owned(),
        (_, None, Some(place)) => match function {
            Some(function) => format!("{} ({place})", bare(function)),
            None => place,
        },
        (_, None, None) => match function {
            Some(function) => format!("{} (no line known)", bare(function)),
            None => "allocation of unknown origin".to_owned(),
        },
    }
}

/// A function's name without its parameters.
fn bare(function: &str) -> &str {
    match function.find('(') {
        Some(0) | None => function,
        Some(at) => &function[..at],
    }
}

fn headline(text: &mut String, findings: &Findings, style: Style) {
    let totals = &findings.totals;
    let line = if !findings.faults_observed() {
        "Faults and evictions were not observed (--sensors).".to_owned()
    } else if totals.swap_ins == 0 && totals.evictions == 0 {
        "Nothing was swapped.".to_owned()
    } else {
        let wall = findings.meta.wall_ns.filter(|&wall| wall > 0);
        let of_wall = wall.map_or(String::new(), |wall| {
            format!(
                " of {} ({})",
                duration(wall),
                percent(totals.stall_ns, wall)
            )
        });
        format!(
            "Waited {}{of_wall} for {} swap-ins.",
            duration(totals.stall_ns),
            count(totals.swap_ins - totals.swap_cache_hits)
        )
    };
    let _ = writeln!(text, "{}", style.bold(&line));
    if let Some(worst) = findings
        .objects
        .first()
        .filter(|object| object.stall_ns > 0)
    {
        let share = percent(worst.stall_ns, totals.stall_ns);
        let _ = writeln!(
            text,
            "{}",
            style.bold(&format!(
                "{share} of the waiting was for {}.",
                display_name(worst)
            ))
        );
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let share = 100.0 * part as f64 / whole as f64;
    if share > 0.0 && share < 9.95 {
        format!("{share:.1} %")
    } else {
        format!("{share:.0} %")
    }
}

fn facts(text: &mut String, findings: &Findings) {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let mut parts = Vec::new();
    if let Some(limit) = meta.limit.bytes {
        parts.push(format!("limit {}", bytes(limit)));
    }
    if let Some(peak) = meta.peak_rss_bytes {
        parts.push(format!("peak resident {}", bytes(peak)));
    }
    if let Some(kind) = &meta.swap.kind {
        parts.push(format!("swap {kind}"));
    }
    if !findings.faults_observed() {
        let _ = writeln!(text, "{}", parts.join(", "));
        return;
    }
    parts.push(format!("{} evictions", count(totals.evictions)));
    parts.push(format!("{} pages written", count(totals.pages_written)));
    if totals.zero_filled > 0 {
        parts.push(format!("{} zero-filled", count(totals.zero_filled)));
    }
    if totals.swap_cache_hits > 0 {
        parts.push(format!("{} swap-cache hits", count(totals.swap_cache_hits)));
    }
    let _ = writeln!(text, "{}", parts.join(", "));
}

/// Columns to the right of the name, each with how to fill it.
type Column = (&'static str, fn(&Object) -> String);
const COLUMNS: &[Column] = &[
    ("stall", |object| duration(object.stall_ns)),
    ("swap-ins", |object| count(object.swap_ins)),
    ("evictions", |object| count(object.evictions)),
    ("size", |object| object.bytes.map_or("?".to_owned(), bytes)),
    ("pattern", |object| {
        object
            .pattern
            .map_or("-", pagewise_analyze::Pattern::name)
            .to_owned()
    }),
];
const NARROWEST_NAME: usize = 36;
const GAP: usize = 2;

fn table(text: &mut String, findings: &Findings, style: Style) {
    let shown: Vec<&Object> = findings.objects.iter().take(style.objects).collect();
    if shown.is_empty() {
        if findings.objects.is_empty() {
            let _ = writeln!(text, "\nNo objects were recorded.");
        }
        return;
    }
    let cells: Vec<Vec<String>> = shown
        .iter()
        .map(|object| COLUMNS.iter().map(|(_, cell)| cell(object)).collect())
        .collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| {
            cells
                .iter()
                .map(|row| row[column].width())
                .chain([COLUMNS[column].0.width()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    // A narrow terminal loses columns from the right, never the names.
    let mut columns = COLUMNS.len();
    let right = |columns: usize| {
        widths[..columns]
            .iter()
            .map(|width| width + GAP)
            .sum::<usize>()
    };
    while columns > 1 && right(columns) + NARROWEST_NAME > style.width {
        columns -= 1;
    }
    let names: Vec<String> = shown.iter().map(|object| display_name(object)).collect();
    let longest = names
        .iter()
        .map(|name| name.width())
        .max()
        .unwrap_or(0)
        .max("object".len());
    let room = style
        .width
        .saturating_sub(right(columns))
        .max(NARROWEST_NAME.min(longest))
        .min(longest);

    let heads = (0..columns).map(|column| {
        format!(
            "{:>width$}",
            COLUMNS[column].0,
            width = widths[column] + GAP
        )
    });
    let head = format!("{:<room$}{}", "object", heads.collect::<String>());
    let _ = writeln!(text, "\n{}", style.dim(&head));
    for (name, row) in names.iter().zip(&cells) {
        let cells = (0..columns)
            .map(|column| format!("{:>width$}", row[column], width = widths[column] + GAP));
        let _ = writeln!(text, "{}{}", fitted(name, room), cells.collect::<String>());
    }
    if findings.objects.len() > shown.len() {
        let rest = &findings.objects[shown.len()..];
        let stall: u64 = rest.iter().map(|object| object.stall_ns).sum();
        let _ = writeln!(
            text,
            "and {} more, together {} (--objects N lists them)",
            rest.len(),
            duration(stall)
        );
    }
}

/// A name cut or padded to a width. The end of a name tells the line: the middle goes.
fn fitted(name: &str, width: usize) -> String {
    if name.width() <= width {
        return format!("{name}{}", " ".repeat(width - name.width()));
    }
    let half = width.saturating_sub(1) / 2;
    let head = take_width(name.chars(), width - 1 - half);
    let tail: String = take_width(name.chars().rev(), half).chars().rev().collect();
    let cut = format!("{head}~{tail}");
    let padding = width.saturating_sub(cut.width());
    format!("{cut}{}", " ".repeat(padding))
}

fn take_width(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += character.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

fn latency(text: &mut String, findings: &Findings) {
    let at = |share| findings.latency.quantile(share).map(duration);
    if let (Some(half), Some(most), Some(max)) = (at(0.5), at(0.99), findings.latency.max()) {
        let _ = writeln!(
            text,
            "\nSwap-in latency: median {half}, p99 {most}, longest {}",
            duration(max)
        );
    }
}

fn remarks(text: &mut String, findings: &Findings, style: Style) {
    let meta = &findings.meta;
    let losses: Vec<String> = meta
        .losses
        .iter()
        .filter(|(_, lost)| **lost > 0)
        .map(|(what, lost)| format!("{what} {}", count(*lost)))
        .collect();
    if !losses.is_empty() {
        let _ = writeln!(
            text,
            "{}",
            style.bold(&format!("Lost: {}", losses.join(", ")))
        );
    }
    if let Some(reason) = &meta.exit.reason {
        let _ = writeln!(text, "{}", style.bold(reason));
    }
    let lineless = |object: &&Object| {
        object.identity.kind == ObjectKind::Allocation && object.identity.line.is_none()
    };
    if findings
        .objects
        .iter()
        .take(style.objects)
        .any(|object| lineless(&object))
    {
        let _ = writeln!(
            text,
            "Objects without a line come from code without debug information: compile with -g to name them."
        );
    }
    if meta.recovered.is_some() || meta.end_monotonic_ns.is_none() {
        let _ = writeln!(
            text,
            "The recording was cut short: the above is what there was until then."
        );
    }
    if let Some(raised) = meta
        .cost
        .get("limit_raised_times")
        .filter(|&&times| times > 0.0)
    {
        let _ = writeln!(
            text,
            "The limit was raised by 1 MiB {raised} times, for a moment each: the kernel's reclaim (cgroup v1) had given up."
        );
    }
    if let Some(unseen) = meta
        .totals
        .get("faults_without_exception")
        .filter(|&&unseen| unseen > 0)
    {
        let _ = writeln!(
            text,
            "{} further major faults were taken inside system calls (mlock and the like), without address or latency.",
            count(*unseen)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(fitted("abcdefghij", 10), "abcdefghij");
        assert_eq!(fitted("abcdefghijk", 7), "abc~ijk");
        assert_eq!(fitted("ab", 4), "ab  ");
        assert_eq!(fitted("日本語日本語", 5).width(), 5);
    }

    #[test]
    fn shares_are_read_at_a_glance() {
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(1, 100), "1.0 %");
        assert_eq!(percent(0, 0), "0 %");
    }
}
