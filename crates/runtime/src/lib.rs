//! Preloaded into the observed program: tells the recorder of every large allocation and of a sample of the small ones,
//! with the stack they were made on, and of their releases. All others pass straight through.
//!
//! And puts a plan into force (`plan`): the objects that it names are locked, streamed, paged out, and hints are given for the I/O
//! calls that it names (`file_io`, `streams`, `descriptors`). Where a recorder wants it, the same hooks tell of calls on files
//! (`file_calls`).
//!
//! Hooks are thin (`allocator`, `mapping`, `shared_memory`, `heap_end`); which blocks are recorded is decided in `blocks`, by the recorder's
//! `settings` and by how fast it allocates (`pace`), and how in `stream`.

pub mod allocator;
pub mod api;
mod blocks;
pub mod descriptors;
mod file_calls;
pub mod file_io;
pub mod handover;
pub mod heap_end;
pub mod locking;
pub mod mapping;
mod pace;
mod plan;
pub mod sandbox;
mod settings;
pub mod shared_memory;
mod stream;
pub mod streams;
