//! Reports for people ([`text`], [`html`]) and for scripts ([`json`]), from the same findings.

#![forbid(unsafe_code)]

pub mod diff;
mod error_text;
mod file_io;
pub mod html;
pub mod json;
pub mod source;
mod strip;
pub mod text;
mod units;
pub mod what_if;

pub use error_text::error_text;
pub use strip::strip_io_prefixes;
pub use strip::strip_prefixes;
pub use units::bytes;
pub use units::count;
pub use units::duration;
