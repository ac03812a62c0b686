//! What memory is bound to in Rust.

use super::rust::{callee_name, is_growing, is_method};
use super::{Class, Escape, Finding, named_children, text_of, visit};
use tree_sitter::Node;

/// Reads what surrounds a construct.
pub(super) struct Binder<'text> {
    pub(super) text: &'text str,
}

impl Binder<'_> {
    /// What a candidate's memory is bound to.
    pub(super) fn bind(&self, node: Node<'_>, class: Class) -> Finding {
        let finding = match (node.kind(), class) {
            ("compound_assignment_expr", _) => self.named(self.field(node, "left")),
            ("call_expression", Class::Growth) => self.named(self.receiver(node)),
            ("macro_invocation", Class::Growth) => self.named(self.written(node)),
            ("call_expression", _) => self.call(node),
            _ => self.value(node),
        };
        self.with_escape(node, finding)
    }

    /// What a call's argument names.
    pub(super) fn bind_argument(&self, call: Node<'_>, argument: usize) -> Finding {
        let name = arguments(call)
            .get(argument)
            .and_then(|&node| self.place(node));
        self.with_escape(call, self.named(name))
    }

    fn named(&self, name: Option<String>) -> Finding {
        Finding { name, escape: None }
    }

    fn with_escape(&self, node: Node<'_>, finding: Finding) -> Finding {
        let is_returned = || {
            finding
                .name
                .as_deref()
                .is_some_and(|name| self.returns(node, name))
        };
        let escape = finding
            .escape
            .or_else(|| is_returned().then_some(Escape::Returned));
        Finding { escape, ..finding }
    }

    fn call(&self, call: Node<'_>) -> Finding {
        // `file.read_to_end(&mut buffer)?` fills what it is lent.
        let lent = arguments(call).into_iter().find(|argument| {
            argument.kind() == "reference_expression"
                && named_children(*argument)
                    .iter()
                    .any(|c| c.kind() == "mutable_specifier")
        });
        let reads = call
            .child_by_field_name("function")
            .and_then(|function| callee_name(function, self.text))
            .is_some_and(|name| name.starts_with("read_") || name.starts_with("encode_"));
        let bound = self.value(call);
        let nowhere = bound.name.is_none() && bound.escape.is_none();
        match lent
            .filter(|_| reads || nowhere)
            .and_then(|argument| self.place(argument))
        {
            Some(name) => self.named(Some(name)),
            None if nowhere => self.named(self.receiver(call)),
            None => bound,
        }
    }

    /// The object a method is called on.
    fn receiver(&self, call: Node<'_>) -> Option<String> {
        let mut function = call.child_by_field_name("function")?;
        if function.kind() == "generic_function" {
            function = function.child_by_field_name("function")?;
        }
        is_method(function).then(|| self.field(function, "value"))?
    }

    /// The first argument of `write!`: macros' arguments are not parsed.
    fn written(&self, invocation: Node<'_>) -> Option<String> {
        let mut cursor = invocation.walk();
        let tokens = invocation
            .children(&mut cursor)
            .find(|c| c.kind() == "token_tree")?;
        let inner = text_of(tokens, self.text).trim_start_matches(['(', '[', '{']);
        let first = inner.split(',').next()?.trim().trim_start_matches('&');
        let first = first.trim_start_matches("mut ").trim_start_matches("self.");
        let is_place = first
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        (is_place && !first.is_empty()).then(|| first.to_owned())
    }

    /// What an expression's value is bound to.
    fn value(&self, expression: Node<'_>) -> Finding {
        let mut node = expression;
        let mut escape = None;
        // Position in a tuple that a pattern may take apart.
        let mut position = None;
        while let Some(parent) = node.parent() {
            let is = |field| parent.child_by_field_name(field) == Some(node);
            let found = |name: Option<String>| Finding { name, escape };
            match parent.kind() {
                "let_declaration" | "let_condition" if is("value") => {
                    let pattern = parent.child_by_field_name("pattern");
                    return found(pattern.and_then(|p| pattern_name(p, position, self.text)));
                }
                "static_item" | "const_item" if is("value") => {
                    let name = parent.child_by_field_name("name");
                    return found(name.map(|name| text_of(name, self.text).to_owned()));
                }
                "assignment_expression" if is("right") => {
                    return found(self.field(parent, "left"));
                }
                "field_initializer" => {
                    let name = parent.child_by_field_name("field");
                    return found(name.map(|name| text_of(name, self.text).to_owned()));
                }
                "return_expression" | "break_expression" => return returned(),
                // A function's or closure's result.
                "function_item" => return returned(),
                "closure_expression" => escape = Some(Escape::Returned),
                "block" if !is_last(parent, node) => return found(None),
                "expression_statement" if ends_with_semicolon(parent, self.text) => {
                    return found(None);
                }
                "arguments" => {
                    if let Some(name) = self.element_of(parent) {
                        return found(Some(name));
                    }
                }
                "tuple_expression" => {
                    position = named_children(parent)
                        .iter()
                        .position(|child| *child == node);
                }
                "if_expression" | "match_expression" | "while_expression"
                    if is("condition") || is("value") =>
                {
                    return found(None);
                }
                "for_expression" => return found(None),
                "binary_expression" if self.operator_of(parent) != Some("+") => {
                    return found(None);
                }
                "match_arm" if is("pattern") => return found(None),
                "index_expression" => return found(None),
                "source_file" | "declaration_list" => return found(None),
                _ => {}
            }
            node = parent;
        }
        Finding { name: None, escape }
    }

    fn operator_of(&self, node: Node<'_>) -> Option<&str> {
        node.child_by_field_name("operator")
            .map(|operator| text_of(operator, self.text))
    }

    /// The elements of a collection that is given a fresh value.
    fn element_of(&self, arguments: Node<'_>) -> Option<String> {
        let call = arguments.parent()?;
        let function = call.child_by_field_name("function")?;
        is_growing(function, self.text).then(|| Some(self.receiver(call)? + "[]"))?
    }

    fn field(&self, node: Node<'_>, field: &str) -> Option<String> {
        self.place(node.child_by_field_name(field)?)
    }

    /// The name of a place; indices, borrows and accessors (`lock().unwrap()`) are left out.
    fn place(&self, node: Node<'_>) -> Option<String> {
        match node.kind() {
            "identifier" | "self" => Some(text_of(node, self.text).to_owned()),
            "scoped_identifier" => Some(text_of(node, self.text).to_owned()),
            "field_expression" => {
                let object = self.field(node, "value")?;
                let field = text_of(node.child_by_field_name("field")?, self.text);
                // A member is the same in methods and in literals.
                Some(if object == "self" {
                    field.to_owned()
                } else {
                    format!("{object}.{field}")
                })
            }
            "index_expression" => Some(self.place(node.named_child(0)?)? + "[]"),
            "reference_expression" => self.field(node, "value"),
            "unary_expression" => self.place(node.named_child(0)?),
            "try_expression"
            | "await_expression"
            | "parenthesized_expression"
            | "type_cast_expression" => self.place(node.named_child(0)?),
            "call_expression" => match self.receiver(node) {
                Some(receiver) => Some(receiver),
                None => {
                    let name = callee_name(node.child_by_field_name("function")?, self.text)?;
                    Some(format!("{name}()"))
                }
            },
            _ => None,
        }
    }

    /// Whether the function around `node` ends with, or returns, its local variable `name`.
    fn returns(&self, node: Node<'_>, name: &str) -> bool {
        let mut function = node;
        while !matches!(function.kind(), "function_item" | "closure_expression") {
            let Some(parent) = function.parent() else {
                return false;
            };
            function = parent;
        }
        let Some(body) = function.child_by_field_name("body") else {
            return false;
        };
        let mut is_local = false;
        let mut is_returned = named_children(body)
            .last()
            .is_some_and(|&tail| body.kind() == "block" && yields(tail, name, self.text));
        visit(body, &mut |inner| {
            match inner.kind() {
                "let_declaration" => {
                    let pattern = inner.child_by_field_name("pattern");
                    let declared = pattern.and_then(|p| pattern_name(p, None, self.text));
                    is_local |= declared.as_deref() == Some(name);
                }
                "return_expression" => {
                    is_returned |= inner
                        .named_child(0)
                        .is_some_and(|v| yields(v, name, self.text));
                }
                _ => {}
            }
            !matches!(inner.kind(), "function_item" | "closure_expression")
        });
        is_local && is_returned
    }
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

