//! What a file declares, as far as it tells how memory is kept.

use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use crate::allocator::Allocation;
use crate::allocator::Outlet;
use crate::allocator::Size;
use crate::container::is_value_list;
use crate::expression::arguments;
use crate::expression::last_name;
use crate::kind;
use crate::kind::Aliases;
use crate::kind::Expressions;
use crate::kind::Kind;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;
use crate::source::descendants;

/// What is known of names from the whole file.
pub(crate) struct Declared {
    /// Raw pointers wherever they are declared.
    pub(crate) pointers: HashSet<String>,
    /// What is declared as something else somewhere.
    pub(crate) others: HashSet<String>,
    /// Containers that keep elements in blocks of their own: row and type.
    pub(crate) scattered: Vec<(usize, String)>,
    /// Classes and other names of types.
    types: HashSet<String>,
    aliases: Aliases,
    variables: HashMap<String, Vec<Variable>>,
}

/// A variable or member of some name.
struct Variable {
    kind: Kind,
    /// Where it can be seen, from `start` on.
    scope: Range<usize>,
    start: usize,
    is_member: bool,
}

impl Declared {
    pub(crate) fn read(source: &Source) -> Self {
        let mut declared = Self {
            pointers: HashSet::new(),
            others: HashSet::new(),
            scattered: Vec::new(),
            types: HashSet::new(),
            aliases: HashMap::new(),
            variables: HashMap::new(),
        };
        for node in descendants(source.root()) {
            declared.add_type(source, node);
        }
        for node in descendants(source.root()) {
            declared.add_variables(source, node);
            declared.add_scattered_value(source, node);
        }
        let others = &declared.others;
        declared.pointers.retain(|name| !others.contains(name));
        declared
    }

    fn add_type(&mut self, source: &Source, node: Node<'_>) {
        let name = match node.kind() {
            "alias_declaration" | "class_specifier" | "struct_specifier" | "union_specifier"
            | "enum_specifier" => node.child_by_field_name("name"),
            "type_definition" => node.child_by_field_name("declarator"),
            "type_parameter_declaration" => node.named_child(0),
            _ => None,
        };
        let Some(name) = name.filter(|name| name.kind() == "type_identifier") else {
            return;
        };
        let name = source.text(name).to_owned();
        let kind = node.child_by_field_name("type");
        if let Some(kind) = kind.filter(|_| !node.kind().ends_with("specifier")) {
            let kind = kind::of_type(source, &self.aliases, kind);
            if kind != Kind::Unknown {
                self.aliases.insert(name.clone(), kind);
            }
        }
        self.types.insert(name);
    }

    fn add_variables(&mut self, source: &Source, node: Node<'_>) {
        let is_declaration = matches!(
            node.kind(),
            "declaration"
                | "field_declaration"
                | "parameter_declaration"
                | "optional_parameter_declaration"
                | "for_range_loop"
        );
        let Some(kind) = node.child_by_field_name("type").filter(|_| is_declaration) else {
            return;
        };
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            let inner = match declarator.kind() {
                "init_declarator" | "function_declarator" => {
                    declarator.child_by_field_name("declarator")
                }
                _ => Some(declarator),
            };
            let Some((name, inner)) =
                inner.and_then(|inner| Some((declared_name(source, inner)?, inner)))
            else {
                continue;
            };
            if inner.kind() == "pointer_declarator" {
                self.pointers.insert(name.to_owned());
            } else {
                self.others.insert(name.to_owned());
            }
            if declarator.kind() == "function_declarator"
                && !is_value_list(source, self, declarator)
            {
                continue;
            }
            let is_auto = kind.kind() == "placeholder_type_specifier";
            let variable = match is_auto {
                true => self.kind_of_value(source, node, declarator),
                false => declared_as(inner, kind::of_type(source, &self.aliases, kind)),
            };
            let is_object = matches!(inner.kind(), "identifier" | "field_identifier")
                && !is_auto
                && matches!(node.kind(), "declaration" | "field_declaration");
            if let Kind::Scattered(name, _) = &variable
                && is_object
            {
                let row = inner.start_position().row;
                self.scattered.push((row, name.clone()));
            }
            self.variables
                .entry(name.to_owned())
                .or_default()
                .push(Variable {
                    kind: variable,
                    scope: scope(source, node),
                    start: node.start_byte(),
                    is_member: node.kind() == "field_declaration",
                });
        }
    }

    /// `auto d = std::deque<int>(n);`, and `d = std::deque<int>(n);`
    fn add_scattered_value(&mut self, source: &Source, node: Node<'_>) {
        let is_made =
            node.kind() == "call_expression" && source.is_cpp() && !arguments(node).is_empty();
        let Some(function) = node.child_by_field_name("function").filter(|_| is_made) else {
            return;
        };
        // What is around it is asked for last: in deep expressions that takes long.
        if let Kind::Scattered(name, _) = kind::of_type(source, &self.aliases, function)
            && !is_initializer(node)
        {
            self.scattered.push((node.start_position().row, name));
        }
    }

    /// What `auto` stands for.
    fn kind_of_value(&self, source: &Source, declaration: Node<'_>, declarator: Node<'_>) -> Kind {
        if declaration.kind() == "for_range_loop" {
            let over = declaration.child_by_field_name("right");
            return over.map_or(Kind::Unknown, |over| self.kind(source, over).element());
        }
        let value = declarator
            .child_by_field_name("value")
            .filter(|_| declarator.kind() == "init_declarator");
        value.map_or(Kind::Unknown, |value| self.kind(source, value))
    }

    /// What an expression is.
    pub(crate) fn kind(&self, source: &Source, expression: Node<'_>) -> Kind {
        let named = |node: Node<'_>| self.kind_of_name(source, node);
        let expressions = Expressions {
            source,
            aliases: &self.aliases,
            named: &named,
        };
        expressions.kind(expression)
    }

    /// What a type is.
    pub(crate) fn kind_of_type(&self, source: &Source, of: Node<'_>) -> Kind {
        kind::of_type(source, &self.aliases, of)
    }

    /// Of a variable that of the innermost scope; of a member of another object what any class has of that name.
    fn kind_of_name(&self, source: &Source, node: Node<'_>) -> Kind {
        let name = last_name(source, node).unwrap_or_default();
        let all = self.variables.get(name).map(Vec::as_slice);
        let all = all.unwrap_or_default();
        let is_of_object = node.kind() == "field_expression";
        let seen = all
            .iter()
            .filter(|variable| !is_of_object && variable.is_seen_at(node.start_byte()));
        let nearest =
            seen.min_by_key(|variable| (variable.scope.len(), usize::MAX - variable.start));
        let members = || all.iter().filter(|variable| variable.is_member);
        let is_one_block = |variable: &&Variable| variable.kind.is_one_block();
        let variable = nearest
            .or_else(|| members().find(is_one_block))
            .or_else(|| members().next());
        variable.map_or(Kind::Unknown, |variable| variable.kind.clone())
    }

    /// Whether a name is a variable's at some place.
    pub(crate) fn is_variable(&self, name: &str, at: usize) -> bool {
        let all = self.variables.get(name);
        all.is_some_and(|all| all.iter().any(|variable| variable.is_seen_at(at)))
    }

    pub(crate) fn is_type(&self, name: &str) -> bool {
        self.types.contains(name)
    }

    /// What the container is that memory comes out in.
    pub(crate) fn kind_of_container(&self, source: &Source, allocation: &Allocation<'_>) -> Kind {
        match (allocation.outlet, &allocation.size) {
            (Outlet::Container(object, true), _) => self.kind(source, object).pointee(),
            (Outlet::Container(object, false), _) => self.kind(source, object),
            (_, Size::OfContainer) => self.kind(source, allocation.node),
            _ => Kind::Unknown,
        }
    }
}

