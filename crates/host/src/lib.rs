//! What the host offers: processes, cgroups, swap, limits, and putting them back.
//!
//! ```text
//!   check                        what this kernel and user may do
//!   size, process, counters      numbers from the user and from /proc
//!   swap, cgroup  --undo-->  restorer  --the same, by socket-->  keeper
//!   launch                       start the program inside all that
//! ```
//!
//! **Whatever is changed is put back in every way a run can end.** Each change is first described as
//! an [`UndoAction`], given to the [`Restorer`], which tells the [`keeper`] process before the change
//! is made. The restorer undoes when the run ends; the keeper does so when the recorder was killed; where
//! both were killed, the next run does ([`undo_log`]).
//! Undo actions may be performed twice, or when the change was never made: they then do nothing.
//!
//! Not here: BPF and perf events (`collect`), and anything that interprets what was seen.

mod advice;
mod capabilities;
pub mod cgroup;
pub mod check;
pub mod cold;
pub mod counters;
mod error;
pub mod family;
mod files;
pub mod huge_pages;
pub mod journal;
pub mod keeper;
pub mod launch;
mod lockable;
pub mod open_file;
pub mod open_files;
pub mod page_out;
pub mod process;
mod restorer;
mod running;
pub mod signals;
pub mod size;
pub mod swap;
pub mod undo_log;

pub use capabilities::Capabilities;
pub use cgroup::CgroupHost;
pub use cgroup::CgroupRoom;
pub use cgroup::CgroupVersion;
pub use cgroup::LimitKind;
pub use cgroup::MemoryCgroup;
pub use cgroup::OomRelief;
pub use check::HostFacts;
pub use error::Error;
pub use error::Result;
pub use journal::UndoAction;
pub use journal::shell_word;
pub use keeper::Keeper;
pub use launch::Exit;
pub use launch::Launched;
pub use launch::Program;
pub use lockable::lockable_bytes;
pub use restorer::Failure;
pub use restorer::Mark;
pub use restorer::Restorer;
pub use restorer::Ticket;
pub use running::RunningProcess;
pub use size::MemorySize;
pub use swap::SwapRequest;
pub use swap::TemporarySwap;

/// Bytes of a base page of this machine.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}
