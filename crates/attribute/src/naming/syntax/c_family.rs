//! What may allocate in C and C++.

use super::c_binding::{Binder, declared_name};
use super::{Candidate, Class, Dialect, Finding, named_children, text_of, visit};
use crate::c_syntax::last_name;
use tree_sitter::Node;

/// Methods by which containers take memory for themselves.
const GROWING_METHODS: &[&str] = &[
    "resize",
    "reserve",
    "push_back",
    "push_front",
    "push",
    "emplace_back",
    "emplace_front",
    "emplace",
    "emplace_hint",
    "try_emplace",
    "insert",
    "insert_or_assign",
    "assign",
    "append",
    "append_range",
    "rehash",
    "shrink_to_fit",
    "resize_and_overwrite",
    "conservativeResize",
    "setZero",
];

/// Functions that allocate, besides those that say so in their name.
const ALLOCATING_FUNCTIONS: &[&str] = &[
    "mmap",
    "mmap64",
    "mremap",
    "shmat",
    "memalign",
    "posix_memalign",
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "vasprintf",
    "getline",
    "getdelim",
    "open_memstream",
    "make_unique",
    "make_shared",
    "make_unique_for_overwrite",
    "make_shared_for_overwrite",
];

const CLASSES: &[&str] = &["class_specifier", "struct_specifier"];

/// The syntax of C, or of C++.
pub(super) struct CFamily<'text> {
    pub(super) cpp: bool,
    pub(super) text: &'text str,
}

impl CFamily<'_> {
    fn call<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let name = last_name(node.child_by_field_name("function")?, self.text)?;
        // Written like functions, but nothing is called.
        if name.ends_with("_cast") || matches!(name, "move" | "forward" | "sizeof" | "decltype") {
            return None;
        }
        let class = if is_allocating(name) {
            Class::Allocation
        } else if is_growing(node, name) {
            Class::Growth
        } else {
            Class::Call
        };
        // `std::string(n, ' ')` runs a constructor of the type the alias stands for.
        Some(Candidate {
            node,
            callees: spellings(name),
            class,
        })
    }

    fn new_expression<'tree>(&self, node: Node<'tree>) -> Candidate<'tree> {
        let mut callees = vec!["operator new".to_owned(), "operator new[]".to_owned()];
        let kind = node.child_by_field_name("type");
        callees.extend(
            kind.and_then(|kind| last_name(kind, self.text))
                .map(str::to_owned),
        );
        Candidate {
            node,
            callees,
            class: Class::Allocation,
        }
    }

    /// A declarator of a declaration that runs a constructor: `std::vector<int> x(n), y{1, 2};`.
    fn construction<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let declaration = node
            .parent()
            .filter(|parent| matches!(parent.kind(), "declaration" | "field_declaration"))?;
        let kind = declaration.child_by_field_name("type")?;
        let has_constructor = matches!(
            kind.kind(),
            "type_identifier"
                | "qualified_identifier"
                | "template_type"
                | "placeholder_type_specifier"
        );
        let is_declarator = is_field(declaration, node, "declarator");
        if !has_constructor
            || !is_declarator
            || declares_no_object(node)
            || is_extern(declaration, self.text)
        {
            return None;
        }
        let callees = last_name(kind, self.text)
            .map(spellings)
            .unwrap_or_default();
        Some(Candidate {
            node,
            callees,
            class: Class::Construction,
        })
    }

    fn operator<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let operator = match node.kind() {
            "subscript_expression" => "[]",
            _ => text_of(node.child_by_field_name("operator")?, self.text),
        };
        let callees = vec![format!("operator{operator}")];
        let class = match node.kind() {
            "assignment_expression" => Class::Assignment,
            _ => Class::Operator,
        };
        Some(Candidate {
            node,
            callees,
            class,
        })
    }

    /// `member(n)` of a constructor's list; its type tells which constructor it calls.
    fn member_initializer<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        let name = last_name(node.named_child(0)?, self.text)?;
        let members = enclosing(node, CLASSES).map(members_of).unwrap_or_default();
        let member = members.into_iter().find(|member| {
            let declarator = member.child_by_field_name("declarator");
            declarator
                .and_then(|d| declared_name(d, self.text))
                .as_deref()
                == Some(name)
        });
        let kind =
            member.and_then(|member| last_name(member.child_by_field_name("type")?, self.text));
        let callees = kind.map(spellings).unwrap_or_default();
        Some(Candidate {
            node,
            callees,
            class: Class::Construction,
        })
    }

    /// What a member's default initializer may allocate by.
    fn default_initializer<'tree>(&self, member: Node<'tree>) -> Vec<Candidate<'tree>> {
        let Some(value) = member.child_by_field_name("default_value") else {
            return Vec::new();
        };
        let mut found = Vec::new();
        visit(value, &mut |node| {
            found.extend(self.candidate(node));
            !is_lambda(node)
        });
        let declarator = member.child_by_field_name("declarator");
        found.extend(declarator.and_then(|declarator| self.construction(declarator)));
        found
    }

    /// The simple name of the function a node is in.
    pub(super) fn function_name(&self, node: Node<'_>) -> Option<String> {
        let mut node = node;
        while node.kind() != "function_definition" {
            if node.kind() == "lambda_expression" {
                return None;
            }
            node = node.parent()?;
        }
        let mut declarator = node.child_by_field_name("declarator")?;
        while let Some(inner) = declarator.child_by_field_name("declarator") {
            declarator = inner;
        }
        last_name(declarator, self.text).map(str::to_owned)
    }

    fn is_constructor(&self, function: Node<'_>) -> bool {
        let class =
            enclosing(function, CLASSES).and_then(|class| class.child_by_field_name("name"));
        let class = class.and_then(|name| last_name(name, self.text));
        class.is_some() && self.function_name(function).as_deref() == class
    }

    fn binder(&self) -> Binder<'_> {
        Binder {
            cpp: self.cpp,
            text: self.text,
        }
    }
}

