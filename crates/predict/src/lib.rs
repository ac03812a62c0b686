//! How a recorded program would swap with more or less memory.
//!
//! ```text
//!   recording --history--> what is known of each page --sweeps, rates, ages--> a string of references
//!             --simulate--> swap-ins at each size
//! ```
//!
//! A recording sees an access only where the page was missing, and, of pages that were looked at, whether they
//! were accessed between two looks: of all with `--access`, of some that stand for all by default. What happened to pages in memory is made up to fit that: sweeps passed over the pages between those
//! that were missing; a page that left had not been accessed since it was last looked at by the kernel or by us; one that
//! stayed for longer than pages do that are not accessed was accessed; what comes back at equal times, or looks tell to be
//! gone through in rounds, is accessed once a round; and else they are accessed as often as looks say, or pages of the same
//! 2 MiB when they were away. The string then runs through the simulator's `linux` policy at each size; where it would be too
//! long, that of a share of the pages. How well that does: docs/results-prediction.md.

#![forbid(unsafe_code)]

mod account;
mod ages;
mod clock;
mod costs;
mod curve;
mod departures;
mod doubts;
mod error;
mod faulters;
mod history;
mod looked;
mod looked_rounds;
mod looks;
mod losses;
mod objects;
mod pace;
mod periods;
mod random;
mod rates;
mod references;
mod sampling;
mod scans;
mod sightings;
mod stays;
mod streams;
mod strings;
mod sweeps;
#[cfg(test)]
mod tests;
mod touches;
mod treatment;
mod uses;
mod waits;

pub use clock::Clock;
pub use costs::Costs;
pub use curve::Device;
pub use curve::ENOUGH_SHARE;
pub use curve::Model;
pub use curve::Point;
pub use error::PredictError;
pub use looks::LookupRate;
pub use looks::lookup_rate;
pub use treatment::Treated;
pub use treatment::Treatment;
pub use uses::PageUses;
