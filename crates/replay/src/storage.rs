//! Which devices, at which cost.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use pagewise_simulate::Cost;
use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::Storage;

use crate::error::ReplayError;

/// The devices by name.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageChoice {
    /// What holds files.
    pub file: String,
    /// What holds swapped pages.
    pub swap: String,
    /// Which of their figures to take.
    pub level: Level,
}

const FORM: &str = "storage is given as file=ufs3.1,swap=emram,level=typical";

impl Default for StorageChoice {
    fn default() -> Self {
        Self {
            file: "ufs3.1".to_owned(),
            swap: "emram".to_owned(),
            level: Level::Typical,
        }
    }
}

impl FromStr for StorageChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut choice = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(FORM)?;
            match (key.trim(), value.trim()) {
                ("file", name) => choice.file = name.to_owned(),
                ("swap", name) => choice.swap = name.to_owned(),
                ("level", "min") => choice.level = Level::Min,
                ("level", "typical") => choice.level = Level::Typical,
                ("level", "max") => choice.level = Level::Max,
                ("level", other) => {
                    return Err(format!("`{other}` is no level: min, typical or max"));
                }
                (other, _) => {
                    return Err(format!("`{other}` is neither file, swap nor level: {FORM}"));
                }
            }
        }
        Ok(choice)
    }
}

impl StorageChoice {
    /// What pages of this size cost on these devices. Models are of pages of 4 KiB; larger ones cost as many of those.
    pub(crate) fn resolve(
        &self,
        models: Option<&Path>,
        page_bytes: u64,
    ) -> Result<Storage, ReplayError> {
        let models = match models {
            None => Models::built_in(),
            Some(path) => read_models(path)?,
        };
        let storage = (models.storage(&self.file, &self.swap, self.level))
            .map_err(|error| ReplayError::asked(error.to_string()))?;
        let factor = page_bytes.div_ceil(4096);
        let scaled = |cost: Cost| Cost {
            read_ns: cost.read_ns * factor,
            write_ns: cost.write_ns * factor,
        };
        Ok(Storage {
            file: scaled(storage.file),
            swap: scaled(storage.swap),
            ..storage
        })
    }
}

fn read_models(path: &Path) -> Result<Models, ReplayError> {
    let text = fs::read_to_string(path)
        .map_err(|error| ReplayError::asked(format!("cannot read {}: {error}", path.display())))?;
    text.parse().map_err(|error| {
        ReplayError::asked(format!("{}: {error}", path.display()).replace('\n', " "))
    })
}

/// Costs of a write to swap, as multiples of a read's.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Ascending.
    pub ratios: Vec<u32>,
}

/// The largest ratio that makes sense to ask for.
const LARGEST_RATIO: u32 = 1_000_000;

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "a sweep is given as write/read=1..100, whole numbers from 1 on, the smaller first";
        let range = text.strip_prefix("write/read=").ok_or(FORM)?;
        let (from, to) = range.split_once("..").ok_or(FORM)?;
        let number = |text: &str| {
            text.trim_start_matches('=')
                .parse::<u32>()
                .map_err(|_| FORM)
        };
        let (from, to) = (number(from)?, number(to)?);
        if from == 0 || from > to || to > LARGEST_RATIO {
            return Err(FORM.to_owned());
        }
        let decades = std::iter::successors(Some(1_u32), |decade| decade.checked_mul(10));
        let steps = decades.flat_map(|decade| [1, 2, 5].map(|step| decade.saturating_mul(step)));
        let between = steps.filter(|step| *step > from && *step < to);
        let mut ratios: Vec<u32> = [from].into_iter().chain(between).chain([to]).collect();
        ratios.dedup();
        Ok(Self { ratios })
    }
}

/// The same storage, but a write to swap costs so many reads.
pub(crate) fn with_ratio(storage: Storage, ratio: u32) -> Storage {
    Storage {
        swap: Cost {
            read_ns: storage.swap.read_ns,
            write_ns: storage.swap.read_ns.saturating_mul(u64::from(ratio)),
        },
        ..storage
    }
}
