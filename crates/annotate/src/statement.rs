//! The statement that an allocation is part of, and whether a call may follow it.

use tree_sitter::Node;

use crate::expression::last_name;
use crate::pragma::governed;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;

/// What a call can follow.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'tree> {
    pub(crate) node: Node<'tree>,
    /// It is the whole body of an `if` or a loop: it and the call need braces.
    pub(crate) needs_braces: bool,
}

/// Functions that do not return.
const ENDS: &[&str] = &[
    "exit",
    "_exit",
    "_Exit",
    "abort",
    "quick_exit",
    "err",
    "errx",
    "die",
    "longjmp",
    "terminate",
];

pub(crate) const LARGER: &str = "it is part of a larger expression: keep it in a variable first";
pub(crate) const OUTSIDE: &str =
    "it is outside of any function: place the call where the program starts";

impl<'tree> Statement<'tree> {
    /// The statement around an assignment, a declarator or a call, or why no call may follow it.
    pub(crate) fn around(source: &Source, node: Node<'tree>) -> Result<Self, String> {
        let statement = enclosing(source, node)?;
        if !is_understood(statement) {
            return Err(
                "the parser does not understand what is around it: place the call by hand"
                    .to_owned(),
            );
        }
        if let Some(why) = why_not_called(source, statement).or_else(|| governed(source, statement))
        {
            return Err(why);
        }
        let needs_braces = needs_braces(source, statement)?;
        Ok(Self {
            node: statement,
            needs_braces,
        })
    }
}

/// In C++ what may be computed by the compiler must not call what only the program can.
fn why_not_called(source: &Source, statement: Node<'_>) -> Option<String> {
    let says = |node: Node<'_>, word: &str| {
        let declarator = node.child_by_field_name("declarator");
        let of_lambda = declarator.filter(|_| node.kind() == "lambda_expression");
        let all = [Some(node), of_lambda].into_iter().flatten();
        all.flat_map(children)
            .any(|child| child.kind() == "type_qualifier" && source.text(child) == word)
    };
    let is_around = |node: &Node<'_>| {
        matches!(
            node.kind(),
            "function_definition" | "lambda_expression" | "declaration" | "field_declaration"
        )
    };
    ancestors(statement)
        .filter(is_around)
        .find_map(|node| {
            ["constexpr", "consteval"]
                .into_iter()
                .find(|word| says(node, word))
        })
        .map(|word| {
            format!(
                "it is in a {word} function, which the compiler must be able to run: place the call by hand in a \
                 function that is called at run time"
            )
        })
}

/// Climbs through what evaluates the node exactly once, whatever happens.
fn enclosing<'tree>(source: &Source, node: Node<'tree>) -> Result<Node<'tree>, String> {
    let mut node = node;
    let mut is_tested = false;
    // Of a pointer truth is memory; a function that does not return it returns an error.
    let mut truth = Some(match node.kind() {
        "call_expression" => Truth::NoMemory,
        _ => Truth::Memory,
    });
    loop {
        if matches!(node.kind(), "expression_statement" | "declaration") {
            return match is_tested {
                true => Err(LARGER.to_owned()),
                false => once_an_entry(source, node),
            };
        }
        let parent = node.parent().ok_or(OUTSIDE)?;
        match parent.kind() {
            "parenthesized_expression"
            | "cast_expression"
            | "comma_expression"
            | "expression_statement"
            | "declaration"
            | "init_declarator"
            | "condition_clause" => {}
            "assignment_expression" if parent.child_by_field_name("right") == Some(node) => {}
            "unary_expression" | "binary_expression" => {
                is_tested = true;
                match operator(source, parent) {
                    "!" => truth = truth.map(Truth::other),
                    "==" | "!=" | "<" | ">" | "<=" | ">=" => {
                        truth = truth.and_then(|truth| compared(source, parent, node, truth));
                    }
                    "&&" | "||" => {
                        return Err("it is one of several conditions: divide them".to_owned());
                    }
                    _ if parent.kind() == "unary_expression" => truth = None,
                    _ => return Err(LARGER.to_owned()),
                }
            }
            "if_statement" => return guarded(source, parent, node, truth),
            kind => return Err(why_not_in(source, parent, kind)),
        }
        node = parent;
    }
}

