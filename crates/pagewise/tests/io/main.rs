//! Calls on files: recorded by context, and hints for them.

#[path = "../common/mod.rs"]
mod common;

mod hints;
mod outside;
mod planned;
mod pools;
mod recording;
mod without_root;
