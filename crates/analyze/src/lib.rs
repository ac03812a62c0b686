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

mod access;
mod address_map;
mod apportion;
mod attribution;
mod call_paths;
mod code_places;
mod counted;
mod counts;
mod coverage;
mod fault_paths;
pub mod file_io;
mod findings;
mod frame_paths;
mod given_names;
mod heap_page;
mod heat;
mod histogram;
mod identity;
mod layers;
mod length;
mod memory_need;
pub mod names;
mod object;
mod observed;
mod pattern;
mod recency;
mod residency;
mod spaces;
mod strings;
mod sums;
mod swap_in_sample;
mod swapped;
mod tallies;
mod thread_heaps;
mod timeline;
mod visits;
mod waiting;
mod waits;
mod write_looks;

pub use access::WorkingSet;
pub use attribution::Attribution;
pub use attribution::Located;
pub use counts::Counts;
pub use coverage::Coverage;
pub use coverage::CoverageBucket;
pub use coverage::REGION_BYTES;
pub use coverage::RegionCoverage;
pub use fault_paths::FaultPath;
pub use fault_paths::WorstPath;
pub use findings::Findings;
pub use findings::analyze;
pub use findings::analyze_with;
pub use heap_page::heap_bytes_of_block;
pub use histogram::Histogram;
pub use identity::Identity;
pub use identity::ObjectKind;
pub use identity::bare;
pub use length::observed_ns;
pub use memory_need::AVOIDED_SHARE;
pub use memory_need::MemoryNeed;
pub use memory_need::NeedPoint;
pub use object::Object;
pub use object::ObjectFrame;
pub use observed::Observed;
pub use pattern::Pattern;
pub use pattern::PatternFacts;
pub use pattern::Phase;
pub use spaces::SmallBlocks;
pub use sums::ObjectSum;
pub use sums::sum_by_object;
pub use swap_in_sample::SampledSwapIn;
pub use swap_in_sample::SwapInSample;
pub use timeline::MemoryUse;
pub use timeline::Reclaim;
pub use timeline::Timeline;
pub use waits::PsiScope;
pub use waits::Waits;
