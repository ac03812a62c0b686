//! What transfers cost: storage models in a readable file.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// The models that come with Pagewise: the text of `storage.toml`, which users copy and change.
pub const BUILT_IN: &str = include_str!("storage.toml");

/// Cost of transferring one page of 4 KiB (ns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Reading it.
    pub read_ns: u64,
    /// Writing it.
    pub write_ns: u64,
}

/// Where pages of files and anonymous pages live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The device that holds files.
    pub file: Cost,
    /// The device that holds swap.
    pub swap: Cost,
    /// Whether a page read from swap keeps its copy there, so that it need not be written again if it stays clean. zram
    /// frees it (do_swap_page() in mm/memory.c, SWP_SYNCHRONOUS_IO).
    pub swap_keeps_copy: bool,
    /// The kernel's own work at each miss (ns).
    pub fault_ns: u64,
}

/// Which of a model's three figures to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// The least.
    Min,
    /// The usual one.
    #[default]
    Typical,
    /// The most.
    Max,
}

/// Time for one page (ns), as published or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The usual one.
    pub typical: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    /// The figure of this level.
    pub fn at(&self, level: Level) -> u64 {
        match level {
            Level::Min => self.min,
            Level::Typical => self.typical,
            Level::Max => self.max,
        }
    }
}

/// A device's model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is, for people.
    pub title: String,
    /// Reading a page of 4 KiB (ns).
    pub read_ns: Range,
    /// Writing a page of 4 KiB (ns).
    pub write_ns: Range,
    /// Whether a page that is read keeps its copy here.
    #[serde(default = "keeps_copy")]
    pub keeps_copy: bool,
    /// Where the figures come from.
    pub source: String,
}

fn keeps_copy() -> bool {
    true
}

impl Device {
    /// Its costs at this level.
    pub fn cost(&self, level: Level) -> Cost {
        Cost {
            read_ns: self.read_ns.at(level),
            write_ns: self.write_ns.at(level),
        }
    }
}

/// The kernel's own work at each miss, whatever the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// For each miss (ns).
    pub software_ns: Range,
    /// Where the figure comes from.
    pub source: String,
}

/// All models of one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// The kernel's own work.
    pub fault: Fault,
    /// Devices by name.
    pub device: BTreeMap<String, Device>,
}

/// Why a file of storage models, or a device's name, is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// Not of the expected form; says where.
    #[error("not a file of storage models: {0}")]
    Form(String),
    /// Minimum, typical and maximum are not in order.
    #[error("{direction} of `{device}`: min <= typical <= max does not hold")]
    Order {
        /// The device, or `fault`.
        device: String,
        /// Which of its figures.
        direction: &'static str,
    },
    /// Nobody stands for the figures.
    #[error("`{0}` names no source of its figures; write \"estimate\" if it is one")]
    NoSource(String),
    /// No device has this name.
    #[error("no device is called `{name}`; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that exist, separated by commas.
        known: String,
    },
}

impl Models {
    /// The models that come with Pagewise.
    pub fn built_in() -> Models {
        BUILT_IN.parse().expect("the built-in models are tested")
    }

    /// The device of this name.
    pub fn device(&self, name: &str) -> Result<&Device, StorageError> {
        self.device.get(name).ok_or_else(|| StorageError::Unknown {
            name: name.to_owned(),
            known: self.device.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// Files on the device called `file`, swap on that called `swap`.
    pub fn storage(&self, file: &str, swap: &str, level: Level) -> Result<Storage, StorageError> {
        let swap = self.device(swap)?;
        Ok(Storage {
            file: self.device(file)?.cost(level),
            swap: swap.cost(level),
            swap_keeps_copy: swap.keeps_copy,
            fault_ns: self.fault.software_ns.at(level),
        })
    }

    fn check(&self) -> Result<(), StorageError> {
        if let Some((name, _)) = self
            .device
            .iter()
            .find(|(_, device)| device.source.is_empty())
        {
            return Err(StorageError::NoSource(name.clone()));
        }
        let of_devices = self.device.iter().flat_map(|(name, device)| {
            [
                (name.as_str(), "read_ns", device.read_ns),
                (name.as_str(), "write_ns", device.write_ns),
            ]
        });
        let mut all = of_devices.chain([("fault", "software_ns", self.fault.software_ns)]);
        let wrong =
            all.find(|(_, _, range)| range.min > range.typical || range.typical > range.max);
        match wrong {
            Some((device, direction, _)) => Err(StorageError::Order {
                device: device.to_owned(),
                direction,
            }),
            None => Ok(()),
        }
    }
}

impl FromStr for Models {
    type Err = StorageError;

    fn from_str(text: &str) -> Result<Models, StorageError> {
        let models: Models =
            toml::from_str(text).map_err(|error| StorageError::Form(error.to_string()))?;
        models.check()?;
        Ok(models)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_models_hold_every_kind_of_device() {
        let models = Models::built_in();
        let names = "flash-slc flash-mlc flash-tlc emmc5.1 ufs2.1 ufs3.1 emram stt-mram pcm optane nvme sata-ssd hdd \
                     zram-lz4 zram-lzo zram-zstd";
        for name in names.split_whitespace() {
            models.device(name).expect(name);
        }
        let storage = models
            .storage("ufs3.1", "zram-lz4", Level::Max)
            .expect("both exist");
        assert_eq!(storage.file.write_ns, 1_000_000);
        assert!(!storage.swap_keeps_copy);
    }

    #[test]
    fn wrong_files_and_names_are_told() {
        let fault = "[fault]\nsoftware_ns = { min = 1, typical = 1, max = 1 }\nsource = \"s\"\n";
        let disorder = format!(
            "{fault}[device.d]\ntitle = \"\"\nsource = \"s\"\nread_ns = {{ min = 2, typical = 1, max = 3 }}\n\
             write_ns = {{ min = 1, typical = 1, max = 1 }}"
        );
        let error = disorder.parse::<Models>().expect_err("min above typical");
        assert!(error.to_string().contains("read_ns of `d`"), "{error}");
        let error = "[fault".parse::<Models>().expect_err("not TOML");
        assert!(matches!(error, StorageError::Form(_)));
        let error = Models::built_in()
            .storage("ufs", "emram", Level::Min)
            .expect_err("unknown");
        assert!(error.to_string().contains("ufs3.1"), "{error}");
    }
}
