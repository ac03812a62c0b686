//! Whether a function of C or C++ hands its fresh memory to its caller.

use super::c_binding::declared_name;
use super::{Escape, named_children, text_of, visit};
use tree_sitter::Node;

/// How the memory bound to `name` leaves the function around `node`: by `return name`, or through
/// a pointer parameter (`*name`). Memory that globals, statics or members keep does not leave.
pub(super) fn escape_of(node: Node<'_>, name: &str, text: &str) -> Option<Escape> {
    let function = enclosing_function(node)?;
    if let Some(pointer) = name.strip_prefix('*') {
        let index = parameter_names(function, text)
            .iter()
            .position(|p| p == pointer)?;
        return Some(Escape::OutParameter(index));
    }
    let is_local = is_local_variable(function, name, text)
        || parameter_names(function, text)
            .iter()
            .any(|parameter| parameter == name);
    (is_local && returns(function, name, text)).then_some(Escape::Returned)
}

/// Whether the name is declared in the function around `node` with an arithmetic type, which
/// cannot hold memory.
pub(super) fn has_arithmetic_type(node: Node<'_>, name: &str, text: &str) -> bool {
    let Some(function) = enclosing_function(node) else {
        return false;
    };
    local_declarations(function).into_iter().any(|declaration| {
        let kind = declaration
            .child_by_field_name("type")
            .map(|kind| kind.kind());
        matches!(kind, Some("primitive_type" | "sized_type_specifier"))
            && declarators(declaration).into_iter().any(|declarator| {
                let is_plain = !holds_pointer(declarator);
                is_plain && declared_name(declarator, text).as_deref() == Some(name)
            })
    })
}

fn enclosing_function(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    while !is_function(node) {
        node = node.parent()?;
    }
    Some(node)
}

fn is_function(node: Node<'_>) -> bool {
    matches!(node.kind(), "function_definition" | "lambda_expression")
}

fn declarators(declaration: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = declaration.walk();
    declaration
        .children_by_field_name("declarator", &mut cursor)
        .collect()
}

fn holds_pointer(declarator: Node<'_>) -> bool {
    let mut node = declarator;
    loop {
        if matches!(
            node.kind(),
            "pointer_declarator" | "array_declarator" | "reference_declarator"
        ) {
            return true;
        }
        match node.child_by_field_name("declarator") {
            Some(inner) => node = inner,
            None => return false,
        }
    }
}

/// Declarations inside a function, without those of functions inside it.
fn local_declarations(function: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    visit(function, &mut |node| {
        if node.kind() == "declaration" {
            found.push(node);
        }
        node == function || !is_function(node)
    });
    found
}

fn is_local_variable(function: Node<'_>, name: &str, text: &str) -> bool {
    local_declarations(function).into_iter().any(|declaration| {
        let is_static = named_children(declaration).iter().any(|child| {
            child.kind() == "storage_class_specifier" && text_of(*child, text) == "static"
        });
        !is_static
            && declarators(declaration)
                .into_iter()
                .any(|declarator| declared_name(declarator, text).as_deref() == Some(name))
    })
}

fn parameter_names(function: Node<'_>, text: &str) -> Vec<String> {
    let mut declarator = function.child_by_field_name("declarator");
    // Functions that return pointers wrap the declarator with the parameters.
    while let Some(node) = declarator {
        if let Some(parameters) = node.child_by_field_name("parameters") {
            return named_children(parameters)
                .into_iter()
                .map(|parameter| {
                    let declarator = parameter.child_by_field_name("declarator");
                    declarator
                        .and_then(|d| declared_name(d, text))
                        .unwrap_or_default()
                })
                .collect();
        }
        declarator = node
            .child_by_field_name("declarator")
            .or_else(|| node.named_child(0));
    }
    Vec::new()
}

fn returns(function: Node<'_>, name: &str, text: &str) -> bool {
    let mut found = false;
    visit(function, &mut |node| {
        if matches!(node.kind(), "return_statement" | "co_return_statement") {
            let value = named_children(node).first().copied();
            found |= value.is_some_and(|value| yields(value, name, text));
        }
        !found && (node == function || !is_function(node))
    });
    found
}

/// Whether an expression's value is the variable itself, perhaps cast, moved or one of two.
fn yields(value: Node<'_>, name: &str, text: &str) -> bool {
    match value.kind() {
        "identifier" => text_of(value, text) == name,
        "parenthesized_expression" | "comma_expression" => named_children(value)
            .last()
            .is_some_and(|&inner| yields(inner, name, text)),
        "cast_expression" => value
            .child_by_field_name("value")
            .is_some_and(|inner| yields(inner, name, text)),
        "conditional_expression" => ["consequence", "alternative"].iter().any(|branch| {
            value
                .child_by_field_name(branch)
                .is_some_and(|inner| yields(inner, name, text))
        }),
        // `std::move(p)`, `static_cast<T *>(p)`.
        "call_expression" => {
            let function = value
                .child_by_field_name("function")
                .map(|f| text_of(f, text));
            let passes = function.is_some_and(|f| f.ends_with("move") || f.contains("_cast<"));
            let arguments = value.child_by_field_name("arguments").map(named_children);
            passes
                && arguments.is_some_and(|arguments| {
                    arguments
                        .first()
                        .is_some_and(|&inner| yields(inner, name, text))
                })
        }
        _ => false,
    }
}