/// What it means that a condition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    Memory,
    NoMemory,
}

impl Truth {
    fn other(self) -> Self {
        match self {
            Self::Memory => Self::NoMemory,
            Self::NoMemory => Self::Memory,
        }
    }
}

fn operator<'text>(source: &'text Source, expression: Node<'_>) -> &'text str {
    let operator = expression.child_by_field_name("operator");
    operator.map_or("", |operator| source.text(operator))
}

/// What it means that a comparison of a tested value holds; `None`: that is not understood.
fn compared(source: &Source, comparison: Node<'_>, value: Node<'_>, truth: Truth) -> Option<Truth> {
    let is_equal = match operator(source, comparison) {
        "==" => true,
        "!=" => false,
        _ => return None,
    };
    let sides = ["left", "right"].map(|side| comparison.child_by_field_name(side));
    let with = sides.into_iter().flatten().find(|side| *side != value)?;
    let text: String = source.text(with).split_whitespace().collect();
    let when_equal = match text.trim_matches(['(', ')']) {
        "NULL" | "nullptr" | "0" | "void*)0" => truth.other(),
        // Of `mmap`.
        "MAP_FAILED" | "void*)-1" => Truth::NoMemory,
        _ => return None,
    };
    Some(if is_equal {
        when_equal
    } else {
        when_equal.other()
    })
}

/// In C++ a static variable of a function is made once, but what follows it would be called with each entry.
fn once_an_entry<'tree>(source: &Source, statement: Node<'tree>) -> Result<Node<'tree>, String> {
    let is_static = |node: &Node<'_>| {
        node.kind() == "storage_class_specifier"
            && matches!(source.text(*node), "static" | "thread_local")
    };
    let in_function = ancestors(statement).any(|around| around.kind() == "compound_statement");
    let is_declaration = in_function && statement.kind() == "declaration";
    match is_declaration && children(statement).iter().any(is_static) {
        true => Err("it is static, and made once only: place the call by hand".to_owned()),
        false => Ok(statement),
    }
}

fn why_not_in(source: &Source, parent: Node<'_>, kind: &str) -> String {
    match kind {
        "while_statement" | "do_statement" | "switch_statement" => {
            "it is in the condition of a loop or switch: place the call by hand".to_owned()
        }
        "for_statement" | "for_range_loop" | "init_statement" => {
            "it is in the head of a for or if: place the call by hand".to_owned()
        }
        "argument_list" => {
            let function = parent
                .parent()
                .and_then(|call| call.child_by_field_name("function"));
            let name = function.and_then(|function| last_name(source, function));
            format!(
                "it is in the arguments of {}, perhaps a macro: place the call by hand",
                name.unwrap_or("a call")
            )
        }
        "return_statement" => {
            "it is in a return expression: keep it in a variable first".to_owned()
        }
        "field_initializer" | "field_initializer_list" => {
            "it is in a constructor's initializer list: place the call in its body".to_owned()
        }
        "field_declaration" => {
            "it is a member's default value: place the call in the constructor".to_owned()
        }
        "conditional_expression" => "it is one branch of ?: - use if and else".to_owned(),
        _ => LARGER.to_owned(),
    }
}

/// `if ((p = malloc(n)) == NULL) return;`: behind the `if`, there is memory.
fn guarded<'tree>(
    source: &Source,
    statement: Node<'tree>,
    condition: Node<'tree>,
    truth: Option<Truth>,
) -> Result<Node<'tree>, String> {
    const BY_HAND: &str = "it is in a condition: place the call by hand";
    let is_condition = statement.child_by_field_name("condition") == Some(condition);
    let has_else = statement.child_by_field_name("alternative").is_some();
    // `if (T *p = new T)`: p ends with the if.
    let declares = crate::source::descendants(condition).any(|node| node.kind() == "declaration");
    let body = statement.child_by_field_name("consequence");
    match body {
        Some(body) if is_condition && !has_else && !declares && leaves(source, body) => {
            match truth {
                Some(Truth::NoMemory) => Ok(statement),
                // Behind the `if` there is none.
                _ => Err(BY_HAND.to_owned()),
            }
        }
        _ => Err(BY_HAND.to_owned()),
    }
}

