//! Expressions that are written a second time: into the call that is inserted.

use pagewise_attribute::c_syntax;
use tree_sitter::Node;

use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;
use crate::source::descendants;

/// Functions that may be called twice.
const PURE: &[&str] = &["strlen", "wcslen", "size", "length", "max", "min"];

/// Why an expression must not be evaluated again; `None`: it may.
pub(crate) fn why_not_again(source: &Source, expression: Node<'_>) -> Option<&'static str> {
    descendants(expression).find_map(|node| match node.kind() {
        "update_expression" | "assignment_expression" => Some("changes something"),
        "call_expression" if !is_pure(source, node) => Some("calls a function"),
        "new_expression"
        | "lambda_expression"
        | "compound_statement"
        | "co_await_expression"
        | "delete_expression" => Some("does more than compute"),
        "comment" => Some("has a comment in it"),
        kind if kind.starts_with("preproc") || node.is_error() => Some("has a directive in it"),
        _ => None,
    })
}

fn is_pure(source: &Source, call: Node<'_>) -> bool {
    let name = call
        .child_by_field_name("function")
        .and_then(|function| last_name(source, function));
    name.is_some_and(|name| PURE.contains(&name))
}

/// An expression on one line; `None`: it is not UTF-8.
pub(crate) fn on_one_line(source: &Source, node: Node<'_>) -> Option<String> {
    let text = source.exact(node)?;
    if !text.contains(['\n', '\r', '\t']) {
        return Some(text.to_owned());
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words.join(" "))
}

/// The same with parentheses where an operator beside it would bind stronger.
pub(crate) fn operand(source: &Source, node: Node<'_>) -> Option<String> {
    let text = on_one_line(source, node)?;
    let is_simple = matches!(
        node.kind(),
        "identifier"
            | "number_literal"
            | "sizeof_expression"
            | "parenthesized_expression"
            | "call_expression"
            | "field_expression"
            | "subscript_expression"
            | "qualified_identifier"
    );
    Some(if is_simple { text } else { format!("({text})") })
}

/// What the memory is called: the expression that it is kept in, whichever element that is.
pub(crate) fn name_of(source: &Source, node: Node<'_>) -> Option<String> {
    let mut name = String::new();
    let mut depth = 0_usize;
    for character in source.exact(node)?.chars() {
        match character {
            '[' => {
                if depth == 0 {
                    name.push_str("[]");
                }
                depth += 1;
            }
            ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 || character.is_whitespace() || character.is_control() => {}
            _ => name.push(character),
        }
    }
    let name = name.replace("(*this).", "").replace("this->", "");
    Some(name)
}

/// The last component of what is called or declared: `resize` of `a->b.resize`, `vector` of `std::vector<T>`.
pub(crate) fn last_name<'text>(source: &'text Source, node: Node<'_>) -> Option<&'text str> {
    c_syntax::last_name(node, source.masked())
}

/// The variables whose values an expression needs: not those that it only asks for their size.
pub(crate) fn variables(source: &Source, expression: Node<'_>) -> Vec<String> {
    let is_sized = |node: Node<'_>| {
        let mut around = std::iter::successors(Some(node), |node| {
            node.parent().filter(|_| node.id() != expression.id())
        });
        around.any(|around| around.kind() == "sizeof_expression")
    };
    descendants(expression)
        .filter(|node| node.kind() == "identifier" && !is_sized(*node))
        .map(|node| source.text(node).to_owned())
        .collect()
}

/// Arguments of a call.
pub(crate) fn arguments(call: Node<'_>) -> Vec<Node<'_>> {
    call.child_by_field_name("arguments")
        .map(children)
        .unwrap_or_default()
}

/// The simple name of the function around a node.
pub(crate) fn function_around<'text>(source: &'text Source, node: Node<'_>) -> Option<&'text str> {
    let definition = ancestors(node).find(|node| node.kind() == "function_definition")?;
    let mut declarator = definition.child_by_field_name("declarator")?;
    while let Some(inner) = declarator
        .child_by_field_name("declarator")
        .or_else(|| reference_inner(declarator))
    {
        declarator = inner;
    }
    last_name(source, declarator)
}

/// A reference's declarator has no name for what it declares.
fn reference_inner(declarator: Node<'_>) -> Option<Node<'_>> {
    (declarator.kind() == "reference_declarator")
        .then(|| declarator.named_child(0))
        .flatten()
}

/// Plain variables that a statement changes.
pub(crate) fn changed_in<'text>(source: &'text Source, statement: Node<'_>) -> Vec<&'text str> {
    let changed = descendants(statement).filter_map(|node| match node.kind() {
        "assignment_expression" => node.child_by_field_name("left"),
        "update_expression" => node.child_by_field_name("argument"),
        _ => None,
    });
    changed
        .filter(|node| node.kind() == "identifier")
        .map(|node| source.text(node))
        .collect()
}

/// Whether a call is `static_cast` or kin, and then whether to a pointer.
pub(crate) fn cast_to(source: &Source, call: Node<'_>) -> Option<bool> {
    let function = call
        .child_by_field_name("function")
        .filter(|function| function.kind() == "template_function")?;
    last_name(source, function)
        .filter(|name| name.ends_with("_cast"))
        .map(|_| source.text(function).contains('*'))
}
