//! `pagewise guard`.

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod errors;
mod harder;
mod memory;
mod options;
mod planted;
mod recycled;
mod surroundings;
mod weaknesses;
