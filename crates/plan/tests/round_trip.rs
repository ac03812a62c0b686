//! What is written is read again as it was; what is damaged is refused without a panic.

mod common;

use std::path::Path;

use pagewise_plan::Plan;
use pagewise_plan::PlanError;
use proptest::collection::vec;
use proptest::prelude::*;

/// Pieces that a damaged document may have more of than it should.
const PIECES: [&str; 16] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    "=",
    ",",
    "\n",
    "#",
    "-",
    "9223372036854775808",
    "1e999",
    "nan",
    "[[rule]]",
    "\u{0}",
    "é",
];

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, Path::new("plan.toml"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(plan in common::plan()) {
        let text = plan.to_toml().expect("it can be written");
        prop_assert_eq!(&parse(&text).expect("it can be read"), &plan);
        prop_assert_eq!(plan.to_toml().expect("again"), text);
    }

    #[test]
    fn damaged_plans_are_refused_or_read_but_never_panic(
        plan in common::plan(),
        damage in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..6),
    ) {
        let mut letters: Vec<char> = plan.to_toml().expect("it can be written").chars().collect();
        for (at, piece, removes) in damage {
            let at = at.index(letters.len());
            if removes {
                letters.drain(at..(at + 9).min(letters.len()));
            } else {
                let piece = PIECES[piece.index(PIECES.len())];
                letters.splice(at..at, piece.chars());
            }
        }
        let text: String = letters.into_iter().collect();
        match parse(&text) {
            // What is read may be written.
            Ok(plan) => prop_assert!(plan.to_toml().is_ok(), "{}", text),
            Err(error) => prop_assert!(error.to_string().starts_with("plan.toml:"), "{error}"),
        }
    }

    #[test]
    fn any_text_is_refused_in_words(text in ".{0,200}") {
        prop_assert!(parse(&text).is_err());
    }
}
