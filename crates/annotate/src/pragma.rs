//! Pragmas that say something of the statement behind them, of which a call behind that statement would be no part.

use tree_sitter::Node;

use crate::source::Source;

/// Pragmas that say nothing of the statement behind them.
const OF_THEIR_OWN: &[&str] = &[
    "GCC diagnostic",
    "GCC push_options",
    "GCC pop_options",
    "GCC optimize",
    "GCC target",
    "GCC warning",
    "GCC error",
    "GCC poison",
    "GCC system_header",
    "GCC visibility",
    "clang diagnostic",
    "clang optimize",
    "STDC",
    "comment",
    "message",
    "once",
    "optimize",
    "pack",
    "push_macro",
    "pop_macro",
    "region",
    "endregion",
    "warning",
    "weak",
    "omp barrier",
    "omp error",
    "omp interop",
    "omp nothing",
    "omp ordered depend",
    "omp ordered doacross",
    "omp scan",
    "omp taskwait",
    "omp taskyield",
    "omp flush",
    "omp cancel",
    "omp cancellation",
    "omp threadprivate",
    "omp declare",
    "omp requires",
    "omp target update",
    "omp target enter",
    "omp target exit",
    "omp depobj",
];

/// Why a call behind a statement would be outside of what a pragma says of it.
pub(crate) fn governed(source: &Source, statement: Node<'_>) -> Option<String> {
    let before = std::iter::successors(statement.prev_named_sibling(), |node| {
        node.prev_named_sibling()
    });
    let pragmas = before
        .filter(|node| node.kind() != "comment")
        .map_while(|node| pragma(source, node));
    let governs = |pragma: &String| {
        let is_own = |own: &&&str| {
            let rest = pragma.strip_prefix(**own);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        };
        OF_THEIR_OWN.iter().find(is_own).is_none()
    };
    pragmas.filter(governs).last().map(|pragma| {
        format!(
            "#pragma {pragma} is about this statement only: put braces around the statement, and annotate again"
        )
    })
}

/// What a directive says, if it is a pragma, with single blanks.
fn pragma(source: &Source, node: Node<'_>) -> Option<String> {
    let directive = node
        .child_by_field_name("directive")
        .filter(|_| node.kind() == "preproc_call")?;
    let words: Vec<&str> = source.text(directive).split_whitespace().collect();
    if words.concat() != "#pragma" {
        return None;
    }
    let argument = node.child_by_field_name("argument");
    let argument = argument.map_or("", |argument| source.text(argument));
    let words: Vec<&str> = argument.split_whitespace().collect();
    Some(words.join(" "))
}
