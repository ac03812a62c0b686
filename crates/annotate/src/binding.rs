//! Where an allocation's memory is kept, and by which statement.

use tree_sitter::Node;

use crate::allocator::Allocation;
use crate::allocator::Outlet;
use crate::allocator::Size;
use crate::allocator::is_guessed;
use crate::declared::Declared;
use crate::declared::why_no_call;
use crate::expression::arguments;
use crate::expression::cast_to;
use crate::expression::changed_in;
use crate::expression::last_name;
use crate::expression::name_of;
use crate::expression::on_one_line;
use crate::expression::variables;
use crate::expression::why_not_again;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::children;
use crate::statement::LARGER;
use crate::statement::OUTSIDE;
use crate::statement::Statement;

/// An allocation whose memory can be told again behind its statement.
pub(crate) struct Binding<'tree> {
    /// The pointer, as the inserted call is given it.
    pub(crate) pointer: String,
    /// Its size in bytes, likewise, or why it is not known.
    pub(crate) bytes: Result<String, String>,
    /// What people call it.
    pub(crate) name: String,
    /// What the call follows.
    pub(crate) statement: Statement<'tree>,
}

/// Where the memory is kept, or why a call cannot follow.
pub(crate) fn bind<'tree>(
    source: &Source,
    declared: &Declared,
    allocation: &Allocation<'tree>,
) -> Result<Binding<'tree>, String> {
    if let Some(why) = why_no_call(&declared.kind_of_container(source, allocation)) {
        return Err(why);
    }
    let (target, from, kept_as) = target(source, declared, allocation)?;
    require_understood(source, from)?;
    if let Some(why) = why_not_again(source, target) {
        return Err(format!(
            "what it is assigned to {why}: keep it in a variable first"
        ));
    }
    if !source.is_cpp()
        && is_guessed(&allocation.by)
        && matches!(allocation.outlet, Outlet::Value)
        && !is_kept_as_pointer(source, declared, allocation.node, (target, from))
    {
        return Err(format!(
            "{} may return something else than memory: declare what it is kept in as a pointer, or cast it to one",
            allocation.by
        ));
    }
    if allocation.by.starts_with("operator") && allocation.node.has_error() {
        return Err(format!(
            "the parser understands it as ::{} only: write that",
            allocation.by
        ));
    }
    let statement = Statement::around(source, from)?;
    let changed = changed_in(source, statement.node);
    let why_changed =
        |name: &str| format!("{name} is changed in the same statement: divide it in two");
    let target_from = variables(source, target);
    let is_base = |name: &&&str| {
        source.text(target) != **name && target_from.iter().any(|used| used == **name)
    };
    if let Some(name) = changed.iter().find(is_base) {
        return Err(why_changed(name));
    }
    let in_size = |name: &&&str| allocation.size_from.iter().any(|used| used == **name);
    let size_changed = changed.iter().find(in_size);
    let not_text = || "it is not UTF-8".to_owned();
    let expression = on_one_line(source, target).ok_or_else(not_text)?;
    let expression = match &allocation.outlet {
        Outlet::Container(_, true) => format!("*{expression}"),
        _ => expression,
    };
    let bytes = match &allocation.size {
        Size::Bytes(bytes) => match size_changed {
            Some(name) => Err(why_changed(name)),
            None => Ok(bytes.clone()),
        },
        Size::OfContainer => Ok(format!("pagewise_bytes({expression})")),
        Size::Unknown(why) => Err(why.clone()),
    };
    let pointer = match kept_as {
        KeptAs::Pointer => expression,
        KeptAs::Number => format!("(const void *){expression}"),
        KeptAs::Object => format!("pagewise_data({expression})"),
    };
    Ok(Binding {
        pointer,
        bytes,
        name: name_of(source, target).ok_or_else(not_text)?,
        statement,
    })
}

