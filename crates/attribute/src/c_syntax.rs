//! Syntax trees of C and C++, for all that read sources.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tree_sitter::{Language, Node, ParseOptions, Parser, Tree};

/// The syntax tree of a source; `None` if it takes longer than `limit`.
#[must_use]
pub fn parse(text: &str, cpp: bool, limit: Duration) -> Option<Tree> {
    let language = match cpp {
        true => tree_sitter_cpp::LANGUAGE.into(),
        false => tree_sitter_c::LANGUAGE.into(),
    };
    parse_in(&language, text, limit)
}

/// The same in any language.
pub(crate) fn parse_in(language: &Language, text: &str, limit: Duration) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let begin = Instant::now();
    let mut within_limit = |_: &tree_sitter::ParseState| match begin.elapsed() > limit {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut within_limit);
    let bytes = text.as_bytes();
    parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(options),
    )
}

/// The last component of what is called or declared: `resize` of `a->b.resize`, `make_unique` of `std::make_unique<T[]>`,
/// `vector` of `std::vector<T>`.
#[must_use]
pub fn last_name<'text>(node: Node<'_>, text: &'text str) -> Option<&'text str> {
    let mut node = node;
    loop {
        node = match node.kind() {
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "primitive_type"
            | "namespace_identifier"
            | "operator_name"
            | "destructor_name" => return text.get(node.byte_range()),
            "field_expression" => node.child_by_field_name("field")?,
            "qualified_identifier" | "template_function" | "template_type" | "template_method" => {
                node.child_by_field_name("name")?
            }
            "parenthesized_expression" | "dependent_name" | "dependent_type" => {
                node.named_child(0)?
            }
            _ => return None,
        };
    }
}
