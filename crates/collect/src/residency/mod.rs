//! Which pages of a process are in memory, in swap or nowhere: its page tables, looked at again and again from outside.
//!
//! ```text
//!   pagemap    one look at a part of an address space: PAGEMAP_SCAN, or /proc/PID/pagemap read in bulk
//!   runs       what was seen last, and what differs from it now
//!   scanner    whole scans, a part at a time, and their bounds
//! ```
//!
//! Needs no privilege for processes of one's own: what `ptrace` may read (PTRACE_MODE_READ, fs/proc/task_mmu.c, 6.12).
//! The target is not stopped; while a part is looked at, its `mmap` and `munmap` wait.

pub(crate) mod pagemap;
pub(crate) mod request;
mod runs;
mod scanner;
mod vmas;

pub use pagemap::Method;
pub use pagemap::method;
pub use runs::Seen;
pub use runs::State;
pub use scanner::Change;
pub use scanner::Progress;
pub use scanner::Scan;
pub use scanner::Scanner;
pub use vmas::Vma;
pub use vmas::pieces;
pub use vmas::vmas;