/// `FOREACH(i, n) p = malloc(n);` and `_Pragma("omp single") p = malloc(n);` are no assignments to the parser.
fn require_understood(source: &Source, assignment: Node<'_>) -> Result<(), String> {
    let mut left = assignment.child_by_field_name("left");
    while let Some(inner) = left.and_then(|left| left.child_by_field_name("argument")) {
        left = Some(inner);
    }
    let before = left
        .filter(|left| left.kind() == "call_expression")
        .and_then(|call| call.child_by_field_name("function"));
    match before.and_then(|function| last_name(source, function)) {
        // `int (*rows)[4] = ...` is read as `int(*rows)`.
        Some(_) if before.is_some_and(|before| before.kind() == "primitive_type") => {
            Err(NO_PLAIN_VARIABLE.to_owned())
        }
        Some(name) if assignment.has_error() => Err(format!(
            "{name} stands before it, and perhaps governs this statement only: put braces around it"
        )),
        _ => Ok(()),
    }
}

/// What the variable around an allocation is called, as far as the line tells, whether or not a call can follow.
pub(crate) fn name_around(source: &Source, allocation: &Allocation<'_>) -> Option<String> {
    if let Outlet::Container(object, _) = allocation.outlet {
        return name_of(source, object);
    }
    let mut node = allocation.node;
    loop {
        let parent = node.parent()?;
        match parent.kind() {
            "init_declarator" | "assignment_expression" | "field_initializer" => {
                return kept_in(source, parent);
            }
            // The pointer is not the only thing that is made there, or somebody else keeps it.
            "argument_list" | "initializer_list" if children(parent).len() > 1 => return None,
            "call_expression" if cast_to(source, parent).is_none() => return None,
            "lambda_expression" => return None,
            kind if kind.ends_with("_statement") || kind == "declaration" => return None,
            _ => node = parent,
        }
    }
}

/// What the variable is called that a declarator, an assignment or a member's initializer gives a value.
pub(crate) fn kept_in(source: &Source, given: Node<'_>) -> Option<String> {
    let kept = match given.kind() {
        "init_declarator" => given.child_by_field_name("declarator"),
        "assignment_expression" => given.child_by_field_name("left"),
        _ => given.named_child(0),
    };
    name_of(source, plain(kept?))
}

/// The variable of a declarator, without what makes it a pointer or a reference.
fn plain(declarator: Node<'_>) -> Node<'_> {
    let mut node = declarator;
    while let Some(inner) = node.child_by_field_name("declarator").or_else(|| {
        let is_around = matches!(
            node.kind(),
            "reference_declarator" | "parenthesized_declarator"
        );
        node.named_child(0).filter(|_| is_around)
    }) {
        node = inner;
    }
    node
}

/// Whether what a value is kept in (the variable, and where that is given it) is a pointer, as far as the file tells.
fn is_kept_as_pointer(
    source: &Source,
    declared: &Declared,
    value: Node<'_>,
    (target, from): (Node<'_>, Node<'_>),
) -> bool {
    let cast = ancestors(value).find(|node| node.kind() != "parenthesized_expression");
    let cast_to = cast
        .filter(|node| node.kind() == "cast_expression")
        .and_then(|cast| cast.child_by_field_name("type"));
    if cast_to.is_some_and(|kind| source.text(kind).contains('*')) {
        return true;
    }
    if from.kind() == "init_declarator" {
        let declarator = from.child_by_field_name("declarator");
        return declarator.is_some_and(|declarator| declarator.kind() == "pointer_declarator");
    }
    // A member may be declared in a header.
    last_name(source, target).is_none_or(|name| !declared.others.contains(name))
}

/// As what a variable has an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptAs {
    Pointer,
    /// An integer, or a type whose name does not tell.
    Number,
    /// In C++, a smart pointer, a container, or a type whose name does not tell.
    Object,
}

type Target<'tree> = (Node<'tree>, Node<'tree>, KeptAs);

