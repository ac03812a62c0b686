//! What may allocate in Rust.

use super::rust_binding::Binder;
use super::{Candidate, Class, Dialect, Finding, text_of};
use tree_sitter::Node;

/// Methods by which collections take memory for themselves.
const GROWING_METHODS: &[&str] = &[
    "push",
    "push_str",
    "push_back",
    "push_front",
    "insert",
    "resize",
    "resize_with",
    "reserve",
    "reserve_exact",
    "try_reserve",
    "try_reserve_exact",
    "extend",
    "extend_from_slice",
    "extend_from_within",
    "append",
    "or_insert",
    "or_insert_with",
    "or_insert_with_key",
    "or_default",
    "get_or_insert_with",
    "shrink_to_fit",
    "clone_from",
    "write_fmt",
    "write_all",
    "write_str",
];

/// Functions that allocate whatever the type.
const ALLOCATING_FUNCTIONS: &[&str] = &[
    "with_capacity",
    "to_vec",
    "to_owned",
    "to_string",
    "collect",
    "clone",
    "into_boxed_slice",
    "from_iter",
    "repeat",
    "join",
    "concat",
    "new_uninit_slice",
    "new_zeroed_slice",
];

/// The syntax of Rust.
pub(super) struct Rust<'text> {
    pub(super) text: &'text str,
}

impl Rust<'_> {
    fn call<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let function = node.child_by_field_name("function")?;
        let name = callee_name(function, self.text)?;
        // Tuple structs and variants are written like calls.
        if name.starts_with(char::is_uppercase) {
            return None;
        }
        let is_method = is_method(function);
        let class = if is_method && GROWING_METHODS.contains(&name) {
            Class::Growth
        } else if ALLOCATING_FUNCTIONS.contains(&name) || name.contains("alloc") {
            Class::Allocation
        } else {
            Class::Call
        };
        Some(Candidate {
            node,
            callees: vec![name.to_owned()],
            class,
        })
    }

    fn invocation<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let name = callee_name(node.child_by_field_name("macro")?, self.text)?;
        let (callees, class): (&[&str], _) = match name {
            "vec" => (
                &["from_elem", "into_vec", "box_new", "exchange_malloc"],
                Class::Allocation,
            ),
            "format" => (&["format"], Class::Allocation),
            "write" | "writeln" => (&["write_fmt"], Class::Growth),
            _ => (&[], Class::Call),
        };
        Some(Candidate {
            node,
            callees: callees.iter().map(|&c| c.to_owned()).collect(),
            class,
        })
    }

    fn operator<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let operator = node
            .child_by_field_name("operator")
            .map(|op| text_of(op, self.text));
        let callee = match (node.kind(), operator) {
            ("binary_expression", Some("+")) => "add",
            ("compound_assignment_expr", Some("+=")) => "add_assign",
            _ => return None,
        };
        Some(Candidate {
            node,
            callees: vec![callee.to_owned()],
            class: Class::Operator,
        })
    }

    /// The name of the function a node is in; `None` in closures.
    pub(super) fn function_name(&self, node: Node<'_>) -> Option<String> {
        let mut node = node;
        while node.kind() != "function_item" {
            if node.kind() == "closure_expression" {
                return None;
            }
            node = node.parent()?;
        }
        Some(text_of(node.child_by_field_name("name")?, self.text).to_owned())
    }

    fn binder(&self) -> Binder<'_> {
        Binder { text: self.text }
    }
}

impl Dialect for Rust<'_> {
    fn candidate<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        match node.kind() {
            "call_expression" => self.call(node),
            "macro_invocation" => self.invocation(node),
            _ => self.operator(node),
        }
    }

    fn implied<'tree>(&self, _root: Node<'tree>, _row: usize) -> Vec<Candidate<'tree>> {
        Vec::new()
    }

    fn is_body(&self, kind: &str) -> bool {
        matches!(kind, "block" | "declaration_list" | "match_block")
    }

    fn is_statement(&self, kind: &str) -> bool {
        matches!(
            kind,
            "let_declaration"
                | "expression_statement"
                | "field_initializer"
                | "static_item"
                | "const_item"
                | "return_expression"
                | "match_arm"
        )
    }

    fn bind(&self, candidate: &Candidate<'_>) -> Finding {
        self.binder().bind(candidate.node, candidate.class)
    }

    fn bind_argument(&self, candidate: &Candidate<'_>, argument: usize) -> Finding {
        self.binder().bind_argument(candidate.node, argument)
    }
}

/// Whether a call's function is a method of an object.
pub(super) fn is_method(function: Node<'_>) -> bool {
    match function.kind() {
        "field_expression" => true,
        "generic_function" => function
            .child_by_field_name("function")
            .is_some_and(|inner| inner.kind() == "field_expression"),
        _ => false,
    }
}

/// The last component of what is called: `with_capacity` of `Vec::<u8>::with_capacity`.
pub(super) fn callee_name<'text>(function: Node<'_>, text: &'text str) -> Option<&'text str> {
    let mut node = function;
    loop {
        node = match node.kind() {
            "identifier" | "field_identifier" | "type_identifier" => {
                return Some(text_of(node, text));
            }
            "scoped_identifier" => node.child_by_field_name("name")?,
            "generic_function" => node.child_by_field_name("function")?,
            "field_expression" => node.child_by_field_name("field")?,
            "parenthesized_expression" => node.named_child(0)?,
            _ => return None,
        };
    }
}

/// Whether a method takes memory for the collection it is called on.
pub(super) fn is_growing(function: Node<'_>, text: &str) -> bool {
    is_method(function)
        && callee_name(function, text).is_some_and(|name| GROWING_METHODS.contains(&name))
}
