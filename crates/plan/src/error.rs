//! What can be wrong with a plan.

use std::path::PathBuf;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the plan {path}: {why}; {remedy}")]
    Read {
        /// The plan.
        path: String,
        /// Why.
        why: String,
        /// What to type.
        remedy: String,
    },
    /// No plan is that long.
    #[error(
        "{path} has {bytes} bytes, more than a plan may ({most}); name a file that pagewise plan wrote"
    )]
    TooLarge {
        /// The plan.
        path: String,
        /// Its length.
        bytes: u64,
        /// The longest that is read.
        most: u64,
    },
    /// A place in the file is wrong.
    #[error("{}:{line}: {key}: {what}; {remedy}", path.display())]
    Invalid {
        /// The plan.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The key, with those around it: `rule.action`.
        key: String,
        /// What is wrong.
        what: String,
        /// What to type.
        remedy: String,
    },
}
