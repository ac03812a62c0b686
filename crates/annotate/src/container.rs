//! Containers that allocate: made with a size, or told to grow. What grows as it is filled is told, but has no one place.

use tree_sitter::Node;

use crate::allocator::Allocation;
use crate::allocator::Outlet;
use crate::allocator::Size;
use crate::declared::Declared;
use crate::expression::arguments;
use crate::expression::last_name;
use crate::kind::Kind;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;

/// Calls by which a container takes one more element; a vector or string moves all it has now and then.
const ONE_MORE: &[&str] = &["push_back", "emplace_back", "insert", "emplace", "append"];

/// The name of the call by which a container grows as it is filled, if the node is one.
pub(crate) fn grows_as_filled<'text>(source: &'text Source, node: Node<'_>) -> Option<&'text str> {
    let function = (node.kind() == "call_expression").then(|| node.child_by_field_name("function"));
    let function = function.flatten().filter(|_| source.is_cpp())?;
    let name = last_name(source, function)?;
    (function.kind() == "field_expression" && ONE_MORE.contains(&name)).then_some(name)
}

/// The container of `x.resize(n)`, `p->reserve(n)`, `x.assign(n, 0)`.
pub(crate) fn growing<'tree>(
    source: &Source,
    function: Node<'tree>,
    name: &str,
    arguments: &[Node<'_>],
) -> Option<Outlet<'tree>> {
    let is_growing = matches!(name, "resize" | "reserve" | "assign") && !arguments.is_empty();
    if !source.is_cpp() || !is_growing || function.kind() != "field_expression" {
        return None;
    }
    let receiver = function.child_by_field_name("argument")?;
    let operator = function.child_by_field_name("operator");
    let by_pointer = operator.is_some_and(|operator| source.text(operator) == "->");
    Some(Outlet::Container(receiver, by_pointer))
}

fn of_container<'tree>(node: Node<'tree>, by: &str, outlet: Outlet<'tree>) -> Allocation<'tree> {
    Allocation {
        node,
        by: by.to_owned(),
        outlet,
        size: Size::OfContainer,
        size_from: Vec::new(),
    }
}

/// `std::vector<T> x(n);`, which to the grammar may be a function's declaration.
pub(crate) fn container<'tree>(
    source: &Source,
    declared: &Declared,
    node: Node<'tree>,
) -> Option<Allocation<'tree>> {
    let declaration = node
        .parent()
        .filter(|parent| parent.kind() == "declaration")?;
    let kind = declaration.child_by_field_name("type")?;
    let made = declared.kind_of_type(source, kind);
    if !made.is_one_block() {
        return None;
    }
    let sizes = match node.kind() {
        "init_declarator" => node
            .child_by_field_name("value")
            .filter(|value| value.kind() == "argument_list"),
        _ => node
            .child_by_field_name("parameters")
            .filter(|_| is_value_list(source, declared, node)),
    };
    let sizes = children(sizes?);
    let name = node.child_by_field_name("declarator")?;
    // Strings outside of functions are short, but for those that are made with a length.
    let is_short = !is_in_function(node) && made == Kind::Text && sizes.len() < 2;
    if name.kind() != "identifier" || sizes.is_empty() || is_short {
        return None;
    }
    let by = last_name(source, kind)?;
    Some(of_container(node, by, Outlet::Container(name, false)))
}

/// `std::vector<T>(n)`, whatever it is for; `std::string(text)` is a conversion.
pub(crate) fn made_container<'tree>(
    source: &Source,
    declared: &Declared,
    node: Node<'tree>,
) -> Option<Allocation<'tree>> {
    let function = node
        .child_by_field_name("function")
        .filter(|_| source.is_cpp())?;
    let kind = declared.kind_of_type(source, function);
    if function.kind() == "field_expression" || !is_made_with_size(source, &kind, &arguments(node))
    {
        return None;
    }
    // Asked for last: in deep expressions that takes long.
    let around = node.parent()?;
    // A text that is only handed on is short.
    let is_kept = matches!(around.kind(), "init_declarator" | "assignment_expression");
    // What is copied into another container on its line, and part of a type.
    let is_copied = around.kind() == "argument_list"
        && around
            .parent()
            .is_some_and(|around| around.kind() == "init_declarator")
        && children(around).len() > 1;
    if is_copied || around.kind() == "template_argument_list" || kind == Kind::Text && !is_kept {
        return None;
    }
    let by = last_name(source, function)?;
    Some(of_container(node, by, Outlet::Value))
}

