//! Control groups, v1 and v2: where the memory controller is, and cgroups made for one run.

mod around;
mod delegated;
mod find;
mod host;
mod members;
mod memory;
mod relief;

pub use around::CgroupRoom;
pub use around::LimitAround;
pub use delegated::DELEGATED;
pub use delegated::delegation_command;
pub use find::all_processes;
pub use find::find;
pub use host::CgroupHost;
pub use host::CgroupVersion;
pub use memory::LimitKind;
pub use memory::MemoryCgroup;
pub use memory::MemoryCounters;
pub use relief::OomRelief;

pub(crate) use host::disable_controller;
pub(crate) use members::kill_all;
pub(crate) use members::remove;
