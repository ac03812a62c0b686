//! Selecting, among the constructs on a line that may allocate, the one that did.

use super::{Candidate, Class, Dialect, Finding, Query, visit};
use tree_sitter::{Node, Point};

/// The finding for a line; `None` if nothing on it may allocate.
pub(super) fn find(
    dialect: &impl Dialect,
    root: Node<'_>,
    text: &str,
    query: &Query<'_>,
) -> Option<Finding> {
    let row = usize::try_from(query.line).ok()?.checked_sub(1)?;
    let mut candidates = candidates_on_row(dialect, root, row);
    let mut implied = dialect.implied(root, row);
    // Without a callee only what is written on the line itself counts.
    implied.retain(|c| candidates.is_empty() && query.callee.is_none() || c.calls(query.callee));
    if candidates.is_empty() && implied.is_empty() {
        candidates = candidates_of_statement(dialect, root, text, row)?;
    }
    if let Some(argument) = query.out_argument {
        candidates.retain(|candidate| candidate.calls(query.callee));
        let selected = by_column(candidates, row, query.column);
        return selected
            .first()
            .map(|candidate| dialect.bind_argument(candidate, argument));
    }
    let mut selected = by_callee(candidates, query.callee);
    if implied.is_empty() {
        selected = by_column(selected, row, query.column);
    } else if let Some(exact) = at_start(&selected, row, query.column) {
        selected = vec![exact];
    } else {
        // Beside those known to be called only what is, or what is not known.
        selected.retain(|c| c.callees.is_empty() || c.calls(query.callee));
        selected.extend(implied);
    }
    combine(selected.iter().map(|candidate| dialect.bind(candidate)))
}

/// The candidate that begins at the column. Clang gives that place for an initializer; GCC gives
/// an initializer's end, for those of other members too.
fn at_start<'tree>(
    candidates: &[Candidate<'tree>],
    row: usize,
    column: Option<u32>,
) -> Option<Candidate<'tree>> {
    let column = usize::try_from(column?).ok()?.checked_sub(1)?;
    let start = Point { row, column };
    candidates
        .iter()
        .find(|candidate| candidate.node.start_position() == start)
        .cloned()
}

/// Candidates that cover the row, without those of which only a nested body does: inside the
/// lambda of `run([&] { ... })` the call of `run` is another line's matter.
fn candidates_on_row<'tree>(
    dialect: &impl Dialect,
    root: Node<'tree>,
    row: usize,
) -> Vec<Candidate<'tree>> {
    let mut found: Vec<Candidate<'tree>> = Vec::new();
    visit(root, &mut |node| {
        let (first, last) = (node.start_position().row, node.end_position().row);
        if row < first || row > last {
            return false;
        }
        if first < row && dialect.is_body(node.kind()) {
            // Whatever was found so far and reaches this row holds the body.
            found.clear();
        }
        found.extend(dialect.candidate(node));
        true
    });
    found
}

/// Candidates anywhere in the statement a row belongs to: a line of a longer statement may hold
/// only the variable's name.
fn candidates_of_statement<'tree>(
    dialect: &impl Dialect,
    root: Node<'tree>,
    text: &str,
    row: usize,
) -> Option<Vec<Candidate<'tree>>> {
    let line = text.lines().nth(row)?;
    let end = line.trim_end().len();
    let start = line.len() - line.trim_start().len();
    if start >= end {
        return None;
    }
    let (from, to) = (Point { row, column: start }, Point { row, column: end });
    let mut statement = root.descendant_for_point_range(from, to)?;
    while !dialect.is_statement(statement.kind()) {
        if dialect.is_body(statement.kind()) {
            return None;
        }
        statement = statement.parent()?;
    }
    let mut found = Vec::new();
    visit(statement, &mut |node| {
        if dialect.is_body(node.kind()) {
            return false;
        }
        found.extend(dialect.candidate(node));
        true
    });
    (!found.is_empty()).then_some(found)
}

/// Those whose function is the callee; without any (macros, functions that were optimized away)
/// those most likely to allocate.
fn by_callee<'tree>(
    candidates: Vec<Candidate<'tree>>,
    callee: Option<&str>,
) -> Vec<Candidate<'tree>> {
    let (matching, others): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| candidate.calls(callee));
    if !matching.is_empty() {
        return matching;
    }
    let usable = others
        .iter()
        .map(|c| c.class)
        .filter(|&class| class != Class::Operator);
    let Some(best) = usable.min() else {
        return Vec::new();
    };
    others
        .into_iter()
        .filter(|candidate| candidate.class == best)
        .collect()
}

/// Of several, the smallest that covers the column; all if the column tells nothing.
fn by_column<'tree>(
    candidates: Vec<Candidate<'tree>>,
    row: usize,
    column: Option<u32>,
) -> Vec<Candidate<'tree>> {
    if candidates.len() < 2 {
        return candidates;
    }
    let Some(column) = column.and_then(|column| usize::try_from(column).ok()?.checked_sub(1))
    else {
        return candidates;
    };
    let at = Point { row, column };
    let covering = candidates
        .iter()
        .filter(|candidate| {
            candidate.node.start_position() <= at && at < candidate.node.end_position()
        })
        .min_by_key(|candidate| candidate.node.byte_range().len());
    match covering {
        Some(covering) => vec![covering.clone()],
        None => candidates,
    }
}

/// One finding of several: their different names joined with `|`.
fn combine(findings: impl Iterator<Item = Finding>) -> Option<Finding> {
    let mut names: Vec<String> = Vec::new();
    let mut combined: Option<Finding> = None;
    for finding in findings {
        names.extend(finding.name.clone().filter(|name| !names.contains(name)));
        let first = combined.get_or_insert_with(|| finding.clone());
        // Memory that goes different ways is named best here.
        if first.escape != finding.escape {
            first.escape = None;
        }
    }
    let combined = combined?;
    Some(Finding {
        name: (!names.is_empty()).then(|| names.join("|")),
        ..combined
    })
}
