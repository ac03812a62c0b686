//! What allocates: the `malloc` family and functions named after it, `new`, anonymous `mmap`; containers are in
//! `container`.

use tree_sitter::Node;

use crate::container::constructed_member;
use crate::container::container;
use crate::container::growing;
use crate::container::made_container;
use crate::declared::Declared;
use crate::expression::arguments;
use crate::expression::last_name;
use crate::expression::on_one_line;
use crate::expression::operand;
use crate::expression::variables;
use crate::expression::why_not_again;
use crate::source::Source;
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

const OPERATOR_NEW: &str = "operator new";

/// Further arguments of `new` that tell how to allocate; with others it takes memory that is there already.
const HOW_TO_ALLOCATE: &[&str] = &["nothrow", "align_val_t"];

const SMART: &[&str] = &[
    "make_unique",
    "make_shared",
    "make_unique_for_overwrite",
    "make_shared_for_overwrite",
];

/// What a node allocates, if it does.
pub(crate) fn allocation<'tree>(
    source: &Source,
    declared: &Declared,
    node: Node<'tree>,
) -> Option<Allocation<'tree>> {
    match node.kind() {
        "call_expression" => call(source, node).or_else(|| made_container(source, declared, node)),
        "new_expression" => new_expression(source, node),
        "init_declarator" | "function_declarator" if source.is_cpp() => {
            container(source, declared, node)
        }
        "field_initializer" => constructed_member(source, declared, node),
        _ => None,
    }
}

/// Whether a function by its name only hands memory on.
pub(crate) fn is_wrapper(function: &str) -> bool {
    family(function).is_some() || function.starts_with(OPERATOR_NEW)
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
    let arguments = arguments(node);
    let name = match operator_new(source, function) {
        Some(name) => name,
        None => last_name(source, function)?,
    };
    let made = |outlet, size| {
        let size_from = arguments
            .iter()
            .flat_map(|argument| variables(source, *argument));
        Some(Allocation {
            node,
            by: name.to_owned(),
            outlet,
            size,
            size_from: size_from.collect(),
        })
    };
    if SMART.contains(&name) {
        return made(
            Outlet::Value,
            Size::Unknown(format!(
                "{name} does not tell its size in bytes: give it what new makes, as in p.reset(new double[n])"
            )),
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
    if name.starts_with(OPERATOR_NEW) {
        let further = arguments.get(1..)?;
        let allocates = further.iter().all(|one| allocates_so(source.text(*one)));
        return (allocates && !arguments.is_empty())
            .then(|| made(Outlet::Value, size(source, &arguments, &[0]).into()))
            .flatten();
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

/// `operator new` and `operator new[]`, of any class.
fn operator_new(source: &Source, function: Node<'_>) -> Option<&'static str> {
    let text = source.text(function);
    if !(text.ends_with("new") || text.ends_with("new[]")) {
        return None;
    }
    let own = text.rsplit("::").next().unwrap_or(text);
    let words: Vec<&str> = own.split_whitespace().collect();
    match words[..] {
        ["operator", "new"] => Some(OPERATOR_NEW),
        ["operator", "new[]"] => Some("operator new[]"),
        _ => None,
    }
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

/// Of `(std::nothrow)`, `(std::align_val_t(64), std::nothrow)`: all of it, as a place may be called like that.
fn allocates_so(placement: &str) -> bool {
    let inner = placement.trim().trim_start_matches('(');
    inner.split(',').all(|part| {
        let name = part.trim_start().trim_start_matches("std::");
        let name = name.split(['(', ')', '{', ' ']).next().unwrap_or(name);
        HOW_TO_ALLOCATE.contains(&name)
    })
}

fn new_expression<'tree>(source: &Source, node: Node<'tree>) -> Option<Allocation<'tree>> {
    // What tells how to allocate is written as if it were a place.
    if let Some(placement) = node.child_by_field_name("placement")
        && !allocates_so(source.text(placement))
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