impl Dialect for CFamily<'_> {
    fn candidate<'tree>(&self, node: Node<'tree>) -> Option<Candidate<'tree>> {
        match node.kind() {
            "call_expression" => self.call(node),
            "new_expression" => Some(self.new_expression(node)),
            _ if !self.cpp => None,
            "compound_literal_expression" => {
                let name = last_name(node.child_by_field_name("type")?, self.text)?;
                Some(Candidate {
                    node,
                    callees: spellings(name),
                    class: Class::Construction,
                })
            }
            "field_initializer" => self.member_initializer(node),
            "assignment_expression" | "subscript_expression" | "binary_expression" => {
                self.operator(node)
            }
            "return_statement" => Some(Candidate {
                node,
                callees: Vec::new(),
                class: Class::Return,
            }),
            _ => self.construction(node),
        }
    }

    /// GCC attributes the default initializers of members to the constructor, at its head or the
    /// last member it initializes itself; to the head of the class if the constructor is implied.
    fn implied<'tree>(&self, root: Node<'tree>, row: usize) -> Vec<Candidate<'tree>> {
        let mut class = None;
        visit(root, &mut |node| {
            let (first, last) = (node.start_position().row, node.end_position().row);
            if row < first || row > last {
                return false;
            }
            if CLASSES.contains(&node.kind()) && first == row {
                class = Some(node);
            }
            if node.kind() == "function_definition" && self.is_constructor(node) {
                class = enclosing(node, CLASSES).filter(|_| ends_initialization(node, row));
            }
            true
        });
        let members = class
            .filter(|_| self.cpp)
            .map(members_of)
            .unwrap_or_default();
        members
            .into_iter()
            .flat_map(|member| self.default_initializer(member))
            .collect()
    }

    fn is_body(&self, kind: &str) -> bool {
        matches!(
            kind,
            "compound_statement" | "field_declaration_list" | "declaration_list"
        )
    }

    fn is_statement(&self, kind: &str) -> bool {
        matches!(
            kind,
            "expression_statement"
                | "declaration"
                | "field_declaration"
                | "field_initializer"
                | "return_statement"
                | "co_return_statement"
                | "condition_clause"
                | "throw_statement"
        )
    }

    fn bind(&self, candidate: &Candidate<'_>) -> Finding {
        self.binder().bind(candidate.node, candidate.class)
    }

    fn bind_argument(&self, candidate: &Candidate<'_>, argument: usize) -> Finding {
        self.binder().bind_argument(candidate.node, argument)
    }
}

