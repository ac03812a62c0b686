//! Calls that read or write files, and those of `pagewise_io.h` that take their place: the same name behind `pagewise_`, and what
//! the kernel is told as the first argument. What is inserted leaves the call where it is, so conditions and loops keep their form.

use pagewise_plan::Action;
use pagewise_plan::IoAction;
use pagewise_plan::Readahead;
use tree_sitter::Node;

use crate::expression::arguments;
use crate::expression::last_name;
use crate::expression::on_one_line;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;
use crate::source::descendants;
use crate::source::parse;

/// The header that declares them.
pub(crate) const HEADER: &str = "pagewise_io.h";
/// What comes before a call's name.
pub(crate) const PREFIX: &str = "pagewise_";

/// The calls, how many arguments they have, and which of these is the file.
const CALLS: &[(&str, usize, usize)] = &[
    ("read", 3, 0),
    ("pread", 4, 0),
    ("pread64", 4, 0),
    ("readv", 3, 0),
    ("preadv", 4, 0),
    ("fread", 4, 3),
    ("fgets", 3, 2),
    ("getline", 3, 2),
    ("write", 3, 0),
    ("pwrite", 4, 0),
    ("pwrite64", 4, 0),
    ("writev", 3, 0),
    ("pwritev", 4, 0),
    ("fwrite", 4, 3),
];

/// Macros that evaluate their argument again if a signal has interrupted it, and do nothing else with it.
const TRANSPARENT: &[&str] = &["TEMP_FAILURE_RETRY"];

/// A call that reads or writes a file.
#[derive(Clone)]
pub(crate) struct FileCall<'tree> {
    pub(crate) node: Node<'tree>,
    /// Its name, which a hint comes before.
    name: Node<'tree>,
    /// `pread`.
    pub(crate) by: &'static str,
    /// Of a call that has a hint: which.
    hint: Option<Node<'tree>>,
    /// The descriptor or stream.
    file: Node<'tree>,
}

impl<'tree> FileCall<'tree> {
    /// What a node calls, if it is one of these by its name and the number of its arguments.
    pub(crate) fn read(source: &Source, node: Node<'tree>) -> Option<Self> {
        let function = (node.kind() == "call_expression")
            .then(|| node.child_by_field_name("function"))
            .flatten()?;
        // Of an object it is another function: that has no descriptor.
        if !matches!(function.kind(), "identifier" | "qualified_identifier") {
            return None;
        }
        let called = last_name(source, function)?;
        let (plain, is_hinted) = match called.strip_prefix(PREFIX) {
            Some(plain) => (plain, true),
            None => (called, false),
        };
        let (by, count, file) = CALLS.iter().find(|(name, ..)| *name == plain)?;
        let mut arguments = arguments(node);
        let hint = (is_hinted && !arguments.is_empty()).then(|| arguments.remove(0));
        (arguments.len() == *count).then(|| Self {
            node,
            name: function,
            by,
            hint,
            file: arguments[*file],
        })
    }

    /// The descriptor or stream, as it is written.
    pub(crate) fn file(&self, source: &Source) -> Option<String> {
        on_one_line(source, self.file)
    }

