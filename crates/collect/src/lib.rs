//! Sensors that observe a program from outside: every swap-in fault with its latency and every eviction
//! with its owner, by BPF programs on tracepoints (`src/bpf`).
//!
//! ```text
//!   tracepoints -> per-processor rings (mapped memory) -> ring::Rings -> record::decode -> Observation
//!   exec, fork, exit -> BPF ring buffer ------------------------------^
//!   preloaded library -> rings in shared memory -> allocations::AllocationServer -> abi::Record
//! ```
//!
//! [`SwapSensor::load`] needs CAP_BPF and CAP_PERFMON and a kernel with BTF. It probes for features, never
//! for kernel versions.

pub mod allocations;
mod calibrate;
mod driver;
mod error;
mod features;
mod perf_event;
pub mod record;
mod ring;

pub use allocations::AllocationServer;
pub use calibrate::Layout;
pub use calibrate::calibrate;
pub use driver::Options;
pub use driver::SwapSensor;
pub use driver::Totals;
pub use error::CollectError;
pub use record::Observation;