/// The innermost node of one of the kinds around a node.
fn enclosing<'tree>(node: Node<'tree>, kinds: &[&str]) -> Option<Node<'tree>> {
    let mut node = node.parent()?;
    while !kinds.contains(&node.kind()) {
        node = node.parent()?;
    }
    Some(node)
}

fn members_of(class: Node<'_>) -> Vec<Node<'_>> {
    let body = class
        .child_by_field_name("body")
        .map(named_children)
        .unwrap_or_default();
    body.into_iter()
        .filter(|member| member.kind() == "field_declaration")
        .collect()
}

/// Whether a row is a constructor's last member initializer, or without any its head.
fn ends_initialization(constructor: Node<'_>, row: usize) -> bool {
    let children = named_children(constructor);
    let list = children
        .iter()
        .find(|child| child.kind() == "field_initializer_list");
    let last = list.and_then(|list| named_children(*list).last().copied());
    let end = last.or_else(|| constructor.child_by_field_name("declarator"));
    end.is_some_and(|end| (end.start_position().row..=end.end_position().row).contains(&row))
}

fn is_lambda(node: Node<'_>) -> bool {
    node.kind() == "lambda_expression"
}

/// Whether `node` stands in a field of its parent (which may hold several).
pub(super) fn is_field(parent: Node<'_>, node: Node<'_>, field: &str) -> bool {
    let mut cursor = parent.walk();
    parent
        .children_by_field_name(field, &mut cursor)
        .any(|child| child == node)
}

/// Pointers and references run no constructor; functions are told from objects only by where
/// they stand: `std::vector<int> x(n);` is a function's declaration to the grammar.
fn declares_no_object(declarator: Node<'_>) -> bool {
    let inner = match declarator.kind() {
        "init_declarator" => declarator.child_by_field_name("declarator"),
        _ => Some(declarator),
    };
    let Some(inner) = inner else { return true };
    match inner.kind() {
        "pointer_declarator" | "reference_declarator" => true,
        "function_declarator" => {
            let parameters = inner.child_by_field_name("parameters");
            // `Type name();` is always a function.
            parameters.is_none_or(|parameters| named_children(parameters).is_empty())
        }
        _ => false,
    }
}

fn is_extern(declaration: Node<'_>, text: &str) -> bool {
    named_children(declaration)
        .iter()
        .any(|child| child.kind() == "storage_class_specifier" && text_of(*child, text) == "extern")
}

/// A type's name and that of the class it usually is an alias of.
fn spellings(name: &str) -> Vec<String> {
    let alias_of = match name {
        "string" | "wstring" | "u16string" | "u32string" => Some("basic_string"),
        "ostringstream" => Some("basic_ostringstream"),
        "stringstream" => Some("basic_stringstream"),
        "ifstream" => Some("basic_ifstream"),
        "ofstream" => Some("basic_ofstream"),
        _ => None,
    };
    [Some(name), alias_of]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
}

fn is_allocating(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ALLOCATING_FUNCTIONS.contains(&name) || (lower.contains("alloc") && !lower.contains("dealloc"))
}

/// Whether a call is one of a container's growing methods.
pub(super) fn is_growing(call: Node<'_>, name: &str) -> bool {
    let function = call.child_by_field_name("function");
    function.is_some_and(|function| function.kind() == "field_expression")
        && GROWING_METHODS.contains(&name)
}
