//! Patches for C and C++ sources: hints that name each allocation to the recorder, or a plan's locks and sweeps at the
//! lines that allocate, and what it tells the kernel of files at those that read and write.
//!
//! ```text
//!   Source: bytes, syntax tree -> allocator, container: what allocates -> binding: kept where, by which statement
//!                                                                   |
//!       unified diff <- diff: inserted text by line <- statement: may a call follow it?  <- hints | rules: which call
//!                                                   <- file_calls: may a call take its place? <- io_rules
//! ```
//!
//! Nothing is ever written to a source. What cannot be patched safely is refused, with its line, and the rest is patched.

#![forbid(unsafe_code)]

mod allocator;
mod annotate;
mod binding;
mod calls;
mod container;
mod declared;
mod diff;
mod error;
mod expression;
mod file_calls;
mod include;
mod io_rules;
mod kind;
mod macros;
mod patch;
mod pragma;
mod rules;
mod source;
mod statement;

pub use annotate::Annotated;
pub use annotate::Found;
pub use annotate::FoundCall;
pub use annotate::Refusal;
pub use annotate::hints;
pub use error::SourceError;
pub use rules::from_plan;
pub use rules::without_source;
pub use source::Source;
