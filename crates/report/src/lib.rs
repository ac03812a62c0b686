//! Reports for people and for scripts.
