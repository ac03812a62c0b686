//! From addresses to modules, functions, lines and variables.
//!
//! A sensor knows an allocation as registers and a copy of the stack's top, or as a list of
//! addresses. This crate turns that into what a programmer calls it:
//!
//! ```text
//! /proc/PID/maps --parse_maps--> ModuleTable          which file is loaded where
//! registers, stack --ProcessUnwinder--> addresses     the call path (unwind)
//! address --ModuleTable--> file, SVMA --Symbolizer--> [Frame]
//! [Frame] --Namer--> Site                             "x (main.cpp:41)"
//! file --globals--> [Global]                          static storage, by name and size
//! ```
//!
//! Addresses in a process and addresses stated in a file (SVMA) differ by the module's bias; the
//! names of fields and parameters say which is meant. All files are read on the machine where
//! the process ran. The crate does no I/O but reading modules, debug information and sources, and
//! asking debuginfod servers if it is told to; it contains no `unsafe` code.
//!
//! Code generated at run time is named by the files its maker leaves for profilers.
//!
//! What it does not do: read the memory of other processes, or follow processes as they map and
//! unmap code.

#![forbid(unsafe_code)]

pub mod c_syntax;
mod debug_file;
mod debuginfod;
mod declared;
mod demangle;
mod dwarf;
mod dwarf_entry;
mod elf;
mod error;
mod frame;
mod globals;
mod globals_dwarf;
mod jit;
mod maps;
mod modules;
mod naming;
mod roots;
mod symbolize;
mod type_name;
mod type_parts;
pub mod unwind;
mod variable_path;
mod variables;

pub use debug_file::build_id;
pub use debuginfod::{debuginfod_failures, use_debuginfod};
pub use demangle::demangle;
pub use elf::{ElfCache, ElfImage, Segment};
pub use error::{Error, Result};
pub use frame::{Frame, display_file, lookup_address};
pub use globals::{Global, globals};
pub use jit::{generated_code_names, names_generated_code};
pub use maps::{Mapping, parse_maps};
pub use modules::{Module, ModuleTable};
pub use naming::{
    InTurn, Namer, Site, is_allocator_by_name, is_runtime, is_runtime_code, name_in_turn,
    simple_name,
};
pub use roots::{hold_root, path_inside};
pub use symbolize::Symbolizer;
