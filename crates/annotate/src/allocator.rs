//! What allocates: the `malloc` family and functions named after it, `new`, anonymous `mmap`, containers.

use tree_sitter::Node;

use crate::expression::arguments;
use crate::expression::last_name;
use crate::expression::on_one_line;
use crate::expression::operand;
use crate::expression::variables;
use crate::expression::why_not_again;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;

/// Where the memory comes out.
#[derive(Clone, Copy)]
pub(crate) enum Outlet<'tree> {
    /// As the expression's value.
    Value,
    /// At the pointer that this argument points to.
    Argument(Node<'tree>),
    /// In a container that is told by this expression; `true`: by a pointer to it.
    Container(Node<'tree>, bool),
}

/// An expression or declarator that allocates.
#[derive(Clone)]
pub(crate) struct Allocation<'tree> {
    pub(crate) node: Node<'tree>,
    /// `malloc`, `new`, `resize`.
    pub(crate) by: String,
    pub(crate) outlet: Outlet<'tree>,
    pub(crate) size: Size,
    /// Variables that the size is computed from.
    pub(crate) size_from: Vec<String>,
}

/// How large the memory is.
#[derive(Clone)]
pub(crate) enum Size {
    /// So many bytes: an expression that may be evaluated again.
    Bytes(String),
    /// The container can tell.
    OfContainer,
    /// Why it cannot be told.
    Unknown(String),
}

impl From<Result<String, String>> for Size {
    fn from(size: Result<String, String>) -> Self {
        size.map_or_else(Self::Unknown, Self::Bytes)
    }
}

/// Which arguments make the size.
const FAMILY: &[(&str, usize, &[usize])] = &[
    ("malloc", 1, &[0]),
    ("valloc", 1, &[0]),
    ("pvalloc", 1, &[0]),
    ("zalloc", 1, &[0]),
    ("reallocarray", 3, &[1, 2]),
    ("calloc", 2, &[0, 1]),
    ("realloc", 2, &[1]),
    ("aligned_alloc", 2, &[1]),
    ("posix_memalign", 3, &[2]),
    ("memalign", 2, &[1]),
];

const SMART: &[&str] = &[
    "make_unique",
    "make_shared",
    "make_unique_for_overwrite",
    "make_shared_for_overwrite",
];

const CONTAINERS: &[&str] = &["vector", "string", "basic_string", "wstring"];

/// What a node allocates, if it does.
pub(crate) fn allocation<'tree>(source: &Source, node: Node<'tree>) -> Option<Allocation<'tree>> {
    match node.kind() {
        "call_expression" => call(source, node),
        "new_expression" => new_expression(source, node),
        "init_declarator" | "function_declarator" if source.is_cpp() => container(source, node),
        _ => None,
    }
}

/// Whether a function by its name only hands memory on.
pub(crate) fn is_wrapper(function: &str) -> bool {
    family(function).is_some()
}

/// Whether a function is taken for one of the family by the end of its name only: what it returns may be an error code.
pub(crate) fn is_guessed(name: &str) -> bool {
    family(name).is_some() && !FAMILY.iter().any(|(word, ..)| *word == name)
}

/// Also of `xmalloc`, `g_malloc`, `XCALLOC`.
fn family(name: &str) -> Option<&'static (&'static str, usize, &'static [usize])> {
    let name = name.to_ascii_lowercase();
    FAMILY.iter().find(|(word, ..)| name.ends_with(word))
}

fn call<'tree>(source: &Source, node: Node<'tree>) -> Option<Allocation<'tree>> {
    let function = node.child_by_field_name("function")?;
    let name = last_name(source, function)?;
    let arguments = arguments(node);
    let size_from = arguments
        .iter()
        .flat_map(|argument| variables(source, *argument));
    let size_from: Vec<String> = size_from.collect();
    let made = |outlet, size| {
        Some(Allocation {
            node,
            by: name.to_owned(),
            outlet,
            size,
            size_from: size_from.clone(),
        })
    };
    if SMART.contains(&name) {
        return made(
            Outlet::Value,
            Size::Unknown(format!("{name} does not tell its size in bytes")),
        );
    }
    if matches!(name, "mmap" | "mmap64") && arguments.len() == 6 {
        let is_anonymous =
            source.text(arguments[3]).contains("MAP_ANON") || source.text(arguments[4]) == "-1";
        return is_anonymous
            .then(|| made(Outlet::Value, size(source, &arguments, &[1]).into()))
            .flatten();
    }
    if let Some(receiver) = growing(source, function, name, &arguments) {
        return made(receiver, Size::OfContainer);
    }
    let (word, count, of_size) = family(name)?;
    let size = match arguments.len() == *count {
        true => size(source, &arguments, of_size).into(),
        false => Size::Unknown(format!("the arguments of {name} do not tell its size")),
    };
    match *word == "posix_memalign" {
        true => made(Outlet::Argument(*arguments.first()?), size),
        false => made(Outlet::Value, size),
    }
}

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
fn growing<'tree>(
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

