//! How files were used: what each call path did to them and what would help, the files with where in them it was, and a flame graph.

use std::fmt::Write as _;

use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::FileUse;
use pagewise_analyze::file_io::Heat;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;

use super::escape::html;
use super::tables::Cell;
use super::tables::CellKind;
use super::tables::MOST_ROWS;
use super::tables::Table;
use crate::file_io::advice_words;
use crate::text::Style;
use crate::text::grounds_of_context;
use crate::text::name_of_file;
use crate::text::path_of_context;
use crate::text::short_name;
use crate::text::sums_of_file_io;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// Call paths of a file that are named.
const MOST_PATHS_OF_FILE: usize = 6;

/// The whole section; empty if calls on files were not recorded.
pub(super) fn section(io: Option<&FileIo>) -> String {
    let Some(io) = io else {
        return String::new();
    };
    let mut text = String::from(
        "<section id=\"io-section\" aria-labelledby=\"io-title\">\n<h2 id=\"io-title\">Files</h2>\n",
    );
    if io.contexts.is_empty() {
        text.push_str("<p>No regular file was read or written.</p>\n</section>\n");
        return text;
    }
    let _ = writeln!(text, "<p>{}.</p>", html(&sums_of_file_io(io)));
    text.push_str(FLAME);
    text.push_str("</section>\n<section aria-label=\"Call paths that use files\">\n");
    contexts(&mut text, io);
    text.push_str("</section>\n<section aria-label=\"Files\">\n");
    files(&mut text, io);
    text.push_str("</section>\n");
    text
}

const FLAME: &str = "<div class=\"controls\" role=\"radiogroup\" aria-label=\"Width of the flame graph of files\">
<label><input type=\"radio\" name=\"io-flame-weight\" value=\"bytes\" checked> by bytes</label>
<label><input type=\"radio\" name=\"io-flame-weight\" value=\"latency_ns\"> by time waited</label>
</div>
<div id=\"io-flame\" role=\"tree\" aria-labelledby=\"io-title\"></div>
<p class=\"status\" id=\"io-flame-status\" role=\"status\"></p>
<p class=\"help\">Calls on files by call path, outermost function on top. Click or Enter: enlarge. Arrow keys: move. <kbd>Esc</kbd>: back.</p>
";

/// Most bytes first.
fn contexts(text: &mut String, io: &FileIo) {
    let row = |context: &IoContext| {
        let path = path_of_context(context, Style::PAGE);
        let name = format!("{} by {path}", context.does.name());
        (String::new(), name, context_cells(context, io))
    };
    let table = Table {
        id: "io-contexts",
        caption: "Call paths that use files",
        heads: vec![
            "call path",
            "bytes",
            "calls",
            "mean",
            "p50",
            "p99",
            "waited",
            "missed",
            "in vain",
            "class",
            "why",
            "advice",
        ],
        selects: None,
        rows: io.contexts.iter().take(MOST_ROWS).map(row).collect(),
        rest: rest(io.contexts.len()),
    };
    table.write(text);
}

fn context_cells(context: &IoContext, io: &FileIo) -> Vec<Cell> {
    let moves = matches!(context.does, Use::Read | Use::Write);
    let known = |value: Option<u64>, show| match value {
        Some(_) => Cell::number(value, show),
        None => Cell::none(),
    };
    let in_vain = match moves {
        true => Cell::number(context.in_vain_bytes, bytes),
        false => Cell::none(),
    };
    vec![
        Cell::number(Some(context.bytes), bytes),
        known(
            Some(context.calls).filter(|&calls| calls > 0 || context.does != Use::Map),
            count,
        ),
        known(context.mean_bytes(), bytes),
        known(context.latency.quantile(0.5), duration),
        known(context.latency.quantile(0.99), duration),
        known(
            Some(context.latency_ns).filter(|_| context.calls > 0 || context.does != Use::Map),
            duration,
        ),
        match (context.does, context.miss_ratio()) {
            (Use::Read, None) if context.missed_bytes.is_none() => Cell::share(None),
            (_, None) => Cell::none(),
            (_, ratio) => Cell::share(ratio),
        },
        in_vain,
        Cell::word(context.class().as_deref().unwrap_or("-")),
        Cell::words(grounds_of_context(context, io, Style::PAGE)),
        Cell::words(advice_words(context.advice).unwrap_or_else(|| "-".to_owned())),
    ]
}

