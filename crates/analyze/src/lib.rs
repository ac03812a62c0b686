//! What the trace means: which object each page belonged to when something happened to it, what that cost, and in
//! what pattern.
//!
//! ```text
//!   events (in time) ----------------------------\
//!   allocations, releases, moves, mappings --> Spaces: page -> object --> Findings
//! ```
//!
//! Reads events as a stream: memory grows with objects, not with events.

#![forbid(unsafe_code)]

mod address_map;
mod findings;
mod histogram;
mod identity;
pub mod names;
mod pattern;
mod spaces;

pub use findings::Findings;
pub use findings::Object;
pub use findings::ObjectFrame;
pub use findings::Totals;
pub use findings::analyze;
pub use histogram::Histogram;
pub use identity::Identity;
pub use identity::ObjectKind;
pub use pattern::Pattern;