/// The product of some arguments.
fn size(source: &Source, arguments: &[Node<'_>], of_size: &[usize]) -> Result<String, String> {
    let factors: Vec<Node<'_>> = of_size.iter().map(|&index| arguments[index]).collect();
    for &factor in &factors {
        if factor.kind() == "type_descriptor" {
            return Err("its arguments are those of a macro".to_owned());
        }
        if let Some(why) = why_not_again(source, factor) {
            return Err(format!(
                "its size ({}) {why}: keep it in a variable first",
                source.text(factor)
            ));
        }
    }
    let text = match factors[..] {
        [only] => on_one_line(source, only),
        _ => factors
            .iter()
            .map(|&factor| operand(source, factor))
            .collect::<Option<Vec<_>>>()
            .map(|operands| format!("(size_t){}", operands.join(" * "))),
    };
    text.ok_or_else(|| "its size is not UTF-8".to_owned())
}

fn new_expression<'tree>(source: &Source, node: Node<'tree>) -> Option<Allocation<'tree>> {
    // Placement takes memory that is there already; `nothrow` is written as if it were placed.
    if let Some(placement) = node.child_by_field_name("placement")
        && !source.text(placement).contains("nothrow")
    {
        return None;
    }
    Some(Allocation {
        node,
        by: "new".to_owned(),
        outlet: Outlet::Value,
        size: size_of_new(source, node).into(),
        size_from: variables(source, node),
    })
}

/// `sizeof(T) * n * 4` of `new T[n][4]`.
fn size_of_new(source: &Source, node: Node<'_>) -> Result<String, String> {
    let kind = node
        .child_by_field_name("type")
        .filter(|kind| kind.kind() != "placeholder_type_specifier")
        .and_then(|kind| on_one_line(source, kind))
        .ok_or("its type is not told")?;
    let mut product = format!("sizeof({kind})");
    let mut declarator = node.child_by_field_name("declarator");
    while let Some(part) = declarator {
        let length = part
            .child_by_field_name("length")
            .filter(|_| part.kind() == "new_declarator")
            .ok_or("its type is not simple: give it a name first")?;
        if let Some(why) = why_not_again(source, length) {
            return Err(format!(
                "its length ({}) {why}: keep it in a variable first",
                source.text(length)
            ));
        }
        let length = operand(source, length).ok_or("its length is not UTF-8")?;
        product.push_str(" * ");
        product.push_str(&length);
        declarator = children(part)
            .into_iter()
            .find(|child| child.kind() == "new_declarator");
    }
    Ok(product)
}

/// `std::vector<T> x(n);`, which to the grammar may be a function's declaration.
fn container<'tree>(source: &Source, node: Node<'tree>) -> Option<Allocation<'tree>> {
    let declaration = node
        .parent()
        .filter(|parent| parent.kind() == "declaration")?;
    let in_function = ancestors(declaration).any(|node| node.kind() == "compound_statement");
    let kind = last_name(source, declaration.child_by_field_name("type")?)?;
    if !in_function || !CONTAINERS.contains(&kind) {
        return None;
    }
    let sizes = match node.kind() {
        "init_declarator" => node
            .child_by_field_name("value")
            .filter(|value| value.kind() == "argument_list"),
        _ => node
            .child_by_field_name("parameters")
            .filter(|parameters| !children(*parameters).into_iter().any(has_plain_type)),
    };
    let name = node.child_by_field_name("declarator")?;
    if name.kind() != "identifier" || children(sizes?).is_empty() {
        return None;
    }
    Some(Allocation {
        node,
        by: kind.to_owned(),
        outlet: Outlet::Container(name, false),
        size: Size::OfContainer,
        size_from: Vec::new(),
    })
}

/// `int n`, and not the `n` of `x(n)`: then a function is declared.
fn has_plain_type(parameter: Node<'_>) -> bool {
    let kind = parameter.child_by_field_name("type");
    kind.is_some_and(|kind| matches!(kind.kind(), "primitive_type" | "sized_type_specifier"))
}

/// Names that are declared as containers of contiguous memory somewhere in the file.
pub(crate) fn is_container_type(source: &Source, kind: Node<'_>) -> bool {
    last_name(source, kind).is_some_and(|name| CONTAINERS.contains(&name))
}
