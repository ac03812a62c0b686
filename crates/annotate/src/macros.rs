//! Macros that hide an allocation: no call can be placed behind what the preprocessor makes.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::allocator::is_wrapper;
use crate::expression::last_name;
use crate::source::Source;
use crate::source::descendants;
use crate::source::parse;

/// Macros of this file whose text allocates, with the rows of their definitions.
pub(crate) struct Macros {
    names: HashSet<String>,
    pub(crate) defined: Vec<(usize, String)>,
}

impl Macros {
    pub(crate) fn read(source: &Source) -> Self {
        let mut macros = Self {
            names: HashSet::new(),
            defined: Vec::new(),
        };
        for node in descendants(source.root()) {
            if !matches!(node.kind(), "preproc_def" | "preproc_function_def") {
                continue;
            }
            let name = node.child_by_field_name("name");
            let value = node.child_by_field_name("value");
            if let (Some(name), Some(value)) = (name, value)
                && allocates(source.text(value), source.is_cpp())
            {
                let name = source.text(name).to_owned();
                macros
                    .defined
                    .push((node.start_position().row, name.clone()));
                macros.names.insert(name);
            }
        }
        macros
    }

    /// The macro that a node uses, if it is one of these.
    pub(crate) fn used<'text>(&self, source: &'text Source, node: Node<'_>) -> Option<&'text str> {
        let is_use = match node.kind() {
            "call_expression" => node.child_by_field_name("function"),
            _ => None,
        };
        last_name(source, is_use?).filter(|name| self.names.contains(*name))
    }
}

/// Whether a macro's text calls an allocator.
fn allocates(text: &str, cpp: bool) -> bool {
    let text = text.replace(['\\', '\r', '\n', '#'], " ");
    let wrapped = format!("void f(void) {{ {text}; }}");
    let Some(tree) = parse(&wrapped, cpp) else {
        return false;
    };
    descendants(tree.root_node()).any(|node| {
        let function = match node.kind() {
            "new_expression" => return true,
            "call_expression" => node.child_by_field_name("function"),
            _ => None,
        };
        function
            .and_then(|function| wrapped.get(function.byte_range()))
            .is_some_and(|name| is_wrapper(name) || name == "mmap")
    })
}
