//! Preloaded into the observed program: tells the recorder of every large allocation, with the stack it was made
//! on, and of every release. Small ones pass straight through.
//!
//! Hooks are thin (`allocator`, `mapping`); what is recorded, and when not, is decided in `stream`.

pub mod allocator;
pub mod mapping;
mod stream;
