//! From addresses to modules, functions, lines and variables.
#![forbid(unsafe_code)]
mod debug_file;
mod declared;
mod demangle;
mod dwarf;
mod elf;
mod error;
mod frame;
mod globals;
mod globals_dwarf;
mod maps;
mod modules;
mod naming;
mod symbolize;
pub mod unwind;
pub use elf::{ElfCache, ElfImage, Segment};
pub use error::{Error, Result};
pub use frame::{Frame, display_file, lookup_address};
pub use maps::{Mapping, parse_maps};
pub use modules::{Module, ModuleTable};
pub use symbolize::Symbolizer;
pub use globals::{Global, globals};
pub use naming::{Namer, Site};
