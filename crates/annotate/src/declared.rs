//! What a file declares, as far as it tells how memory is kept.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::allocator::is_container_type;
use crate::source::Source;
use crate::source::descendants;

/// What is known of names from the whole file.
pub(crate) struct Declared {
    /// Raw pointers wherever they are declared.
    pub(crate) pointers: HashSet<String>,
    /// Containers of contiguous memory.
    pub(crate) containers: HashSet<String>,
}

impl Declared {
    pub(crate) fn read(source: &Source) -> Self {
        let mut declared = Self {
            pointers: HashSet::new(),
            containers: HashSet::new(),
        };
        let mut others = HashSet::new();
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
                if inner.kind() == "pointer_declarator" {
                    declared.pointers.insert(name.to_owned());
                } else {
                    others.insert(name.to_owned());
                }
            }
        }
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
