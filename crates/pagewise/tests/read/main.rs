//! What reads recordings and traces, and writes other documents.

#[path = "../common/mod.rs"]
mod common;

mod exports;
mod html;
mod hugepages;
mod simulate;
mod traces;
