//! What is written is read again as it was.

mod common;

use std::path::Path;

use pagewise_plan::Plan;
use pagewise_plan::PlanError;
use proptest::prelude::*;

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
    fn any_text_is_refused_in_words(text in ".{0,200}") {
        prop_assert!(parse(&text).is_err());
    }
}
