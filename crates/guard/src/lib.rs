//! Preloaded by `pagewise guard`: an allocator whose objects end at a guard page, so that the processor stops the very
//! instruction that goes too far; and whose objects stay behind one after they were given back.
//!
//! ```text
//!   hooks, operators      malloc and kin, new and delete ---\
//!   buffers, strings      read, memcpy and kin: arguments    -> heap: one arena of slots   -> report -> the launcher
//!   signals               faults of the program          ---/     |                              (a ring of `interpose`)
//!   heap  = ledger (which slot is in which state) + placement (where in its slot) + protect (guards)
//!   compaction = what is cold goes to a store without its padding, and comes back when it is touched
//!   paths = call paths, each kept once
//! ```
//!
//! Nothing here allocates. Slots' facts lie apart from the objects: what a program overwrites is never ours.

mod arena;
pub mod buffers;
mod cancel;
mod careful;
mod checks;
mod compaction;
mod context;
mod descriptor;
pub mod ending;
mod heap;
pub mod hooks;
#[cfg(target_arch = "x86_64")]
mod instruction;
mod judge;
mod leaks;
mod ledger;
mod lock;
mod mappings;
pub mod masks;
pub mod numbered;
#[cfg_attr(
    test,
    expect(non_snake_case, reason = "the names that C++ compilers make")
)]
pub mod operators;
mod own_memory;
mod own_stack;
mod page;
mod pages;
mod paths;
mod placement;
mod plain;
mod protect;
mod queue;
mod recycle;
mod release;
#[cfg(target_arch = "x86_64")]
mod repair;
mod report;
mod reserve;
pub mod sandbox;
mod settings;
pub mod signals;
mod slot;
pub mod strings;
mod system;
mod unguarded;
mod userfault;
mod wrap;
