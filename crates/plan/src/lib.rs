//! Plans: what is to be done to which object of a program so that it swaps less, and to which of its I/O calls so that the page
//! cache keeps what is used again.
//!
//! A [`Plan`] is made by the adviser or by hand, read by `pagewise apply`, and kept as TOML (`docs/plan.md`). Nothing here
//! touches a process: [`Plan::read`] checks all that can be checked from the text alone.
//!
//! ```text
//!   plan.toml --read--> Plan { program, memory, rules, curve } --to_toml--> plan.toml
//! ```

#![forbid(unsafe_code)]

mod error;
mod model;
mod module_file;
mod site;
mod toml;

pub use error::PlanError;
pub use model::Action;
pub use model::CurvePoint;
pub use model::Frame;
pub use model::Fresh;
pub use model::HeadwayPoint;
pub use model::IoAction;
pub use model::LEAST_PREZERO_RATE;
pub use model::MOST_HEADWAY;
pub use model::Memory;
pub use model::Plan;
pub use model::Prediction;
pub use model::Program;
pub use model::ReadAhead;
pub use model::Readahead;
pub use model::Rule;
pub use model::SourcePlace;
pub use model::Target;
pub use module_file::GlobalSymbol;
pub use module_file::ModuleFile;
pub use module_file::Unmatched;
pub use site::Site;

/// The most rules that can be put into force together.
pub const MOST_RULES: usize = 62;

/// What the key `schema` of a plan says.
pub const SCHEMA: &str = "pagewise.plan/1";