/// Most bytes first.
fn files(text: &mut String, io: &FileIo) {
    let moved = |file: &&FileUse| file.read_bytes + file.written_bytes > 0;
    let used: Vec<&FileUse> = io.files.iter().filter(moved).collect();
    if used.is_empty() {
        return;
    }
    let row = |file: &&FileUse| {
        let cells = vec![
            Cell::number(Some(file.read_bytes), bytes),
            Cell::number(Some(file.written_bytes), bytes),
            Cell::number(file.distinct_read_bytes, bytes),
            again(file),
            Cell::words(wishes(file, io)),
            picture(&file.heat),
        ];
        (String::new(), name_of_file(file, Style::PAGE), cells)
    };
    let table = Table {
        id: "io-files",
        caption: "Files",
        heads: vec![
            "file",
            "read",
            "written",
            "different read",
            "read again",
            "call paths",
            "where",
        ],
        selects: None,
        rows: used.iter().take(MOST_ROWS).map(row).collect(),
        rest: rest(used.len()),
    };
    table.write(text);
    text.push_str(
        "<p class=\"help\">Where: from a file's begin to its end, <span class=\"read\">read</span> above, <span class=\"written\">written</span> \
         below; the more bytes of a block, the stronger the colour.</p>\n",
    );
}

fn rest(all: usize) -> Option<String> {
    let more = all.checked_sub(MOST_ROWS).filter(|&more| more > 0)?;
    let more = count(more as u64);
    Some(format!("and {more} more (report --json lists them)"))
}

/// The share of what was read that was read more than once.
fn again(file: &FileUse) -> Cell {
    match (file.distinct_read_bytes, file.read_again_bytes) {
        (Some(0), _) => Cell::none(),
        (Some(distinct), Some(again)) => Cell::share(Some(again as f64 / distinct as f64)),
        _ => Cell::share(None),
    }
}

/// Who uses it and how; and whether that does not go together.
fn wishes(file: &FileUse, io: &FileIo) -> String {
    let wish = |&(context, moved): &(usize, u64)| {
        let context = &io.contexts[context];
        let place = context.place().and_then(|frame| frame.function.as_deref());
        let place = place.map_or_else(|| "?".to_owned(), short_name);
        let class = context.class().unwrap_or_else(|| "-".to_owned());
        format!(
            "{} by {place} {}: {class}",
            context.does.name(),
            bytes(moved)
        )
    };
    let moved = file.contexts.iter().filter(|(_, moved)| *moved > 0);
    let named: Vec<String> = moved.clone().take(MOST_PATHS_OF_FILE).map(wish).collect();
    let mut text = named.join("; ");
    let more = moved.count() - named.len();
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    match file.contexts_disagree {
        true => format!("They want different things. {text}"),
        false => text,
    }
}

/// Blocks from the file's begin, what was read above what was written.
fn picture(heat: &Heat) -> Cell {
    let blocks = heat.read.len();
    let most = heat.read.iter().chain(&heat.written).copied().max();
    let Some(most) = most.filter(|&most| most > 0) else {
        return Cell::none();
    };
    let mut markup = format!(
        "<svg class=\"heat\" viewBox=\"0 0 {blocks} 2\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{blocks} blocks of {}\">",
        bytes(heat.block_bytes)
    );
    for (class, row, sums) in [("read", 0, &heat.read), ("written", 1, &heat.written)] {
        let used = sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
        for (block, &sum) in used {
            // Something is never shown as nothing.
            let strength = 0.15 + 0.85 * sum as f64 / most as f64;
            let start = heat.block_bytes.saturating_mul(block as u64);
            let _ = write!(
                markup,
                "<rect class=\"{class}\" x=\"{block}\" y=\"{row}\" width=\"1\" height=\"1\" fill-opacity=\"{strength:.2}\"><title>{} from {}: {} \
                 {class}</title></rect>",
                bytes(heat.block_bytes),
                bytes(start),
                bytes(sum)
            );
        }
    }
    markup.push_str("</svg>");
    Cell {
        text: markup,
        kind: CellKind::Markup,
        ..Cell::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_block_for_each_that_was_used_and_none_for_others() {
        let heat = Heat {
            block_bytes: 4096,
            read: vec![4096, 0, 1],
            written: vec![0, 0, 8192],
        };
        let cell = picture(&heat);
        assert!(cell.kind == CellKind::Markup);
        assert_eq!(cell.text.matches("<rect class=\"read\"").count(), 2);
        assert_eq!(cell.text.matches("<rect class=\"written\"").count(), 1);
        let strongest = "x=\"2\" y=\"1\" width=\"1\" height=\"1\" fill-opacity=\"1.00\"><title>4.0 KiB from 8.0 KiB: 8.0 KiB written";
        assert!(cell.text.contains(strongest), "{}", cell.text);
        assert!(
            cell.text.contains("fill-opacity=\"0.15\""),
            "something is not nothing"
        );
        let unused = Heat {
            read: Vec::new(),
            written: Vec::new(),
            ..heat
        };
        assert_eq!(picture(&unused).text, "-");
    }
}
