//! The tables: objects, call paths, source lines. Complete without scripts; these sort them, and select by them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;

use super::escape::html;
use super::events::MOST_PATHS;
use crate::text::PathGroup;
use crate::text::Style;
use crate::text::grouped;
use crate::text::needs;
use crate::text::short_name;
use crate::text::take_width;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

/// Rows of a table; the rest is summed up.
pub(super) const MOST_ROWS: usize = 200;
/// Characters of a type; `report --json` has it whole.
const WIDEST_TYPE: usize = 40;

/// What is in a cell, and by what it is sorted.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) text: String,
    /// `None`: unknown, sorts last.
    pub(super) value: Option<f64>,
    pub(super) kind: CellKind,
}

/// How a cell is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CellKind {
    /// On one line.
    #[default]
    Short,
    /// Words, on as many lines as they take.
    Words,
    /// Its text is markup of our own, in which names are escaped already.
    Markup,
}

impl Cell {
    pub(super) fn number(value: Option<u64>, show: fn(u64) -> String) -> Self {
        Self {
            text: value.map_or("?".to_owned(), show),
            value: value.map(|value| value as f64),
            ..Self::default()
        }
    }

    pub(super) fn share(value: Option<f64>) -> Self {
        Self {
            text: value.map_or("?".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
            value,
            ..Self::default()
        }
    }

    /// Of what does not apply.
    pub(super) fn none() -> Self {
        Self::word("-")
    }

    /// A sentence.
    pub(super) fn words(text: String) -> Self {
        Self {
            text,
            kind: CellKind::Words,
            ..Self::default()
        }
    }

    pub(super) fn word(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

/// One table; the first column is the name.
pub(super) struct Table<'a> {
    pub(super) id: &'a str,
    pub(super) caption: &'a str,
    pub(super) heads: Vec<&'a str>,
    /// What a row selects in the pictures: the attribute's name.
    pub(super) selects: Option<&'a str>,
    /// What each selects, its name, and the other cells.
    pub(super) rows: Vec<(String, String, Vec<Cell>)>,
    pub(super) rest: Option<String>,
}

impl Table<'_> {
    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "<table id=\"{}\"><caption>{}</caption><thead><tr>",
            self.id, self.caption
        );
        for (column, head) in self.heads.iter().enumerate() {
            let class = if column == 0 { "" } else { " class=\"number\"" };
            let _ = writeln!(text, "<th scope=\"col\"{class}>{head}</th>");
        }
        text.push_str("</tr></thead><tbody>\n");
        for (index, name, cells) in &self.rows {
            let _ = match self.selects {
                Some(what) => write!(text, "<tr data-{what}=\"{index}\">"),
                None => write!(text, "<tr>"),
            };
            let _ = write!(text, "<th scope=\"row\">{}</th>", html(name));
            for cell in cells {
                let value = cell
                    .value
                    .map_or(String::new(), |value| format!(" data-value=\"{value}\""));
                let _ = match cell.kind {
                    CellKind::Short => write!(text, "<td{value}>{}</td>", html(&cell.text)),
                    CellKind::Words => {
                        write!(text, "<td class=\"words\"{value}>{}</td>", html(&cell.text))
                    }
                    CellKind::Markup => {
                        write!(text, "<td class=\"words\"{value}>{}</td>", cell.text)
                    }
                };
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody>");
        if let Some(rest) = &self.rest {
            let columns = self.heads.len();
            let _ = write!(
                text,
                "<tfoot><tr><td colspan=\"{columns}\">{}</td></tr></tfoot>",
                html(rest)
            );
        }
        text.push_str("</table>\n");
    }
}

/// Its type; `?`: it has one that is not known, `-`: it is no variable.
fn shown_type(object: &Object) -> String {
    match (&object.type_name, object.identity.kind) {
        (Some(name), _) => {
            let name = Style::PAGE.clean(name);
            let short = take_width(name.chars(), WIDEST_TYPE);
            match short.len() == name.len() {
                true => name,
                false => short + "...",
            }
        }
        (None, ObjectKind::Allocation | ObjectKind::Global) => "?".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

/// All objects, most stall first; a row selects a band.
pub(super) fn objects(findings: &Findings) -> String {
    if findings.objects.is_empty() {
        return "<p>No objects were recorded.</p>\n".to_owned();
    }
    let stall = findings.faults_observed();
    let swap_ins = findings.swap_ins_observed();
    let all = findings.totals.stall_ns;
    let row = |(index, object): (usize, &Object)| {
        let counts = &object.counts;
        let share = (stall && all > 0).then(|| counts.stall_ns as f64 / all as f64);
        let cells = vec![
            Cell::number(stall.then_some(counts.stall_ns), duration),
            Cell::share(share),
            Cell::number(swap_ins.then_some(counts.swap_ins), count),
            Cell::number(counts.known_evictions().filter(|_| stall), count),
            Cell::number(object.bytes, bytes),
            Cell {
                text: needs(object, findings),
                value: object.extra_bytes.map(|extra| extra as f64),
                ..Cell::default()
            },
            Cell::share(object.resident_share),
            Cell::share(object.accessed_share),
            Cell::share(findings.write_share(counts)),
            Cell::word(object.pattern.map_or("-", Pattern::name)),
            Cell::word(&shown_type(object)),
            Cell::word(object.identity.kind.name()),
        ];
        (index.to_string(), Style::PAGE.name_of(object), cells)
    };
    let rest = findings.objects.get(MOST_ROWS..).unwrap_or_default();
    let rest_stall: u64 = rest.iter().map(|object| object.counts.stall_ns).sum();
    let table = Table {
        id: "objects",
        caption: "Objects",
        heads: vec![
            "object",
            "stall",
            "share",
            "swap-ins",
            "evictions",
            "size",
            "needs",
            "in memory",
            "accessed",
            "written",
            "pattern",
            "type",
            "kind",
        ],
        selects: Some("object"),
        rows: findings
            .objects
            .iter()
            .take(MOST_ROWS)
            .enumerate()
            .map(row)
            .collect(),
        rest: (!rest.is_empty()).then(|| {
            let number = count(rest.len() as u64);
            let together = match stall {
                true => format!(", together {}", duration(rest_stall)),
                false => String::new(),
            };
            format!("and {number} more{together} (report --json lists all)")
        }),
    };
    let mut text = String::new();
    table.write(&mut text);
    text
}

/// Call paths of swap-ins, those that read the same in one row; it selects them, as far as the pictures know them apart.
pub(super) fn call_paths(findings: &Findings) -> String {
    if findings.fault_paths.is_empty() {
        return "<p>Call paths of swap-ins were not recorded (sensor call-paths).</p>\n".to_owned();
    }
    let all = findings.totals.stall_ns;
    let groups = grouped(&findings.fault_paths, Style::PAGE);
    let (listed, rest) = groups.split_at(groups.len().min(MOST_ROWS));
    let rest_stall: u64 = rest.iter().map(|group| group.stall_ns).sum();
    let row = |group: &PathGroup| {
        let members = group.members.iter().filter(|&&path| path < MOST_PATHS);
        let members: Vec<String> = members.map(usize::to_string).collect();
        let cells = waiting(group.stall_ns, group.swap_ins, all);
        (members.join(" "), group.line.clone(), cells)
    };
    let table = Table {
        id: "paths",
        caption: "Call paths of swap-ins, innermost function first",
        heads: vec!["call path", "stall", "share", "swap-ins"],
        selects: Some("paths"),
        rows: listed.iter().map(row).collect(),
        rest: (!rest.is_empty()).then(|| {
            let number = count(rest.len() as u64);
            format!("and {number} more, together {}", duration(rest_stall))
        }),
    };
    let mut text = String::new();
    table.write(&mut text);
    text
}

/// The lines of source that touched pages which were away.
pub(super) fn lines(findings: &Findings) -> String {
    let mut lines: BTreeMap<(&str, u32), (&str, u64, u64)> = BTreeMap::new();
    for path in &findings.fault_paths {
        // Of a library without debug information: the innermost line that is known.
        let known = path
            .frames
            .iter()
            .find_map(|frame| Some((frame, frame.file.as_deref()?, frame.line?)));
        let Some((frame, file, line)) = known else {
            continue;
        };
        let function = frame.function.as_deref().unwrap_or("?");
        let sums = lines.entry((file, line)).or_insert((function, 0, 0));
        sums.1 = sums.1.saturating_add(path.stall_ns);
        sums.2 += path.swap_ins;
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, (_, stall_ns, swap_ins))| std::cmp::Reverse((*stall_ns, *swap_ins)));
    let all = findings.totals.stall_ns;
    let row = |((file, line), (function, stall_ns, swap_ins))| {
        let (file, line): (&str, u32) = (file, line);
        let name = format!("{file}:{line}  {}", short_name(function));
        (String::new(), name, waiting(stall_ns, swap_ins, all))
    };
    let table = Table {
        id: "lines",
        caption: "Source lines",
        heads: vec!["line", "stall", "share", "swap-ins"],
        selects: None,
        rest: (lines.len() > MOST_ROWS).then(|| format!("and {} more", lines.len() - MOST_ROWS)),
        rows: lines.into_iter().take(MOST_ROWS).map(row).collect(),
    };
    let mut text = String::new();
    table.write(&mut text);
    text
}

fn waiting(stall_ns: u64, swap_ins: u64, all_ns: u64) -> Vec<Cell> {
    let share = (all_ns > 0).then(|| stall_ns as f64 / all_ns as f64);
    vec![
        Cell::number((all_ns > 0).then_some(stall_ns), duration),
        Cell {
            text: share.map_or("?".to_owned(), |_| percent(stall_ns, all_ns)),
            value: share,
            ..Cell::default()
        },
        Cell::number(Some(swap_ins), count),
    ]
}
