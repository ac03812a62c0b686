//! A policy by name: one that replaces pages, or with --hugepages one that makes huge ones.

use std::str::FromStr;

use pagewise_replay::HugeArm;
use pagewise_simulate::PolicyKind;

use crate::failure::Failure;

/// One policy, or all. Some names mean one of each sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyChoice {
    All,
    Named {
        name: String,
        replacement: Option<PolicyKind>,
        huge: Option<HugeArm>,
    },
}

impl PolicyChoice {
    /// The replacement policies meant.
    pub(super) fn kinds(&self) -> Result<Vec<PolicyKind>, Failure> {
        match self {
            Self::All => Ok(PolicyKind::ALL.to_vec()),
            Self::Named {
                replacement: Some(policy),
                ..
            } => Ok(vec![*policy]),
            Self::Named { name, .. } => Err(Failure::new(format!(
                "{name} is a policy of huge pages: add --hugepages"
            ))),
        }
    }

    /// The policies of huge pages meant.
    pub(super) fn huge(&self) -> Result<Vec<HugeArm>, Failure> {
        match self {
            Self::All => Ok(HugeArm::all()),
            Self::Named {
                huge: Some(arm), ..
            } => Ok(vec![*arm]),
            Self::Named { name, .. } => {
                let error = name.parse::<HugeArm>().err();
                Err(Failure::new(error.map_or_else(
                    || format!("{name} is no policy of huge pages"),
                    |error| error.to_string(),
                )))
            }
        }
    }
}

impl FromStr for PolicyChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" {
            return Ok(Self::All);
        }
        match (name.parse::<PolicyKind>(), name.parse::<HugeArm>()) {
            (Err(replacement), Err(huge)) => Err(nearer(name, &replacement, &huge)),
            (replacement, huge) => Ok(Self::Named {
                name: name.to_owned(),
                replacement: replacement.ok(),
                huge: huge.ok(),
            }),
        }
    }
}

/// What is said of a name that nothing has: with the names of the sort that has one more like it.
fn nearer(
    name: &str,
    replacement: &pagewise_simulate::UnknownPolicy,
    huge: &pagewise_replay::UnknownArm,
) -> String {
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    match huge {
        pagewise_replay::UnknownArm::Policy(policy)
            if likeness(policy.nearest.as_str()) < likeness(replacement.nearest.as_str()) =>
        {
            replacement.to_string()
        }
        huge => huge.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_sort_or_both() {
        let choice = |name: &str| name.parse::<PolicyChoice>().expect("a policy");
        let linux = choice("linux");
        assert!(linux.kinds().is_ok() && linux.huge().is_ok());
        assert!(choice("clock").huge().is_err());
        let refused = choice("ingens-50").kinds().expect_err("of huge pages");
        assert!(refused.to_string().contains("--hugepages"), "{refused}");
        for (wrong, said) in [
            ("clok", "did you mean `clock`?"),
            ("hawkey-pmu", "did you mean `hawkeye-pmu`?"),
            ("ingens-0", "a percentage from 1 to 100"),
            ("ingens-x", "a percentage from 1 to 100"),
        ] {
            let error = wrong.parse::<PolicyChoice>().expect_err(wrong);
            assert!(error.contains(said), "{error}");
        }
    }
}