    /// The hint that it has already.
    pub(crate) fn hint<'text>(&self, source: &'text Source) -> Option<&'text str> {
        self.hint.map(|hint| source.text(hint))
    }

    /// Where text comes into the source so that the call has a hint.
    pub(crate) fn insertions(&self, source: &Source, hint: &str) -> Option<[(usize, String); 2]> {
        let list = self.node.child_by_field_name("arguments")?;
        let name = descendants(self.name)
            .filter(|node| node.kind() == "identifier" && source.text(*node) == self.by)
            .last()?;
        Some([
            (name.start_byte(), PREFIX.to_owned()),
            (list.start_byte() + 1, format!("{hint}, ")),
        ])
    }

    /// The call with a hint, for people.
    pub(crate) fn hinted(&self, source: &Source, hint: &str) -> Option<String> {
        let arguments = arguments(self.node).into_iter();
        let arguments = arguments.skip(usize::from(self.hint.is_some()));
        let arguments: Option<Vec<String>> = arguments
            .map(|argument| on_one_line(source, argument))
            .collect();
        Some(format!(
            "{PREFIX}{}({hint}, {})",
            self.by,
            arguments?.join(", ")
        ))
    }

    /// Why another call must not take its place.
    pub(crate) fn why_not(&self, source: &Source) -> Option<String> {
        let around =
            || ancestors(self.node).take_while(|node| node.kind() != "function_definition");
        if self.node.has_error() || ancestors(self.node).any(|node| node.is_error()) {
            return Some("the parser does not understand what is around it".to_owned());
        }
        if self.name.kind() == "qualified_identifier" && !source.text(self.name).starts_with("::") {
            return Some(format!(
                "it is called as {}: write {} or ::{}",
                source.text(self.name),
                self.by,
                self.by
            ));
        }
        if !ancestors(self.node).any(|node| node.kind() == "function_definition") {
            return Some("it is outside of any function".to_owned());
        }
        let is_global = self.name.kind() == "qualified_identifier";
        if let Some(row) = redefined(source, self.by, is_global) {
            return Some(format!(
                "line {} makes {} something of its own: place the hint by hand",
                row + 1,
                self.by
            ));
        }
        let outer = around().filter(|node| node.kind() == "call_expression");
        let mut outer = outer.filter_map(|call| {
            let name = last_name(source, call.child_by_field_name("function")?)?;
            is_macro(source, name).then_some(name)
        });
        outer.next().map(|name| {
            format!("it is in the arguments of {name}, a macro by its name: keep its result in a variable first")
        })
    }
}

