//! Reports for people ([`text`]) and for scripts ([`json`]), from the same findings.

#![forbid(unsafe_code)]

pub mod json;
pub mod text;
mod units;

pub use units::bytes;
pub use units::count;
pub use units::duration;
