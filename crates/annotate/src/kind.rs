//! What a type or an expression is, as far as it tells where memory is: a container of one piece, of many, a pointer.

use std::collections::HashMap;

use tree_sitter::Node;

use crate::expression::arguments;
use crate::expression::last_name;
use crate::source::Source;
use crate::source::children;

/// Where something has its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In one piece, and what an element is: `vector`.
    Contiguous(Box<Kind>),
    /// In one piece, too; mostly short, and made of another text without a size.
    Text,
    /// `vector<bool>`, which does not tell where its bits are.
    Bits,
    /// In blocks of its own; its name, and what an element is.
    Scattered(String, Box<Kind>),
    /// Where this points, or holds it: a pointer, smart or not, an array.
    Pointer(Box<Kind>),
    /// Nothing of these, or the file does not tell.
    Unknown,
}

/// Of pointers to containers of containers, more levels nobody writes: each is a step of the stack when it is dropped.
const MOST_LEVELS: usize = 16;

impl Kind {
    pub(crate) fn pointer_to(to: Kind) -> Self {
        to.nested(|to| Self::Pointer(Box::new(to)))
    }

    /// What is made of it, if it has not too many levels already.
    fn nested(self, made: impl FnOnce(Self) -> Self) -> Self {
        let levels = std::iter::successors(Some(&self), |kind| match kind {
            Self::Contiguous(inner) | Self::Scattered(_, inner) | Self::Pointer(inner) => {
                Some(inner.as_ref())
            }
            Self::Text | Self::Bits | Self::Unknown => None,
        });
        match levels.count() > MOST_LEVELS {
            true => Self::Unknown,
            false => made(self),
        }
    }

    /// What `*x` is.
    pub(crate) fn pointee(self) -> Self {
        match self {
            Self::Pointer(to) => *to,
            _ => Self::Unknown,
        }
    }

    /// What `x[i]` is.
    pub(crate) fn element(self) -> Self {
        match self {
            Self::Contiguous(element) | Self::Scattered(_, element) | Self::Pointer(element) => {
                *element
            }
            Self::Text | Self::Bits | Self::Unknown => Self::Unknown,
        }
    }

    /// Whether it is a container of one piece of memory, as far as that can be told.
    pub(crate) fn is_one_block(&self) -> bool {
        matches!(self, Self::Contiguous(_) | Self::Text | Self::Bits)
    }

    pub(crate) fn is_container(&self) -> bool {
        self.is_one_block() || matches!(self, Self::Scattered(..))
    }
}

/// Types that the file has other names for.
pub(crate) type Aliases = HashMap<String, Kind>;

const STRINGS: &[&str] = &["string", "wstring"];

const POINTERS: &[&str] = &["unique_ptr", "shared_ptr", "optional", "array"];

/// No call can name the memory of one, or lock it; and which template argument its elements are.
const SCATTERED: &[(&str, usize)] = &[
    ("deque", 0),
    ("list", 0),
    ("forward_list", 0),
    ("map", 1),
    ("multimap", 1),
    ("set", 0),
    ("multiset", 0),
    ("unordered_map", 1),
    ("unordered_multimap", 1),
    ("unordered_set", 0),
    ("unordered_multiset", 0),
];

/// How deep types and expressions are followed; what is deeper, people do not write.
const DEEPEST: usize = 50;

/// What a type is; also one that is written where an expression may be, as in `std::vector<int>(n)`.
pub(crate) fn of_type(source: &Source, aliases: &Aliases, kind: Node<'_>) -> Kind {
    type_at(source, aliases, kind, 0)
}

fn type_at(source: &Source, aliases: &Aliases, kind: Node<'_>, depth: usize) -> Kind {
    let mut node = kind;
    loop {
        let inner = match node.kind() {
            _ if depth > DEEPEST => None,
            "type_descriptor" => return of_descriptor(source, aliases, node, depth + 1),
            "qualified_identifier" | "dependent_name" | "dependent_type" => node
                .child_by_field_name("name")
                .or_else(|| node.named_child(0)),
            "template_type" | "template_function" => {
                return of_template(source, aliases, node, depth + 1);
            }
            "type_identifier" | "identifier" => return of_plain_name(aliases, source.text(node)),
            _ => None,
        };
        match inner {
            Some(inner) => node = inner,
            None => return Kind::Unknown,
        }
    }
}

fn of_plain_name(aliases: &Aliases, name: &str) -> Kind {
    match aliases.get(name) {
        Some(kind) => kind.clone(),
        None if STRINGS.contains(&name) => Kind::Text,
        None => Kind::Unknown,
    }
}

