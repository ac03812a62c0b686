//! The huge page policies by name.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Policy;
use super::Settings;
use super::aggressive::Aggressive;
use super::freebsd::FreeBsd;
use super::hawkeye_g::HawkEyeG;
use super::hawkeye_pmu::HawkEyePmu;
use super::ingens::Ingens;
use super::linux::Linux;
use super::none::Nothing;

/// In which order regions become huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePolicy {
    /// The hottest region of all processes first, by accessed bits.
    HawkEyeG,
    /// The process with the most cycles spent on page walks first, by counters.
    HawkEyePmu,
    /// At the first touch, while memory is ample; what is left as [`HugePolicy::HawkEyeG`].
    Aggressive,
    /// By utilisation, in proportion to shares.
    Ingens,
    /// Regions that are in memory as a whole.
    FreeBsd,
    /// By address, process by process, as khugepaged.
    Linux,
    /// Nothing.
    Nothing,
}

impl HugePolicy {
    /// All of them.
    pub const ALL: [HugePolicy; 7] = [
        HugePolicy::HawkEyeG,
        HugePolicy::HawkEyePmu,
        HugePolicy::Aggressive,
        HugePolicy::Ingens,
        HugePolicy::FreeBsd,
        HugePolicy::Linux,
        HugePolicy::Nothing,
    ];

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            HugePolicy::HawkEyeG => "hawkeye-g",
            HugePolicy::HawkEyePmu => "hawkeye-pmu",
            HugePolicy::Aggressive => "aggressive",
            HugePolicy::Ingens => "ingens",
            HugePolicy::FreeBsd => "freebsd",
            HugePolicy::Linux => "linux",
            HugePolicy::Nothing => "none",
        }
    }

    /// Whether it goes by counters of the processor.
    pub fn needs_counters(self) -> bool {
        self == HugePolicy::HawkEyePmu
    }

    /// Whether it goes by accessed bits: what must be cleared then. Without any policy, what is recovered first goes by them.
    pub fn needs_accesses(self) -> bool {
        matches!(
            self,
            HugePolicy::HawkEyeG
                | HugePolicy::HawkEyePmu
                | HugePolicy::Aggressive
                | HugePolicy::Ingens
                | HugePolicy::Nothing
        )
    }

    /// Whether a region's coverage decides; Ingens asks of accesses only whether huge pages are idle.
    pub fn goes_by_coverage(self) -> bool {
        self.needs_accesses() && !matches!(self, HugePolicy::Ingens | HugePolicy::Nothing)
    }

    /// Whether it is there at a program's first faults, which takes somebody inside of it.
    pub fn needs_first_touch(self) -> bool {
        self == HugePolicy::Aggressive
    }

    pub(crate) fn build(self, settings: &Settings) -> Box<dyn Policy> {
        match self {
            HugePolicy::HawkEyeG => Box::new(HawkEyeG::default()),
            HugePolicy::HawkEyePmu => Box::new(HawkEyePmu::default()),
            HugePolicy::Aggressive => Box::new(Aggressive::default()),
            HugePolicy::Ingens => Box::new(Ingens::new(settings.utilisation)),
            HugePolicy::FreeBsd => Box::new(FreeBsd),
            HugePolicy::Linux => Box::new(Linux::default()),
            HugePolicy::Nothing => Box::new(Nothing),
        }
    }
}

impl fmt::Display for HugePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no huge page policy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no huge page policy is called `{name}`; did you mean `{nearest}`? There are hawkeye-g, hawkeye-pmu, aggressive, ingens, freebsd, linux and none"
)]
pub struct UnknownHugePolicy {
    /// What was asked for.
    pub name: String,
    /// The name most like it.
    pub nearest: HugePolicy,
}

impl FromStr for HugePolicy {
    type Err = UnknownHugePolicy;

    fn from_str(name: &str) -> Result<Self, UnknownHugePolicy> {
        let lower = name.to_lowercase();
        let likeness = |kind: &Self| strsim::jaro_winkler(&lower, kind.as_str());
        let nearest = HugePolicy::ALL
            .into_iter()
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
            .unwrap_or(HugePolicy::HawkEyeG);
        if nearest.as_str() == lower {
            return Ok(nearest);
        }
        Err(UnknownHugePolicy {
            name: name.to_owned(),
            nearest,
        })
    }
}
