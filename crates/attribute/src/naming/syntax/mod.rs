//! Reading a source line: which variable does the allocation on it belong to?
//!
//! A line's syntax tree is searched for *candidates*, the constructs that may allocate: calls,
//! `new`, constructions of objects, growing containers. What is known about the call (the callee's
//! name from the next inner frame, the column) selects among them, and the selected candidate's
//! surroundings tell what it is bound to.

mod c_binding;
mod c_family;
mod c_returns;
mod fortran;
mod rust;
mod rust_binding;
mod select;

use crate::c_syntax::{parse, parse_in};
use std::path::Path;
use std::time::Duration;
use tree_sitter::{Node, Tree};

/// Generated sources of many megabytes would hold up everything else: past this, no names.
const PARSE_LIMIT: Duration = Duration::from_secs(2);

/// A language whose sources can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    C,
    Cpp,
    Fortran(fortran::Form),
    Rust,
}

impl Grammar {
    /// The grammar for a file, by its extension; `None` for other languages. Headers may hold
    /// either language: they are read as C++.
    pub(crate) fn of(file: &str) -> Option<Self> {
        // GCC and Clang take `.C` for C++.
        if file.ends_with(".C") {
            return Some(Self::Cpp);
        }
        let extension = Path::new(file)
            .extension()
            .and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("c") => Some(Self::C),
            Some("rs") => Some(Self::Rust),
            // The standard library's and LEMON's fashion of headers without an extension.
            None
            | Some(
                "h" | "cc" | "cpp" | "cxx" | "c++" | "hh" | "hpp" | "hxx" | "h++" | "inl" | "ipp"
                | "tpp" | "tcc" | "txx" | "cu" | "cuh" | "ii",
            ) => Some(Self::Cpp),
            Some(extension) => fortran::Form::of(extension).map(Self::Fortran),
        }
    }
}

/// A source file and its syntax tree.
pub(crate) struct SourceTree {
    text: String,
    syntax: Syntax,
}

/// What is known of a text.
enum Syntax {
    CFamily { tree: Tree, cpp: bool },
    Fortran(fortran::Form),
    Rust(Tree),
}

impl SourceTree {
    /// Parses a file; `None` if it takes too long.
    pub(crate) fn parse(file: &str, text: String) -> Option<Self> {
        let syntax = match Grammar::of(file)? {
            Grammar::Fortran(form) => Syntax::Fortran(form),
            Grammar::Rust => Syntax::Rust(parse_in(
                &tree_sitter_rust::LANGUAGE.into(),
                &text,
                PARSE_LIMIT,
            )?),
            Grammar::C => c_family_tree(false, &text)?,
            Grammar::Cpp => match c_family_tree(true, &text)? {
                // A header with C++'s keywords as names is one of C.
                tree if file.ends_with(".h") && tree.has_error() => {
                    let of_c = c_family_tree(false, &text);
                    of_c.filter(|of_c| !of_c.has_error()).unwrap_or(tree)
                }
                tree => tree,
            },
        };
        Some(Self { text, syntax })
    }

    /// Bytes of source text.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What the allocation on a line is bound to; `None` if nothing on the line may allocate.
    pub(crate) fn find(&self, query: &Query<'_>) -> Option<Finding> {
        let text = self.text.as_str();
        match &self.syntax {
            Syntax::Fortran(form) => fortran::find(text, *form, query.line),
            Syntax::CFamily { tree, cpp } => {
                let dialect = c_family::CFamily { cpp: *cpp, text };
                select::find(&dialect, tree.root_node(), text, query)
            }
            Syntax::Rust(tree) => select::find(&rust::Rust { text }, tree.root_node(), text, query),
        }
    }

    /// The simple name of the function around a line; `None` outside, and in closures.
    pub(crate) fn function_at(&self, line: u32) -> Option<String> {
        let text = self.text.as_str();
        match &self.syntax {
            Syntax::Fortran(form) => fortran::function_at(text, *form, line),
            Syntax::CFamily { tree, cpp } => {
                let dialect = c_family::CFamily { cpp: *cpp, text };
                dialect.function_name(node_at(tree, text, line)?)
            }
            Syntax::Rust(tree) => rust::Rust { text }.function_name(node_at(tree, text, line)?),
        }
    }
}

