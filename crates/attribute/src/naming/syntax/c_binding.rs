//! What memory is bound to in C and C++.

use super::c_family::{is_field, is_growing};
use super::c_returns::{escape_of, has_arithmetic_type};
use super::{Class, Escape, Finding, named_children, text_of};
use crate::c_syntax::last_name;
use tree_sitter::Node;

/// Reads what surrounds a construct.
pub(super) struct Binder<'text> {
    pub(super) cpp: bool,
    pub(super) text: &'text str,
}

impl Binder<'_> {
    /// What a candidate's memory is bound to.
    pub(super) fn bind(&self, node: Node<'_>, class: Class) -> Finding {
        let finding = match node.kind() {
            "call_expression" => self.call(node, class),
            "new_expression" | "compound_literal_expression" => self.value(node),
            "assignment_expression" => self.named(self.field(node, "left")),
            "subscript_expression" => self.named(self.field(node, "argument")),
            "binary_expression" => self.operator(node),
            "field_initializer" => self.named(self.initialized_member(node)),
            "return_statement" => returned(),
            _ => self.named(self.declarator_name(node)),
        };
        self.with_escape(node, finding)
    }

    /// What a call's argument names: the caller's side of an out parameter.
    pub(super) fn bind_argument(&self, call: Node<'_>, argument: usize) -> Finding {
        let name = arguments(call)
            .get(argument)
            .and_then(|&node| self.lvalue(node));
        self.with_escape(call, self.named(name))
    }

    fn named(&self, name: Option<String>) -> Finding {
        Finding { name, escape: None }
    }

    fn with_escape(&self, node: Node<'_>, finding: Finding) -> Finding {
        let escape = finding
            .escape
            .or_else(|| escape_of(node, finding.name.as_deref()?, self.text));
        Finding { escape, ..finding }
    }

    fn call(&self, call: Node<'_>, class: Class) -> Finding {
        let function = call.child_by_field_name("function");
        let name = function
            .and_then(|function| last_name(function, self.text))
            .unwrap_or("");
        if let Some(target) = self.known_out_argument(call, name) {
            return self.named(Some(target));
        }
        if class == Class::Growth
            && let Some(receiver) = function.and_then(|function| self.receiver(function))
        {
            return self.named(Some(receiver));
        }
        let bound = self.value(call);
        let by_argument = || self.written_argument(call, name, class);
        match &bound.name {
            // `rc = make_buffer(&b)`: a number holds no memory, unless an address was put there.
            Some(name) if has_arithmetic_type(call, name, self.text) => match by_argument() {
                None if class == Class::Allocation => bound,
                target => self.named(target),
            },
            Some(name) if is_status(name) => {
                by_argument().map_or(bound, |target| self.named(Some(target)))
            }
            Some(_) => bound,
            None if bound.escape.is_some() => bound,
            None => self.named(
                by_argument().or_else(|| function.and_then(|function| self.receiver(function))),
            ),
        }
    }

    /// The object a method is called on.
    fn receiver(&self, function: Node<'_>) -> Option<String> {
        if function.kind() != "field_expression" {
            return None;
        }
        self.field(function, "argument")
    }

    /// Functions known to hand memory back by an argument.
    fn known_out_argument(&self, call: Node<'_>, name: &str) -> Option<String> {
        let arguments = arguments(call);
        let inserter = arguments.iter().find_map(|&argument| {
            let function = argument.child_by_field_name("function")?;
            let inserts = matches!(
                last_name(function, self.text)?,
                "back_inserter" | "front_inserter" | "inserter"
            );
            inserts.then(|| self::arguments(argument).first().copied())?
        });
        let target = match name {
            "posix_memalign" | "getdelim" | "asprintf" | "vasprintf" | "open_memstream" => {
                arguments.first().copied()
            }
            // The C function takes the line first, the C++ one the stream.
            "getline" => match arguments.first() {
                Some(first) if self.is_address(*first) => Some(*first),
                _ => arguments.get(1).copied(),
            },
            _ => inserter,
        };
        self.lvalue(target?)
    }

    /// The argument a call may write fresh memory to: the first whose address is taken; for
    /// allocators and macros (in capitals) the first that is a variable.
    fn written_argument(&self, call: Node<'_>, name: &str, class: Class) -> Option<String> {
        if name.contains("printf") || name.contains("scanf") {
            return None;
        }
        let arguments = arguments(call);
        if let Some(&argument) = arguments
            .iter()
            .find(|argument| self.is_address(**argument))
        {
            return self.lvalue(argument);
        }
        let is_macro = name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let is_statement = call
            .parent()
            .is_some_and(|p| p.kind() == "expression_statement");
        if !is_statement || (class != Class::Allocation && !is_macro) {
            return None;
        }
        arguments.iter().find_map(|&argument| self.lvalue(argument))
    }

    fn is_address(&self, node: Node<'_>) -> bool {
        match node.kind() {
            "pointer_expression" => text_of(node, self.text).starts_with('&'),
            "cast_expression" => node
                .child_by_field_name("value")
                .is_some_and(|value| self.is_address(value)),
            "parenthesized_expression" => node
                .named_child(0)
                .is_some_and(|inner| self.is_address(inner)),
            "call_expression" => self
                .cast_operand(node)
                .is_some_and(|operand| self.is_address(operand)),
            _ => false,
        }
    }

    fn operator(&self, node: Node<'_>) -> Finding {
        let operator = node
            .child_by_field_name("operator")
            .map(|op| text_of(op, self.text));
        match operator {
            Some("<<") => {
                let mut stream = node;
                while let Some(left) = stream.child_by_field_name("left") {
                    stream = left;
                }
                self.named(self.lvalue(stream))
            }
            Some(">>") => self.named(self.field(node, "right")),
            _ => self.value(node),
        }
    }

    /// What an expression's value is bound to.
    fn value(&self, expression: Node<'_>) -> Finding {
        let mut node = expression;
        // Members of an aggregate the value initializes, innermost first.
        let mut members = String::new();
        while let Some(parent) = node.parent() {
            let finding = |name: Option<String>| Finding {
                name: name.map(|name| name + &members),
                escape: None,
            };
            match parent.kind() {
                "init_declarator" | "declaration" | "optional_parameter_declaration"
                    if is_field(parent, node, "value") =>
                {
                    return finding(self.declared(parent));
                }
                "field_declaration" => return finding(self.declared(parent)),
                "assignment_expression" if is_field(parent, node, "right") => {
                    return finding(self.field(parent, "left"));
                }
                "return_statement" | "co_return_statement" => return returned(),
                "field_initializer" => return finding(self.initialized_member(parent)),
                "initializer_pair" => {
                    members.insert_str(0, &self.designated(parent));
                }
                "argument_list" => match self.argument_use(parent) {
                    ArgumentUse::Bound(name) => return finding(Some(name)),
                    ArgumentUse::Declared(name) => return finding(name),
                    ArgumentUse::Passed => {}
                },
                "call_expression"
                | "new_expression"
                | "parenthesized_expression"
                | "cast_expression"
                | "initializer_list"
                | "conditional_expression"
                | "compound_literal_expression"
                | "comma_expression"
                | "field_expression"
                | "co_await_expression"
                | "generic_expression" => {
                    if is_field(parent, node, "condition") {
                        return Finding::default();
                    }
                }
                // `(char *)malloc(n) + offset`, `a + b` of strings.
                "binary_expression" if self.is_sum(parent) => {}
                _ => return Finding::default(),
            }
            node = parent;
        }
        Finding::default()
    }

    fn is_sum(&self, node: Node<'_>) -> bool {
        node.child_by_field_name("operator")
            .is_some_and(|op| text_of(op, self.text) == "+")
    }

    /// What becomes of a value given as an argument.
    fn argument_use(&self, list: Node<'_>) -> ArgumentUse {
        let Some(user) = list.parent() else {
            return ArgumentUse::Passed;
        };
        match user.kind() {
            // `std::unique_ptr<T[]> p(new T[n])`.
            "init_declarator" => ArgumentUse::Declared(self.declared(user)),
            "call_expression" => {
                let Some(function) = user.child_by_field_name("function") else {
                    return ArgumentUse::Passed;
                };
                let Some(receiver) = self.receiver(function) else {
                    return ArgumentUse::Passed;
                };
                let name = last_name(function, self.text).unwrap_or("");
                // An element given to a container is not the container's own memory.
                if is_growing(user, name) {
                    return ArgumentUse::Bound(receiver + "[]");
                }
                // `p.reset(new T)`, unless the result goes elsewhere.
                match self.value(user) {
                    Finding {
                        name: None,
                        escape: None,
                    } => ArgumentUse::Bound(receiver),
                    _ => ArgumentUse::Passed,
                }
            }
            _ => ArgumentUse::Passed,
        }
    }

    /// `.field` and `[]` of a designated initializer.
    fn designated(&self, pair: Node<'_>) -> String {
        let mut cursor = pair.walk();
        pair.children_by_field_name("designator", &mut cursor)
            .map(|designator| match designator.kind() {
                "field_designator" => text_of(designator, self.text).to_owned(),
                "field_identifier" => format!(".{}", text_of(designator, self.text)),
                _ => "[]".to_owned(),
            })
            .collect()
    }

    fn initialized_member(&self, initializer: Node<'_>) -> Option<String> {
        let member = initializer.named_child(0)?;
        last_name(member, self.text).map(str::to_owned)
    }

    fn declared(&self, declaration: Node<'_>) -> Option<String> {
        self.declarator_name(declaration.child_by_field_name("declarator")?)
    }

    /// The name a declarator declares; of a structured binding all of them.
    fn declarator_name(&self, declarator: Node<'_>) -> Option<String> {
        declared_name(declarator, self.text)
    }

    fn field(&self, node: Node<'_>, field: &str) -> Option<String> {
        self.lvalue(node.child_by_field_name(field)?)
    }

    /// The operand of a C++ cast written like a call.
    fn cast_operand<'tree>(&self, call: Node<'tree>) -> Option<Node<'tree>> {
        let function = call.child_by_field_name("function")?;
        let is_cast = self.cpp && last_name(function, self.text)?.ends_with("_cast");
        is_cast.then(|| arguments(call).first().copied())?
    }

    /// The name of what an expression designates; indices are left out: `s->rows[]`.
    fn lvalue(&self, node: Node<'_>) -> Option<String> {
        match node.kind() {
            "identifier" | "field_identifier" => Some(text_of(node, self.text).to_owned()),
            "qualified_identifier" => {
                Some(text_of(node, self.text).trim_start_matches("::").to_owned())
            }
            "field_expression" => self.member(node),
            "subscript_expression" => Some(self.field(node, "argument")? + "[]"),
            "pointer_expression" => self.pointer(node),
            "parenthesized_expression" => {
                let inner = self.lvalue(node.named_child(0)?)?;
                Some(if inner.starts_with('*') {
                    format!("({inner})")
                } else {
                    inner
                })
            }
            "cast_expression" => self.field(node, "value"),
            "update_expression" => self.field(node, "argument"),
            "assignment_expression" => self.field(node, "left"),
            "call_expression" => match self.cast_operand(node) {
                Some(operand) => self.lvalue(operand),
                None => Some(self.field(node, "function")? + "()"),
            },
            _ => None,
        }
    }

    fn member(&self, node: Node<'_>) -> Option<String> {
        let field = node.child_by_field_name("field")?;
        let field = last_name(field, self.text)?;
        let object = node.child_by_field_name("argument")?;
        // A member is the same with and without `this->`.
        if object.kind() == "this" || text_of(object, self.text) == "(*this)" {
            return Some(field.to_owned());
        }
        let operator = node
            .child_by_field_name("operator")
            .map_or(".", |op| text_of(op, self.text));
        Some(format!("{}{operator}{field}", self.lvalue(object)?))
    }

    fn pointer(&self, node: Node<'_>) -> Option<String> {
        let operand = node.child_by_field_name("argument")?;
        if text_of(node, self.text).starts_with('&') {
            return self.lvalue(operand);
        }
        // `*(rows + i)` is `rows[i]`.
        let inner = match operand.kind() {
            "parenthesized_expression" => operand.named_child(0)?,
            _ => operand,
        };
        if inner.kind() == "binary_expression" {
            return Some(self.field(inner, "left")? + "[]");
        }
        Some(format!("*{}", self.lvalue(inner)?))
    }
}