/// The calls whose own lines, or whose statement's, a line is among; those that begin on it, if any do.
pub(crate) fn on_line(source: &Source, line: usize) -> Vec<FileCall<'_>> {
    let row = line.saturating_sub(1);
    let covers =
        |node: Node<'_>| (node.start_position().row..=node.end_position().row).contains(&row);
    let calls = descendants(source.root()).filter_map(|node| FileCall::read(source, node));
    let calls: Vec<FileCall<'_>> = calls.collect();
    let begins = |call: &FileCall<'_>| call.node.start_position().row == row;
    let itself = |call: &FileCall<'_>| covers(call.node);
    let within = |call: &FileCall<'_>| {
        let is_whole = |node: &Node<'_>| {
            matches!(
                node.kind(),
                "expression_statement" | "declaration" | "return_statement"
            )
        };
        ancestors(call.node).find(is_whole).is_some_and(covers)
    };
    let ways: [&dyn Fn(&FileCall<'_>) -> bool; 3] = [&begins, &itself, &within];
    let found = ways.iter().map(|is| {
        let found = calls.iter().filter(|call| is(call));
        found.cloned().collect::<Vec<_>>()
    });
    found
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// A macro of this file that is used on a line, and reads or writes.
pub(crate) fn macro_on_line(source: &Source, line: usize) -> Option<&str> {
    let used = descendants(source.root())
        .filter(|node| node.kind() == "call_expression" && node.start_position().row + 1 == line);
    let names = used.filter_map(|call| last_name(source, call.child_by_field_name("function")?));
    let mut names = names.filter(|name| {
        defined(source, name).is_some_and(|value| reads_or_writes(&value, source.is_cpp()))
    });
    names.next()
}

/// What a rule's action is as the first argument of a call, or why it is nothing there.
pub(crate) fn hint(action: &Action) -> Result<String, String> {
    let with = |first: &str, readahead: Option<Readahead>| match readahead {
        Some(mode) => format!("{first} | {}", word(mode)),
        None => first.to_owned(),
    };
    match action {
        Action::Io(IoAction::Readahead(mode)) => Ok(word(*mode).to_owned()),
        Action::Io(IoAction::WillNeed { burst_bytes }) => {
            Ok(format!("PAGEWISE_BURST({burst_bytes})"))
        }
        Action::Io(IoAction::Drop { readahead, .. }) => Ok(with("PAGEWISE_DROP", *readahead)),
        other => Err(format!(
            "{} has no call for the source: leave it to pagewise apply",
            other.name()
        )),
    }
}

fn word(mode: Readahead) -> &'static str {
    match mode {
        Readahead::Normal => "PAGEWISE_NORMAL",
        Readahead::Sequential => "PAGEWISE_SEQUENTIAL",
        Readahead::Random => "PAGEWISE_RANDOM",
    }
}

/// Where this file says itself how the kernel reads ahead, from 0.
pub(crate) fn own_advice(source: &Source) -> Option<usize> {
    let words = [
        "POSIX_FADV_SEQUENTIAL",
        "POSIX_FADV_RANDOM",
        "POSIX_FADV_NORMAL",
    ];
    let mut nodes = descendants(source.root());
    nodes
        .find(|node| node.kind() == "identifier" && words.contains(&source.text(*node)))
        .map(|node| node.start_position().row)
}

/// The row where this file defines a macro of that name, or, unless the call names the global one, a function, member or variable.
fn redefined(source: &Source, name: &str, is_global: bool) -> Option<usize> {
    let mut nodes = descendants(source.root());
    nodes
        .find(|node| match node.kind() {
            "preproc_def" | "preproc_function_def" => node
                .child_by_field_name("name")
                .is_some_and(|defined| source.text(defined) == name),
            // A variable or parameter may be a pointer to a function.
            "function_definition"
            | "field_declaration"
            | "init_declarator"
            | "parameter_declaration" => !is_global && declares(source, *node, name),
            _ => false,
        })
        .map(|node| node.start_position().row)
}

/// Whether what a declaration declares has that name, be it as a member.
fn declares(source: &Source, declaration: Node<'_>, name: &str) -> bool {
    let mut declarator = declaration.child_by_field_name("declarator");
    while let Some(inner) = declarator {
        if matches!(
            inner.kind(),
            "identifier" | "field_identifier" | "qualified_identifier"
        ) {
            return last_name(source, inner) == Some(name);
        }
        let next = inner.child_by_field_name("declarator");
        declarator = next.or_else(|| children(inner).into_iter().next());
    }
    false
}

/// Whether a function is a macro: of this file, or by its name.
fn is_macro(source: &Source, name: &str) -> bool {
    let is_upper = name.bytes().any(|byte| byte.is_ascii_uppercase())
        && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    !TRANSPARENT.contains(&name)
        && (is_upper || name == "assert" || defined(source, name).is_some())
}

/// The text of a macro of this file.
fn defined(source: &Source, name: &str) -> Option<String> {
    let mut nodes = descendants(source.root());
    nodes.find_map(|node| {
        let is_macro = matches!(node.kind(), "preproc_def" | "preproc_function_def");
        let defined = node.child_by_field_name("name").filter(|_| is_macro)?;
        let value = node.child_by_field_name("value");
        (source.text(defined) == name)
            .then(|| value.map_or("", |value| source.text(value)).to_owned())
    })
}

fn reads_or_writes(text: &str, cpp: bool) -> bool {
    let text = text.replace(['\\', '\r', '\n', '#'], " ");
    let wrapped = format!("void f(void) {{ {text}; }}");
    let Some(tree) = parse(&wrapped, cpp) else {
        return false;
    };
    descendants(tree.root_node())
        .filter(|node| node.kind() == "call_expression")
        .filter_map(|node| node.child_by_field_name("function"))
        .filter_map(|function| wrapped.get(function.byte_range()))
        .any(|name| CALLS.iter().any(|(known, ..)| *known == name))
}