impl Syntax {
    fn has_error(&self) -> bool {
        match self {
            Self::CFamily { tree, .. } | Self::Rust(tree) => tree.root_node().has_error(),
            Self::Fortran(_) => false,
        }
    }
}

fn c_family_tree(cpp: bool, text: &str) -> Option<Syntax> {
    let tree = parse(text, cpp, PARSE_LIMIT)?;
    Some(Syntax::CFamily { tree, cpp })
}

/// Where a line begins to say something.
fn node_at<'tree>(tree: &'tree Tree, text: &str, line: u32) -> Option<Node<'tree>> {
    let row = usize::try_from(line).ok()?.checked_sub(1)?;
    let line = text.lines().nth(row)?;
    let column = line.len() - line.trim_start().len();
    let at = tree_sitter::Point { row, column };
    tree.root_node().descendant_for_point_range(at, at)
}

/// What is known about an allocation's line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    /// Line, from 1.
    pub(crate) line: u32,
    /// Column, from 1, in bytes.
    pub(crate) column: Option<u32>,
    /// Simple name of the function called from the line.
    pub(crate) callee: Option<&'a str>,
    /// The memory came back by this argument of the callee (from 0) rather than by its result.
    pub(crate) out_argument: Option<usize>,
}

/// What a line's allocation is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The variable, member or container; `a|b` if it is one of several on the line.
    pub(crate) name: Option<String>,
    /// How the memory leaves the function, if it does: then the caller names it better.
    pub(crate) escape: Option<Escape>,
}

/// How fresh memory leaves the function that allocated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As the function's result.
    Returned,
    /// Through a pointer given as this parameter, from 0 (`*out = malloc(n)`).
    OutParameter(usize),
}

/// How probably a construct allocates, most probable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// `malloc`, `new`, `vec!`.
    Allocation,
    /// A container's growing method.
    Growth,
    /// An object with a constructor.
    Construction,
    /// Any other call.
    Call,
    /// A result copied to the caller.
    Return,
    /// An assignment, which may copy; or grow, as `s += t` does by way of another function.
    Assignment,
    /// Another operator; considered only if the callee is that operator.
    Operator,
}

/// A construct that may allocate.
#[derive(Clone, Debug)]
struct Candidate<'tree> {
    node: Node<'tree>,
    /// Names under which its function may appear as a frame.
    callees: Vec<String>,
    class: Class,
}

impl Candidate<'_> {
    fn calls(&self, callee: Option<&str>) -> bool {
        // Libraries define `strdup` as `__strdup`.
        let bare = |name: &str| name.trim_start_matches('_').to_owned();
        callee.is_some_and(|callee| self.callees.iter().any(|name| bare(name) == bare(callee)))
    }
}

/// What the syntax of one language family means.
trait Dialect {
    /// The candidate a node is, if it is one.
    fn candidate<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>>;

    /// Candidates written elsewhere that compilers attribute to a row: default initializers of
    /// members, at the constructor.
    fn implied<'tree>(&self, root: Node<'tree>, row: usize) -> Vec<Candidate<'tree>>;

    /// Whether nodes of this kind hold statements.
    fn is_body(&self, kind: &str) -> bool;

    /// Whether nodes of this kind are statements, declarations or initializers: the largest parts
    /// to look at for one line.
    fn is_statement(&self, kind: &str) -> bool;

    /// What a candidate's memory is bound to.
    fn bind(&self, candidate: &Candidate<'_>) -> Finding;

    /// What a candidate's argument (from 0) names.
    fn bind_argument(&self, candidate: &Candidate<'_>, argument: usize) -> Finding;
}

/// The text of a node.
fn text_of<'text>(node: Node<'_>, text: &'text str) -> &'text str {
    text.get(node.byte_range()).unwrap_or_default()
}

/// The named children of a node.
fn named_children<'tree>(node: Node<'tree>) -> Vec<Node<'tree>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor)
        .filter(|child| !child.is_extra())
        .collect()
}

/// All nodes below and including `root` for which `enter` holds on the way down.
fn visit<'tree>(root: Node<'tree>, enter: &mut impl FnMut(Node<'tree>) -> bool) {
    // An explicit stack: sources may nest deeper than the thread's own.
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if enter(node) {
            let children = named_children(node);
            pending.extend(children.into_iter().rev());
        }
    }
}

#[cfg(test)]
mod tests;