/// Whether a statement never goes on behind itself.
fn leaves(source: &Source, statement: Node<'_>) -> bool {
    match statement.kind() {
        "return_statement" | "goto_statement" | "break_statement" | "continue_statement"
        | "throw_statement" => true,
        "compound_statement" => children(statement)
            .last()
            .is_some_and(|last| leaves(source, *last)),
        "expression_statement" => {
            let call = statement.named_child(0);
            let function = call
                .filter(|call| call.kind() == "call_expression")
                .and_then(|call| call.child_by_field_name("function"));
            let name = function.and_then(|function| last_name(source, function));
            name.is_some_and(|name| ENDS.contains(&name))
                || call.is_some_and(|call| call.kind() == "throw_statement")
        }
        _ => false,
    }
}

/// Whether neither the statement nor its neighbours nor what they are in are in error.
fn is_understood(statement: Node<'_>) -> bool {
    let neighbours = [
        statement.prev_named_sibling(),
        statement.next_named_sibling(),
    ];
    !statement.has_error()
        && !neighbours
            .into_iter()
            .flatten()
            .any(|node| node.is_error() || has_missing_end(node))
        && is_in_sound_function(statement)
}

/// What is wrong elsewhere in the file does no harm to a function that was understood.
fn is_in_sound_function(statement: Node<'_>) -> bool {
    for node in ancestors(statement) {
        if node.is_error() || node.kind() == "function_definition" {
            return !node.is_error();
        }
    }
    true
}

/// `FOREACH(i) p = malloc(n);`: the parser supposes a semicolon.
fn has_missing_end(node: Node<'_>) -> bool {
    let last = node.child_count().checked_sub(1);
    let last = last.and_then(|last| node.child(last as _));
    node.is_missing() || last.is_some_and(|last| last.is_missing())
}

/// Whether braces are needed, or why a call may not stand there.
fn needs_braces(source: &Source, statement: Node<'_>) -> Result<bool, String> {
    let mut parent = statement.parent().ok_or(OUTSIDE)?;
    let is_under_directive = parent.kind().starts_with("preproc_");
    while parent.kind().starts_with("preproc_") {
        parent = parent.parent().ok_or(OUTSIDE)?;
    }
    match parent.kind() {
        "compound_statement" => {
            let is_value = parent
                .parent()
                .is_some_and(|around| around.kind() == "parenthesized_expression");
            match is_value {
                true => Err("it is in a statement expression: place the call by hand".to_owned()),
                false => Ok(false),
            }
        }
        "case_statement" => Ok(false),
        "if_statement" | "else_clause" | "for_statement" | "for_range_loop" | "while_statement"
        | "do_statement" | "labeled_statement" | "switch_statement" => {
            if statement.kind() == "declaration" || is_under_directive {
                Err("it is in the head of a statement: place the call by hand".to_owned())
            } else {
                Ok(true)
            }
        }
        // `[[likely]] { ... }` means the same; of others nobody knows.
        "attributed_statement" => {
            let attributes: String = children(parent)
                .iter()
                .filter(|child| child.kind() == "attribute_declaration")
                .map(|child| source.text(*child))
                .collect();
            match matches!(&*attributes, "[[likely]]" | "[[unlikely]]") {
                true if statement.kind() != "declaration" => Ok(true),
                _ => Err(format!(
                    "{attributes} is about this statement only: put braces around the statement, and annotate again"
                )),
            }
        }
        "condition_clause" | "init_statement" => {
            Err("it is in a condition: place the call by hand".to_owned())
        }
        _ => Err(OUTSIDE.to_owned()),
    }
}
