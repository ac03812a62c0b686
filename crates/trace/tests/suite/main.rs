//! Traces written, read, damaged and recovered. One executable, as each would compile the tables' readers and writers anew;
//! `fuzz` is apart, as it limits its own memory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/storm.rs"]
mod storm;

mod damage;
mod document;
mod format;
mod kill;
mod memory;
mod round_trip;
mod size;
