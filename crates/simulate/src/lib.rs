//! What another replacement policy, memory size or swap device would do. Pure: no input, no output, no clock.
//!
//! A decoder numbers the pages of a trace and packs each access into a [`Reference`]. A [`Simulation`] of one policy at
//! one memory size consumes them in chunks and counts misses and transfers ([`Outcome`]); what these cost on given
//! devices is computed afterwards ([`Outcome::io`]), with [storage models](Models) from a readable file.
//!
//! ```
//! use pagewise_simulate::{Level, Models, PolicyKind, Reference, Settings, Simulation};
//!
//! let storage = Models::built_in().storage("ufs3.1", "emram", Level::Typical)?;
//! let mut simulation = Simulation::new(&Settings::new(PolicyKind::Clock, 2, storage))?;
//! let trace = [0, 1, 2, 0].map(|page| Reference::new(page, true, false).expect("small numbers"));
//! simulation.feed(&trace);
//! let outcome = simulation.outcome();
//! assert_eq!((outcome.misses(), outcome.swap_writes, outcome.swap_reads), (4, 2, 1));
//! assert!(outcome.io(&storage).swap_write_ns > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod curve;
mod engine;
mod future;
mod histogram;
pub mod hugepages;
mod kind;
mod lists;
mod memory;
mod outcome;
mod policy;
mod reference;
mod sampling;
mod simulation;
mod stack;
mod storage;

pub use bound::lower_bound;
pub use curve::Curve;
pub use curve::CurveBuilder;
pub use kind::PolicyKind;
pub use kind::UnknownPolicy;
pub use outcome::IoTime;
pub use outcome::Outcome;
pub use reference::MAX_PAGES;
pub use reference::Reference;
pub use sampling::Sampler;
pub use simulation::Counters;
pub use simulation::DEFAULT_FLUSH_PERIOD;
pub use simulation::Settings;
pub use simulation::Simulation;
pub use simulation::SimulationError;
pub use storage::BUILT_IN;
pub use storage::Cost;
pub use storage::Device;
pub use storage::Fault;
pub use storage::Level;
pub use storage::Models;
pub use storage::Range;
pub use storage::Storage;
pub use storage::StorageError;