impl Variable {
    /// Members may be declared behind what uses them.
    fn is_seen_at(&self, at: usize) -> bool {
        self.scope.contains(&at) && (self.is_member || self.start <= at)
    }
}

/// Why no call can tell where a container's memory is.
pub(crate) fn why_no_call(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Scattered(name, _) => Some(why_scattered(name)),
        Kind::Bits => Some(
            "vector<bool> does not tell where its bits are: use vector<char>, or leave it to pagewise apply"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The same of a container that keeps its elements in blocks of their own.
pub(crate) fn why_scattered(name: &str) -> String {
    format!(
        "{name} keeps its elements in blocks of their own, which no call can name or lock: recordings tell them by call \
         path, and pagewise apply does what a plan says of them"
    )
}

/// Whether a value initializes a variable whose type is told beside it.
fn is_initializer(value: Node<'_>) -> bool {
    let declaration = value
        .parent()
        .filter(|parent| parent.kind() == "init_declarator")
        .and_then(|declarator| declarator.parent());
    let kind = declaration.and_then(|declaration| declaration.child_by_field_name("type"));
    kind.is_some_and(|kind| kind.kind() != "placeholder_type_specifier")
}

/// Where what a node declares can be seen.
fn scope(source: &Source, declaration: Node<'_>) -> Range<usize> {
    let is_parameter = declaration.kind().contains("parameter");
    if declaration.kind() == "for_range_loop" {
        return declaration.byte_range();
    }
    let around = ancestors(declaration).find(|node| match node.kind() {
        "function_definition" | "lambda_expression" => true,
        // Of a function that is only declared.
        "declaration" | "field_declaration" => is_parameter,
        "compound_statement"
        | "for_statement"
        | "if_statement"
        | "while_statement"
        | "switch_statement"
        | "field_declaration_list"
        | "declaration_list" => !is_parameter,
        _ => false,
    });
    around.unwrap_or(source.root()).byte_range()
}

/// What a declarator makes of a type.
fn declared_as(declarator: Node<'_>, kind: Kind) -> Kind {
    let (mut node, mut kind) = (declarator, kind);
    while let Some(inner) = inner_declarator(node) {
        if matches!(node.kind(), "pointer_declarator" | "array_declarator") {
            kind = Kind::pointer_to(kind);
        }
        node = inner;
    }
    kind
}

/// The name that a declarator without an initializer declares.
fn declared_name<'text>(source: &'text Source, declarator: Node<'_>) -> Option<&'text str> {
    let mut node = declarator;
    while let Some(inner) = inner_declarator(node) {
        node = inner;
    }
    matches!(node.kind(), "identifier" | "field_identifier").then(|| source.text(node))
}

/// Those of references and in parentheses have no name for what they declare.
fn inner_declarator(declarator: Node<'_>) -> Option<Node<'_>> {
    let is_around = matches!(
        declarator.kind(),
        "reference_declarator" | "parenthesized_declarator" | "attributed_declarator"
    );
    let first = || children(declarator).first().copied();
    declarator
        .child_by_field_name("declarator")
        .or_else(|| first().filter(|_| is_around))
}
