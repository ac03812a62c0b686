//! What can go wrong between an address and its name.

use std::io;
use std::path::PathBuf;

/// An error of this crate.
///
/// Most lookups here do not fail: a module that cannot be read leaves functions and lines unknown
/// (`None`) and the rest of the call path intact. An error says why, so that it can be shown once
/// for each module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line is not in the format of `/proc/PID/maps` (Linux, `fs/proc/task_mmu.c`,
    /// `show_map_vma`).
    #[error(
        "line {line} is not a line of /proc/PID/maps: {content:?}; pass that file as it was read"
    )]
    Maps {
        /// Line number, from 1.
        line: usize,
        /// The line itself, cut to 120 characters.
        content: String,
    },

    /// A module could not be opened or read.
    #[error(
        "cannot read module {}; check that it still exists and is readable here",
        path.display()
    )]
    Read {
        /// The module's path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },

    /// A module is not an ELF file that can be understood.
    #[error("{} is not an ELF file this build understands; `readelf -h` shows its kind", path.display())]
    Elf {
        /// The module's path.
        path: PathBuf,
        /// The parser's reason.
        #[source]
        source: object::Error,
    },

    /// A module's debug information could not be parsed.
    #[error(
        "cannot parse the debug information of {}; rebuild it with -g, or run `readelf --debug-dump=info` to see where it breaks",
        path.display()
    )]
    DebugInformation {
        /// The module's path (or that of its separate debug file).
        path: PathBuf,
        /// The parser's reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