/// `v(n)` of a constructor's initializer list.
pub(crate) fn constructed_member<'tree>(
    source: &Source,
    declared: &Declared,
    node: Node<'tree>,
) -> Option<Allocation<'tree>> {
    let parts = children(node);
    let [name, sizes] = parts[..] else {
        return None;
    };
    let kind = declared.kind(source, name);
    let sizes = (sizes.kind() == "argument_list").then(|| children(sizes))?;
    let is_made = is_made_with_size(source, &kind, &sizes);
    is_made.then(|| of_container(node, source.text(name), Outlet::Container(name, false)))
}

/// Whether a container is made that has memory then. What is moved into it has that already, and strings are mostly copies
/// of short ones.
fn is_made_with_size(source: &Source, kind: &Kind, arguments: &[Node<'_>]) -> bool {
    let is_moved = |argument: &Node<'_>| {
        let function = argument.child_by_field_name("function");
        let name = function.and_then(|function| last_name(source, function));
        matches!(name, Some("move" | "forward"))
    };
    match arguments {
        [] => false,
        [only] => kind.is_one_block() && *kind != Kind::Text && !is_moved(only),
        _ => kind.is_one_block(),
    }
}

/// Whether `x(n)`, which to the grammar declares a function, makes an object: `n` is a variable.
pub(crate) fn is_value_list(source: &Source, declared: &Declared, declarator: Node<'_>) -> bool {
    let in_function = is_in_function(declarator);
    let parameters = declarator.child_by_field_name("parameters").map(children);
    let parameters = parameters.unwrap_or_default();
    let is_value = |parameter: &Node<'_>| {
        may_be_value(*parameter)
            && parameter.child_by_field_name("type").is_some_and(|kind| {
                let name = last_name(source, kind).unwrap_or_default();
                declared.is_variable(name, declarator.start_byte())
                    || in_function && !declared.is_type(name) && !is_types_name(kind, name)
            })
    };
    // `std::vector<int>(n)`, an argument that looks like a function's type.
    let is_made = |parameter: &Node<'_>| {
        let kind = parameter.child_by_field_name("type");
        let declarator = parameter.child_by_field_name("declarator");
        in_function
            && kind.is_some_and(|kind| {
                kind.kind().contains("template") || kind.kind() == "qualified_identifier"
            })
            && declarator
                .is_some_and(|declarator| declarator.kind() == "abstract_function_declarator")
    };
    !parameters.is_empty()
        && parameters
            .iter()
            .all(|parameter| is_value(parameter) || is_made(parameter))
}

/// A name that only a type has.
fn is_types_name(kind: Node<'_>, name: &str) -> bool {
    kind.kind() == "template_type" || name.ends_with("_t") || matches!(name, "string" | "wstring")
}

/// `n`, `n * m`, `n & m`, `f(n)`, but not `int n`, `Options from` and `const T &x`.
fn may_be_value(parameter: Node<'_>) -> bool {
    let kind = parameter.child_by_field_name("type");
    let is_plain =
        kind.is_none_or(|kind| matches!(kind.kind(), "primitive_type" | "sized_type_specifier"));
    let declarator = parameter.child_by_field_name("declarator");
    let is_named = declarator.is_some_and(|declarator| declarator.kind() == "identifier");
    let is_qualified = children(parameter)
        .iter()
        .any(|child| child.kind() == "type_qualifier");
    !parameter.kind().contains("optional") && !is_plain && !is_named && !is_qualified
}

fn is_in_function(node: Node<'_>) -> bool {
    ancestors(node).any(|node| node.kind() == "compound_statement")
}
