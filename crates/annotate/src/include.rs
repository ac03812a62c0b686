//! Where a header is included: behind the includes that are always taken with the calls, and behind what tells system headers
//! what they shall declare.

use std::ops::Range;

use tree_sitter::Node;

use crate::diff::lines_of;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::descendants;

/// Macros that must be defined before the first system header, and those that begin like these.
const FEATURES: &[&str] = &[
    "_GNU_SOURCE",
    "_POSIX_SOURCE",
    "_POSIX_C_SOURCE",
    "_XOPEN_SOURCE",
    "_ISOC",
    "_BSD_SOURCE",
    "_SVID_SOURCE",
    "_DEFAULT_SOURCE",
    "_ATFILE_SOURCE",
    "_LARGEFILE",
    "_FILE_OFFSET_BITS",
    "_TIME_BITS",
    "_FORTIFY_SOURCE",
    "_REENTRANT",
    "_THREAD_SAFE",
    "_DYNAMIC_STACK_SIZE_SOURCE",
    "__STDC_WANT_",
    "__STDC_FORMAT_MACROS",
    "__STDC_LIMIT_MACROS",
    "__STDC_CONSTANT_MACROS",
    "_GLIBCXX_",
];

/// Whether a header is included where the first and the last of the calls in a range of the file see it.
pub(crate) fn is_there(source: &Source, header: &str, used: &Range<usize>) -> bool {
    let includes: Vec<Node<'_>> = descendants(source.root())
        .take_while(|node| node.start_byte() < used.end)
        .filter(|node| is_of_header(source, *node, header))
        .collect();
    let is_seen = |at: usize| {
        let mut before = includes.iter().filter(|include| include.start_byte() < at);
        before.any(|include| {
            let conditional = ancestors(*include).find(|node| is_conditional(*node));
            conditional.is_none_or(|conditional| is_taken_with(conditional, at))
        })
    };
    is_seen(used.start) && is_seen(used.end - 1)
}

/// By its file's name, wherever that lies.
fn is_of_header(source: &Source, node: Node<'_>, header: &str) -> bool {
    let path = (node.kind() == "preproc_include").then(|| node.child_by_field_name("path"));
    let name = path.flatten().and_then(|path| {
        let path = source.text(path).trim_matches(['"', '<', '>']);
        path.rsplit('/').next()
    });
    name == Some(header)
}

/// The row before which a header is included for calls in a range of the file; `None`: there is no such place.
pub(crate) fn row(source: &Source, used: &Range<usize>) -> Option<usize> {
    let feature = last_feature(source, used.start);
    let is_behind = |row: &usize| feature.is_none_or(|feature| *row > feature);
    let levels = levels(source, used);
    let behind_includes = levels
        .iter()
        .filter_map(|level| row_behind_includes(source, *level, used.start));
    let before_code = levels
        .iter()
        .map(|level| before_comment(source, row_of_code(*level, used.start)));
    let first = row_at(source, used.start);
    let mut rows = behind_includes.chain(before_code);
    rows.find(|row| *row <= first && is_behind(row))
}

/// The row, or that where a comment begins which reaches into it.
fn before_comment(source: &Source, row: usize) -> usize {
    let comments = descendants(source.root()).filter(|node| node.kind() == "comment");
    let mut within = comments
        .filter(|comment| comment.start_position().row < row && row <= comment.end_position().row);
    within
        .next()
        .map_or(row, |comment| comment.start_position().row)
}

/// The file, and the branches of `#if` around all calls, from the outermost: an include guard, mostly.
fn levels<'tree>(source: &'tree Source, used: &Range<usize>) -> Vec<Node<'tree>> {
    let mut levels = vec![source.root()];
    let mut level = source.root();
    loop {
        let mut cursor = level.walk();
        let around = level.children(&mut cursor).find(|child| {
            is_conditional(*child)
                && child.start_byte() <= used.start
                && used.end <= child.end_byte()
        });
        let Some(around) = around else { return levels };
        match (
            is_taken_with(around, used.start),
            is_taken_with(around, used.end - 1),
        ) {
            (true, true) => levels.push(around),
            (false, false) => {}
            // Some calls are in one branch, and some in the other.
            _ => return levels,
        }
        level = around;
    }
}