/// What becomes of a value given as an argument.
enum ArgumentUse {
    /// It belongs to this.
    Bound(String),
    /// It constructs what a declaration names.
    Declared(Option<String>),
    /// It goes into a function, whose result may hold it.
    Passed,
}

fn returned() -> Finding {
    Finding {
        name: None,
        escape: Some(Escape::Returned),
    }
}

/// The arguments of a call.
fn arguments(call: Node<'_>) -> Vec<Node<'_>> {
    call.child_by_field_name("arguments")
        .map(named_children)
        .unwrap_or_default()
}

/// Names by which programs call a function's success.
fn is_status(name: &str) -> bool {
    matches!(
        name,
        "rc" | "ret" | "err" | "error" | "status" | "ok" | "res"
    )
}

/// The name a declarator declares; of a structured binding all names, joined with `|`.
pub(super) fn declared_name(declarator: Node<'_>, text: &str) -> Option<String> {
    let mut node = declarator;
    loop {
        match node.kind() {
            "identifier" | "field_identifier" | "qualified_identifier" | "type_identifier" => {
                return Some(text_of(node, text).to_owned());
            }
            "structured_binding_declarator" => {
                let names: Vec<_> = named_children(node)
                    .into_iter()
                    .map(|name| text_of(name, text))
                    .collect();
                return Some(names.join("|"));
            }
            _ => {}
        }
        // References and parentheses hold their declarator without a field name.
        node = node
            .child_by_field_name("declarator")
            .or_else(|| node.named_child(0))?;
    }
}
