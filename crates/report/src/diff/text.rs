//! A difference for people.

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::Pattern;

use super::Change;
use super::Difference;
use super::MatchedBy;
use super::NOISE_OF_TOTAL;
use super::NOISE_SHARE;
use super::ObjectChange;
use crate::text::Style;
use crate::text::table_of;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

/// The whole difference.
pub fn render(difference: &Difference, style: Style) -> String {
    let mut text = String::new();
    for line in style.wrapped(&headline(difference)) {
        let _ = writeln!(text, "{}", style.bold(&line));
    }
    totals(&mut text, difference, style);
    objects(&mut text, difference, style);
    style.add_wrapped(&mut text, &remarks(difference));
    text
}

fn headline(difference: &Difference) -> String {
    let sides = [difference.before, difference.after];
    let [before, after] = match difference.by_stall {
        true => sides.map(|side| duration(side.totals.stall_ns)),
        false => sides.map(|side| format!("{} swap-ins", count(side.totals.swap_ins))),
    };
    let verdict = match difference.change {
        Change::Similar => "about the same",
        other => other.name(),
    };
    match difference.by_stall {
        true => format!("Waited {after}, before {before}: {verdict}."),
        false => format!("{after}, before {before}: {verdict}."),
    }
}

type Row = (
    &'static str,
    fn(&Findings) -> Option<u64>,
    fn(u64) -> String,
);
const TOTALS: &[Row] = &[
    ("wall time", |side| side.meta.wall_ns, duration),
    (
        "stall",
        |side| side.faults_observed().then_some(side.totals.stall_ns),
        duration,
    ),
    (
        "swap-ins",
        |side| side.swap_ins_observed().then_some(side.totals.swap_ins),
        count,
    ),
    (
        "evictions",
        |side| side.faults_observed().then_some(side.totals.evictions),
        count,
    ),
    (
        "pages written",
        |side| side.faults_observed().then_some(side.totals.pages_written),
        count,
    ),
    ("memory limit", |side| side.meta.limit.bytes, bytes),
    ("peak resident", |side| side.meta.peak_rss_bytes, bytes),
    ("needs", |side| side.memory_need.limit_bytes, bytes),
];

fn totals(text: &mut String, difference: &Difference, style: Style) {
    let rows: Vec<(String, Vec<String>)> = TOTALS
        .iter()
        .filter_map(|(name, value, shown)| {
            let sides = [difference.before, difference.after].map(value);
            sides.iter().any(Option::is_some).then(|| {
                let [before, after] = sides.map(|side| side.map_or("?".to_owned(), shown));
                let change = sides[0].zip(sides[1]);
                let change = change.map_or("?".to_owned(), |(before, after)| by(before, after));
                ((*name).to_owned(), vec![before, after, change])
            })
        })
        .collect();
    table_of(text, "", &["before", "after", "change"], &rows, style);
}

/// How much larger or smaller: `-31 %`, `x 4.2`.
fn by(before: u64, after: u64) -> String {
    match (before, after) {
        _ if before == after => "=".to_owned(),
        (0, _) => "from 0".to_owned(),
        _ if after > 2 * before => format!("x {:.1}", after as f64 / before as f64),
        _ if after > before => format!("+{}", percent(after - before, before)),
        _ => format!("-{}", percent(before - after, before)),
    }
}

fn objects(text: &mut String, difference: &Difference, style: Style) {
    let shown: Vec<&ObjectChange> = difference
        .objects
        .iter()
        .filter(|object| object.change != Change::Similar && object.matters)
        .collect();
    let similar = difference.objects.len() - shown.len();
    let rows: Vec<(String, Vec<String>)> = shown
        .iter()
        .take(style.objects)
        .map(|object| row(object, difference, style))
        .collect();
    let heads: &[&str] = match difference.by_stall {
        true => &["", "stall", "before", "swap-ins", "before", "pattern"],
        false => &["", "swap-ins", "before", "pattern"],
    };
    if !rows.is_empty() {
        table_of(text, "object", heads, &rows, style);
    }
    if shown.len() > rows.len() {
        let more = count((shown.len() - rows.len()) as u64);
        let _ = writeln!(text, "and {more} more (--objects N lists them)");
    }
    if similar > 0 {
        let similar = count(similar as u64);
        let _ = writeln!(text, "Hardly differ, or hardly waited: {similar} objects.");
    }
}

fn row(object: &ObjectChange, difference: &Difference, style: Style) -> (String, Vec<String>) {
    let sides = [object.after, object.before];
    let cell = |value: fn(&Object) -> u64, shown: fn(u64) -> String| {
        sides.map(|side| side.map_or("-".to_owned(), |object| shown(value(object))))
    };
    let mut cells = vec![object.change.name().to_owned()];
    if difference.by_stall {
        cells.extend(cell(|object| object.counts.stall_ns, duration));
    }
    cells.extend(cell(|object| object.counts.swap_ins, count));
    cells.push(patterns(object));
    (name(object, style), cells)
}

fn name(object: &ObjectChange, style: Style) -> String {
    let Some(named) = object.after.or(object.before) else {
        return String::new();
    };
    let mut name = style.name_of(named);
    if object.matched_by == Some(MatchedBy::MovedLine)
        && let Some(line) = object.before.and_then(|before| before.identity.line)
    {
        let _ = write!(name, " (was line {line})");
    }
    name
}

fn patterns(object: &ObjectChange) -> String {
    let name = |side: Option<&Object>| {
        side.and_then(|side| side.pattern)
            .map_or("-", Pattern::name)
    };
    match (name(object.before), name(object.after)) {
        (before, after) if before == after => after.to_owned(),
        ("-", after) => after.to_owned(),
        (before, "-") => format!("was {before}"),
        (before, after) => format!("{after}, was {before}"),
    }
}

fn remarks(difference: &Difference) -> String {
    let mut text = String::new();
    let (before, after) = (&difference.before.meta, &difference.after.meta);
    if before.limit.bytes != after.limit.bytes {
        text.push_str("The memory limits differ: that alone changes how much is swapped.\n");
    }
    let kinds = before.swap.kind.as_ref().zip(after.swap.kind.as_ref());
    if kinds.is_some_and(|(one, other)| one != other)
        || before.swap.is_memory() != after.swap.is_memory()
    {
        text.push_str("The kinds of swap differ: that alone changes how long a swap-in takes.\n");
    }
    if before.command != after.command {
        text.push_str("The commands differ.\n");
    }
    if !difference.by_stall {
        text.push_str("One of them has no latencies: swap-ins are compared, not time.\n");
    }
    let _ = writeln!(
        text,
        "One recording of each shows no spread. Similar is what differs by less than {:.0} %, or by less than {:.0} % of \
         all: recordings of one program may differ by so much. Larger differences may still be chance; record again to see.",
        NOISE_SHARE * 100.0,
        NOISE_OF_TOTAL * 100.0
    );
    text
}
