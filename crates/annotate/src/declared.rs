//! What a file declares, as far as it tells how memory is kept.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::allocator::is_container_type;
use crate::expression::last_name;
use crate::source::Source;
use crate::source::descendants;

/// What is known of names from the whole file.
pub(crate) struct Declared {
    /// Raw pointers wherever they are declared.
    pub(crate) pointers: HashSet<String>,
    /// What is declared as something else somewhere.
    pub(crate) others: HashSet<String>,
    /// Containers of contiguous memory.
    pub(crate) containers: HashSet<String>,
    /// Containers that keep elements in blocks of their own: row and type.
    pub(crate) scattered: Vec<(usize, String)>,
}

/// No call can name the memory of one, or lock it.
const SCATTERED: &[&str] = &[
    "deque",
    "list",
    "forward_list",
    "map",
    "multimap",
    "set",
    "multiset",
    "unordered_map",
    "unordered_multimap",
    "unordered_set",
    "unordered_multiset",
];

impl Declared {
    pub(crate) fn read(source: &Source) -> Self {
        let mut declared = Self {
            pointers: HashSet::new(),
            others: HashSet::new(),
            containers: HashSet::new(),
            scattered: Vec::new(),
        };
        for node in descendants(source.root()) {
            let is_declaration = matches!(
                node.kind(),
                "declaration"
                    | "field_declaration"
                    | "parameter_declaration"
                    | "optional_parameter_declaration"
            );
            let Some(kind) = node.child_by_field_name("type").filter(|_| is_declaration) else {
                continue;
            };
            let mut cursor = node.walk();
            for declarator in node.children_by_field_name("declarator", &mut cursor) {
                let inner = match declarator.kind() {
                    "init_declarator" | "function_declarator" => {
                        declarator.child_by_field_name("declarator")
                    }
                    _ => Some(declarator),
                };
                let Some(inner) = inner else { continue };
                let Some(name) = declared_name(source, inner) else {
                    continue;
                };
                if is_container_type(source, kind) {
                    declared.containers.insert(name.to_owned());
                }
                let is_object = matches!(inner.kind(), "identifier" | "field_identifier")
                    && declarator.kind() != "function_declarator"
                    && !node.kind().contains("parameter");
                if let Some(kind) = last_name(source, kind)
                    && is_object
                    && SCATTERED.contains(&kind)
                {
                    let row = inner.start_position().row;
                    declared.scattered.push((row, kind.to_owned()));
                }
                if inner.kind() == "pointer_declarator" {
                    declared.pointers.insert(name.to_owned());
                } else {
                    declared.others.insert(name.to_owned());
                }
            }
        }
        let others = &declared.others;
        declared.pointers.retain(|name| !others.contains(name));
        declared
    }
}

/// The name that a declarator without an initializer declares.
fn declared_name<'text>(source: &'text Source, declarator: Node<'_>) -> Option<&'text str> {
    let mut node = declarator;
    while let Some(inner) = node.child_by_field_name("declarator") {
        node = inner;
    }
    matches!(node.kind(), "identifier" | "field_identifier").then(|| source.text(node))
}
