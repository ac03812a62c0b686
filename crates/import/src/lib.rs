//! Other tools' files as rows of a trace.
//!
//! Readers stream: memory does not grow with the file. They write nothing, but hand out rows, so that a file can be
//! checked whole before anything is overwritten.

#![forbid(unsafe_code)]

pub mod damo;
mod error;

pub use error::ImportError;