/// The variable, the node from which to look for the statement, and as what it is kept.
fn target<'tree>(
    source: &Source,
    declared: &Declared,
    allocation: &Allocation<'tree>,
) -> Result<Target<'tree>, String> {
    match allocation.outlet {
        Outlet::Value => assigned(source, declared, allocation.node),
        Outlet::Container(object, _) => Ok((object, allocation.node, KeptAs::Object)),
        Outlet::Argument(argument) => {
            let mut argument = argument;
            loop {
                argument = match argument.kind() {
                    "cast_expression" => argument.child_by_field_name("value"),
                    "parenthesized_expression" => argument.named_child(0),
                    _ => break,
                }
                .ok_or("its first argument is incomplete: place the call by hand")?;
            }
            let is_address =
                argument.kind() == "pointer_expression" && source.text(argument).starts_with('&');
            let pointer = argument
                .child_by_field_name("argument")
                .filter(|_| is_address);
            let pointer =
                pointer.ok_or("it is not told where the pointer is put: hand it &pointer")?;
            Ok((
                pointer,
                allocation.node,
                kept_as(source, declared, pointer, true),
            ))
        }
    }
}

/// What a value is assigned to.
fn assigned<'tree>(
    source: &Source,
    declared: &Declared,
    value: Node<'tree>,
) -> Result<Target<'tree>, String> {
    let mut node = value;
    let mut is_pointer = true;
    loop {
        let parent = node.parent().ok_or(OUTSIDE)?;
        match parent.kind() {
            "parenthesized_expression" => {}
            "cast_expression" => {
                let to = parent.child_by_field_name("type");
                is_pointer = to.is_some_and(|to| source.text(to).contains('*'));
            }
            "argument_list" => {
                let call = parent.parent().ok_or(OUTSIDE)?;
                match cast_to(source, call) {
                    Some(to_pointer) => {
                        is_pointer = to_pointer;
                        node = call;
                        continue;
                    }
                    None => return handed_on(source, parent, call),
                }
            }
            "init_declarator" => {
                let declarator = parent
                    .child_by_field_name("declarator")
                    .ok_or("its declaration is incomplete: place the call by hand")?;
                return initialized(source, parent, declarator, is_pointer);
            }
            "assignment_expression" => {
                let operator = parent.child_by_field_name("operator");
                if operator.is_none_or(|operator| source.text(operator) != "=")
                    || parent.child_by_field_name("right") != Some(node)
                {
                    return Err(LARGER.to_owned());
                }
                let left = parent
                    .child_by_field_name("left")
                    .ok_or("its assignment is incomplete: place the call by hand")?;
                let left = chained(left, parent)?;
                return Ok((left, parent, kept_as(source, declared, left, is_pointer)));
            }
            "expression_statement" if is_divided(source, parent) => {
                return Err(
                    "a directive (#if) divides its statement: place the call by hand".to_owned(),
                );
            }
            kind => return Err(why_not_kept(kind).to_owned()),
        }
        node = parent;
    }
}

fn why_not_kept(kind: &str) -> &'static str {
    match kind {
        "return_statement" => "it is returned at once: keep it in a variable first",
        "initializer_list" | "initializer_pair" => {
            "it is in an initializer list: place the call by hand"
        }
        "field_declaration" => "it is a member's default value: place the call in the constructor",
        "conditional_expression" => "it is one branch of ?: - use if and else",
        "expression_statement" => "its result is not kept: keep it in a variable first",
        "condition_clause" | "if_statement" | "while_statement" => {
            "it is in a condition: keep it in a variable first"
        }
        "optional_parameter_declaration" => {
            "it is a default argument: place the call in the function"
        }
        _ => LARGER,
    }
}

/// Whether a statement is what an `#if` leaves of one that began before it.
fn is_divided(source: &Source, statement: Node<'_>) -> bool {
    let mut around = ancestors(statement).take_while(|node| node.kind().starts_with("preproc_"));
    let Some(directive) = around.by_ref().last() else {
        return false;
    };
    let before = source.masked().get(..directive.start_byte());
    let before = before.unwrap_or_default().trim_end();
    !before.ends_with([';', '{', '}', ':', ')'])
}

