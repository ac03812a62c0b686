//! Huge pages of another process: making them, splitting them, and where they can be.
//!
//! All of it works on a process that knows nothing of it, by `process_madvise(2)` through a pidfd.

mod advise;
mod areas;
mod costs;
mod fragmentation;
mod probe;

pub use advise::Refusal;
pub use advise::collapse;
pub use advise::split;
pub use areas::Area;
pub use areas::AreaFinder;
pub use areas::switched_off;
pub use costs::Costs;
pub use costs::Touch;
pub use costs::costs;
pub use costs::set_accessed_ns;
pub use fragmentation::fragmentation;
pub use probe::Features;
pub use probe::features;

/// Bytes of a huge page.
pub const BYTES: u64 = 2 << 20;
