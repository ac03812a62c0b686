//! How a recorded program would swap with more or less memory.
//!
//! ```text
//!   recording --history--> what is known of each page --sweeps, rates, ages--> a string of references
//!             --simulate--> swap-ins at each size
//! ```
//!
//! A recording sees an access only where the page was missing. What happened to pages in memory is made up to fit: sweeps
//! passed over the pages between those that were missing; a page that stayed for longer than pages do that are not accessed
//! was accessed; and others are as often as pages of the same 2 MiB were when they were away. The string then runs
//! through the simulator's `linux` policy at each size. How well that does: docs/results-simulate.md.

#![forbid(unsafe_code)]

mod account;
mod ages;
mod clock;
mod curve;
mod error;
mod history;
mod objects;
mod rates;
mod strings;
mod sweeps;
#[cfg(test)]
mod tests;

pub use curve::Device;
pub use curve::Model;
pub use curve::Point;
pub use error::PredictError;