fn is_conditional(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "preproc_if" | "preproc_ifdef" | "preproc_elif" | "preproc_elifdef" | "preproc_else"
    )
}

/// Whether a place is in a conditional, and not in its `#else`.
fn is_taken_with(conditional: Node<'_>, at: usize) -> bool {
    let otherwise = conditional.child_by_field_name("alternative");
    conditional.byte_range().contains(&at)
        && otherwise.is_none_or(|otherwise| !otherwise.byte_range().contains(&at))
}

/// The last row of the definitions of macros that must come before a header.
fn last_feature(source: &Source, first: usize) -> Option<usize> {
    descendants(source.root())
        .take_while(|node| node.start_byte() < first)
        .filter(|node| matches!(node.kind(), "preproc_def" | "preproc_call"))
        .filter(|node| {
            let mut words = source.text(*node).split_whitespace();
            let directive = words.next().unwrap_or_default();
            let word = words.next().unwrap_or_default();
            let (directive, name) = match directive {
                "#" => (word, words.next().unwrap_or_default()),
                _ => (directive.trim_start_matches('#'), word),
            };
            matches!(directive, "define" | "undef")
                && FEATURES.iter().any(|feature| name.starts_with(feature))
        })
        .map(|node| node.start_position().row)
        .last()
}

/// Behind the last `#include` of a level that comes before the first call.
fn row_behind_includes(source: &Source, level: Node<'_>, first: usize) -> Option<usize> {
    let is_of_level = |item: &Node<'_>| {
        let mut around = ancestors(*item).skip_while(|around| around.is_error());
        around.next() == Some(level)
    };
    let items: Vec<Node<'_>> = descendants(level)
        .take_while(|item| item.start_byte() < first)
        .filter(|item| matches!(item.kind(), "preproc_include" | "comment"))
        .collect();
    let mut includes = items.iter().filter(|item| item.kind() == "preproc_include");
    let last = includes.rfind(|item| is_of_level(item))?;
    Some(row_behind(source, &items, last.start_position().row))
}

/// The row behind one, and behind a comment that begins there, or what a backslash makes part of it.
fn row_behind(source: &Source, items: &[Node<'_>], row: usize) -> usize {
    let mut end = row;
    // In order of the file: behind one that ends there another may begin.
    for comment in items.iter().filter(|item| item.kind() == "comment") {
        let rows = comment.start_position().row..=comment.end_position().row;
        if rows.contains(&end) && *rows.start() >= row {
            end = *rows.end();
        }
    }
    let lines = lines_of(source.bytes());
    let is_continued = |row: usize| {
        let line = lines.get(row).copied().unwrap_or_default();
        line.trim_ascii_end().ends_with(b"\\")
    };
    while is_continued(end) {
        end += 1;
    }
    (end + 1).min(lines.len())
}

/// The first row of a level with something other than comments and directives: what a file without includes begins with.
fn row_of_code(level: Node<'_>, first: usize) -> usize {
    let mut cursor = level.walk();
    let is_condition = |item: &Node<'_>| {
        let fields = ["name", "condition"];
        let mut of_level = fields
            .iter()
            .filter_map(|field| level.child_by_field_name(field));
        is_conditional(level) && (!item.is_named() || of_level.any(|field| field == *item))
    };
    let is_code = |item: &Node<'_>| {
        item.kind() != "comment" && !item.kind().starts_with("preproc_") || item.end_byte() > first
    };
    level
        .children(&mut cursor)
        .filter(|item| !is_condition(item))
        .find(is_code)
        .map_or(0, |item| item.start_position().row)
}

fn row_at(source: &Source, at: usize) -> usize {
    let before = &source.bytes()[..at.min(source.bytes().len())];
    before.iter().filter(|&&byte| byte == b'\n').count()
}
