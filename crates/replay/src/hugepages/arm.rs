//! A policy of huge pages, with what is set for it alone.

use std::fmt;
use std::str::FromStr;

use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::Settings;
use pagewise_simulate::hugepages::UnknownHugePolicy;
use thiserror::Error;

/// A policy; Ingens with a utilisation of its own (`ingens-50`) or that of the [`Settings`] (`ingens`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeArm {
    policy: HugePolicy,
    utilisation_percent: Option<u8>,
}

/// A name that no arm has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownArm {
    /// No policy has it.
    #[error(transparent)]
    Policy(#[from] UnknownHugePolicy),
    /// What follows `ingens-` is no percentage.
    #[error("`{0}`: after ingens- comes a percentage from 1 to 100, for example ingens-90")]
    Utilisation(String),
}

impl HugeArm {
    /// All policies, Ingens with the 90 % of its paper and with 50 %.
    pub fn all() -> Vec<Self> {
        let others = HugePolicy::ALL.into_iter();
        let others = others.flat_map(|policy| match policy {
            HugePolicy::Ingens => vec![Some(90), Some(50)]
                .into_iter()
                .map(|utilisation_percent| Self {
                    policy,
                    utilisation_percent,
                })
                .collect(),
            policy => vec![Self::from(policy)],
        });
        others.collect()
    }

    /// The policy.
    pub fn policy(self) -> HugePolicy {
        self.policy
    }

    pub(crate) fn settings(self, general: &Settings) -> Settings {
        let percent = self
            .utilisation_percent
            .map(|percent| f64::from(percent) / 100.0);
        Settings {
            policy: self.policy,
            utilisation: percent.unwrap_or(general.utilisation),
            ..*general
        }
    }
}

impl From<HugePolicy> for HugeArm {
    fn from(policy: HugePolicy) -> Self {
        Self {
            policy,
            utilisation_percent: None,
        }
    }
}

impl fmt::Display for HugeArm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.utilisation_percent {
            Some(percent) => write!(f, "{}-{percent}", self.policy),
            None => self.policy.fmt(f),
        }
    }
}

impl FromStr for HugeArm {
    type Err = UnknownArm;

    fn from_str(name: &str) -> Result<Self, UnknownArm> {
        let Some(percent) = name.strip_prefix("ingens-") else {
            return Ok(Self::from(name.parse::<HugePolicy>()?));
        };
        let utilisation_percent = percent
            .parse()
            .ok()
            .filter(|percent| (1..=100).contains(percent));
        match utilisation_percent {
            Some(_) => Ok(Self {
                policy: HugePolicy::Ingens,
                utilisation_percent,
            }),
            None => Err(UnknownArm::Utilisation(name.to_owned())),
        }
    }
}
