//! The formats, one file each.

pub(crate) mod address;
pub(crate) mod arc;
pub(crate) mod csv;
pub(crate) mod lackey;
pub(crate) mod lirs;
pub(crate) mod memtrace;
pub(crate) mod oracle_general;
pub(crate) mod pagewise;
pub(crate) mod vscsi;