fn is_last(block: Node<'_>, node: Node<'_>) -> bool {
    named_children(block).last() == Some(&node)
}

fn ends_with_semicolon(statement: Node<'_>, text: &str) -> bool {
    text_of(statement, text).ends_with(';')
}

/// Whether an expression's value is the variable itself, perhaps wrapped in `Ok` or `Some`.
fn yields(value: Node<'_>, name: &str, text: &str) -> bool {
    match value.kind() {
        "identifier" => text_of(value, text) == name,
        "parenthesized_expression" => value
            .named_child(0)
            .is_some_and(|inner| yields(inner, name, text)),
        "call_expression" => {
            let function = value
                .child_by_field_name("function")
                .map(|f| text_of(f, text));
            matches!(
                function,
                Some("Ok" | "Some" | "Box::new" | "Arc::new" | "Rc::new")
            ) && arguments(value)
                .first()
                .is_some_and(|&inner| yields(inner, name, text))
        }
        _ => false,
    }
}

/// The variables a pattern binds, joined with `|`; of a tuple pattern only that at `position`.
fn pattern_name(pattern: Node<'_>, position: Option<usize>, text: &str) -> Option<String> {
    if pattern.kind() == "tuple_pattern"
        && let Some(position) = position
        && let Some(&element) = named_children(pattern).get(position)
    {
        return pattern_name(element, None, text);
    }
    let mut names = Vec::new();
    visit(pattern, &mut |node| {
        match node.kind() {
            "identifier" | "shorthand_field_identifier" => {
                names.push(text_of(node, text).to_owned());
                false
            }
            // `Some(x)`: the variant is no variable.
            "tuple_struct_pattern" | "struct_pattern" => {
                let inner = named_children(node).into_iter().skip(1);
                names.extend(inner.filter_map(|inner| pattern_name(inner, None, text)));
                false
            }
            _ => true,
        }
    });
    (!names.is_empty()).then(|| names.join("|"))
}
