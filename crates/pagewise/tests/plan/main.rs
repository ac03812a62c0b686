//! `pagewise plan`, `apply` and `annotate`.

#[path = "../common/mod.rs"]
mod common;

mod annotating;
mod applying;
mod comparing;
mod fresh;
mod huge;
mod planning;