fn of_descriptor(source: &Source, aliases: &Aliases, descriptor: Node<'_>, depth: usize) -> Kind {
    let Some(kind) = descriptor.child_by_field_name("type") else {
        return Kind::Unknown;
    };
    let kind = type_at(source, aliases, kind, depth);
    let declarator = descriptor.child_by_field_name("declarator");
    match declarator.map(|declarator| declarator.kind()) {
        Some("abstract_pointer_declarator") => Kind::pointer_to(kind),
        Some("abstract_function_declarator") => Kind::Unknown,
        _ => kind,
    }
}

fn of_template(source: &Source, aliases: &Aliases, template: Node<'_>, depth: usize) -> Kind {
    let Some(name) = template.child_by_field_name("name") else {
        return Kind::Unknown;
    };
    let given = template
        .child_by_field_name("arguments")
        .map(children)
        .unwrap_or_default();
    let argument = |index: usize| {
        let given = given.get(index);
        given.map_or(Kind::Unknown, |given| {
            type_at(source, aliases, *given, depth)
        })
    };
    let name = source.text(name);
    let is_of_bits = given
        .first()
        .is_some_and(|first| source.text(*first) == "bool");
    let scattered = SCATTERED.iter().find(|(known, _)| *known == name);
    match (aliases.get(name), scattered) {
        (Some(kind), _) => kind.clone(),
        (None, Some((_, element))) => {
            let scattered = |element| Kind::Scattered(name.to_owned(), Box::new(element));
            argument(*element).nested(scattered)
        }
        _ if name == "vector" && is_of_bits => Kind::Bits,
        _ if name == "vector" => argument(0).nested(|element| Kind::Contiguous(Box::new(element))),
        _ if name == "basic_string" => Kind::Text,
        _ if POINTERS.contains(&name) => Kind::pointer_to(argument(0)),
        _ => Kind::Unknown,
    }
}

/// What expressions are, if `named` tells it of variables and members.
pub(crate) struct Expressions<'a> {
    pub(crate) source: &'a Source,
    pub(crate) aliases: &'a Aliases,
    pub(crate) named: &'a dyn Fn(Node<'_>) -> Kind,
}

impl Expressions<'_> {
    pub(crate) fn kind(&self, expression: Node<'_>) -> Kind {
        self.kind_at(expression, 0)
    }

    fn kind_at(&self, expression: Node<'_>, depth: usize) -> Kind {
        if depth > DEEPEST {
            return Kind::Unknown;
        }
        let of = |inner: Option<Node<'_>>| {
            inner.map_or(Kind::Unknown, |inner| self.kind_at(inner, depth + 1))
        };
        let field = |name| expression.child_by_field_name(name);
        let of_type = |name| {
            let kind = field(name);
            kind.map_or(Kind::Unknown, |kind| {
                of_type(self.source, self.aliases, kind)
            })
        };
        match expression.kind() {
            "identifier" | "field_identifier" | "field_expression" | "qualified_identifier" => {
                (self.named)(expression)
            }
            "parenthesized_expression" => of(expression.named_child(0)),
            "subscript_expression" => of(field("argument")).element(),
            "pointer_expression" if self.source.text(expression).starts_with('*') => {
                of(field("argument")).pointee()
            }
            "pointer_expression" => Kind::pointer_to(of(field("argument"))),
            "call_expression" => self.called(expression, depth),
            "compound_literal_expression" => of_type("type"),
            "new_expression" => Kind::pointer_to(of_type("type")),
            _ => Kind::Unknown,
        }
    }

    fn called(&self, call: Node<'_>, depth: usize) -> Kind {
        let Some(function) = call.child_by_field_name("function") else {
            return Kind::Unknown;
        };
        let of = |inner: Option<Node<'_>>| {
            inner.map_or(Kind::Unknown, |inner| self.kind_at(inner, depth + 1))
        };
        let name = last_name(self.source, function).unwrap_or_default();
        if function.kind() == "field_expression" {
            let object = function.child_by_field_name("argument");
            return of(object.filter(|_| matches!(name, "at" | "front" | "back"))).element();
        }
        match name {
            "move" | "forward" | "as_const" => of(arguments(call).first().copied()),
            _ if name.starts_with("make_unique") || name.starts_with("make_shared") => {
                Kind::pointer_to(self.made(function))
            }
            _ => of_type(self.source, self.aliases, function),
        }
    }

    /// `T` of `std::make_unique<T>`.
    fn made(&self, function: Node<'_>) -> Kind {
        let mut node = function;
        while let Some(inner) = node
            .child_by_field_name("name")
            .filter(|_| node.kind() == "qualified_identifier")
        {
            node = inner;
        }
        let given = node.child_by_field_name("arguments").map(children);
        let first = given.and_then(|given| given.first().copied());
        first.map_or(Kind::Unknown, |first| {
            of_type(self.source, self.aliases, first)
        })
    }
}