/// Memory that goes straight to somebody: smart pointers keep it where it can be told.
fn handed_on<'tree>(
    source: &Source,
    list: Node<'tree>,
    call: Node<'tree>,
) -> Result<Target<'tree>, String> {
    let is_only = children(list).len() == 1;
    if call.kind() == "init_declarator" && is_only {
        let declarator = call.child_by_field_name("declarator");
        let kind = call
            .parent()
            .and_then(|declaration| declaration.child_by_field_name("type"))
            .and_then(|kind| last_name(source, kind));
        let is_smart = matches!(kind, Some("unique_ptr" | "shared_ptr"));
        if let Some(name) = declarator.filter(|name| is_smart && name.kind() == "identifier") {
            return Ok((name, call, KeptAs::Object));
        }
    }
    if call.kind() == "field_initializer" {
        return Err(
            "it is in a constructor's initializer list: place the call in its body".to_owned(),
        );
    }
    let function = call.child_by_field_name("function");
    let name = function.and_then(|function| last_name(source, function));
    let receiver = function
        .filter(|function| function.kind() == "field_expression")
        .filter(|function| !source.text(*function).contains("->"))
        .and_then(|function| function.child_by_field_name("argument"));
    if let (Some("reset"), Some(receiver)) = (name, receiver)
        && arguments(call).len() == 1
    {
        return Ok((receiver, call, KeptAs::Object));
    }
    Err(match name {
        Some(name) => format!("its result goes straight to {name}(): keep it in a variable first"),
        None => "its result goes straight to a constructor: keep it in a variable first".to_owned(),
    })
}

/// Of `a = b = malloc(n)` that which is a plain variable: the other may depend on it.
fn chained<'tree>(left: Node<'tree>, assignment: Node<'tree>) -> Result<Node<'tree>, String> {
    let outer = assignment
        .parent()
        .filter(|parent| parent.kind() == "assignment_expression");
    if outer.is_none() || left.kind() == "identifier" {
        return Ok(left);
    }
    let outer = outer.and_then(|outer| outer.child_by_field_name("left"));
    outer
        .filter(|outer| outer.kind() == "identifier")
        .ok_or_else(|| "it is assigned to several places at once: divide the statement".to_owned())
}

const NO_PLAIN_VARIABLE: &str = "it is no plain variable that is declared: keep it in one first";

/// The type of an expression.
const TYPEOF: &[&str] = &["typeof", "__typeof", "__typeof__", "typeof_unqual"];

/// The variable of `T *p = malloc(n)`.
fn initialized<'tree>(
    source: &Source,
    initializer: Node<'tree>,
    declarator: Node<'tree>,
    is_pointer: bool,
) -> Result<Target<'tree>, String> {
    let mut name = declarator;
    while name.kind() == "pointer_declarator" {
        name = name
            .child_by_field_name("declarator")
            .ok_or("its declaration is incomplete: place the call by hand")?;
    }
    if name.kind() != "identifier" {
        return Err(NO_PLAIN_VARIABLE.to_owned());
    }
    let kind = initializer
        .parent()
        .and_then(|declaration| declaration.child_by_field_name("type"));
    let is_auto = kind.is_some_and(|kind| source.text(kind) == "auto");
    if let Some(before) = kind.filter(|kind| kind.kind() == "macro_type_specifier") {
        let called = before.child_by_field_name("name").unwrap_or(before);
        let called = source.text(called);
        // To the parser `typeof(p)` is a macro; in C only a pointer takes memory without a cast.
        if !TYPEOF.contains(&called) {
            return Err(format!(
                "{called}(...) stands before it, perhaps a macro: place the call by hand"
            ));
        }
    }
    let by_new = initializer
        .child_by_field_name("value")
        .is_some_and(|value| value.kind() == "new_expression");
    let kept_as = match (declarator.kind(), source.is_cpp()) {
        ("pointer_declarator", _) => KeptAs::Pointer,
        (_, true) if is_auto && is_pointer && by_new => KeptAs::Pointer,
        (_, true) => KeptAs::Object,
        (_, false) => KeptAs::Number,
    };
    Ok((name, initializer, kept_as))
}

fn kept_as(source: &Source, declared: &Declared, target: Node<'_>, is_pointer: bool) -> KeptAs {
    let is_declared = matches!(target.kind(), "identifier" | "field_expression")
        && last_name(source, target).is_some_and(|name| declared.pointers.contains(name));
    match (source.is_cpp(), is_pointer) {
        (true, _) if is_declared => KeptAs::Pointer,
        (true, _) => KeptAs::Object,
        (false, true) => KeptAs::Pointer,
        (false, false) => KeptAs::Number,
    }
}
