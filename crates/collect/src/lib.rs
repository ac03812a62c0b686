//! Sensors that observe a program from outside: every swap-in fault with its latency and every eviction
//! with its owner, by BPF programs on tracepoints (`src/bpf`).
//!
//! ```text
//!   tracepoints -> per-processor rings (mapped memory) -> ring::Rings -> record::decode -> Observation
//!   exec, fork, exit -> BPF ring buffer ------------------------------^
//!   stacks not seen before -> BPF ring buffer -> (unwound by the caller) -> Lesson -> path_memory -> programs
//!   page tables, walked when asked for -> access::Region
//!   preloaded library -> rings in shared memory -> allocations::AllocationServer -> abi::Record
//! ```
//!
//! [`SwapSensor::load`] needs CAP_BPF and CAP_PERFMON and a kernel with BTF. It probes for features, never
//! for kernel versions.

pub mod access;
pub mod allocation_ring;
mod allocations;
mod calibrate;
mod code_events;
mod driver;
mod error;
mod fault_events;
mod features;
pub mod io_record;
mod looks;
mod numbers;
mod page_regions;
pub mod page_walks;
mod path_memory;
mod perf_event;
mod perf_ring;
pub mod record;
pub mod residency;
mod ring;
mod running;
mod stalls;

pub use access::AccessSensor;
pub use allocations::AllocationServer;
pub use calibrate::Layout;
pub use calibrate::calibrate;
pub use code_events::CodeChange;
pub use code_events::CodeEvent;
pub use code_events::CodeEvents;
pub use driver::Options;
pub use driver::Spaces;
pub use driver::SwapSensor;
pub use driver::Totals;
pub use error::CollectError;
pub use fault_events::FaultEvent;
pub use fault_events::FaultEvents;
pub use features::require_io;
pub use page_regions::PageRegions;
pub use page_regions::zeros_of;
pub use path_memory::CopiedStack;
pub use path_memory::Lesson;
pub use path_memory::Slot;
pub use record::CallPath;
pub use record::Observation;
pub use stalls::Delays;
