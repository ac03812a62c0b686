//! `pagewise record` and what `report` tells of it: sensors, ways to launch, ways to end.

#[path = "../common/mod.rs"]
mod common;

mod accesses;
mod call_paths;
mod containers;
mod debug_files;
mod descriptors;
mod endings;
mod exactness;
mod footprint;
mod limits;
mod names;
mod odd;
mod real_programs;
mod refusals;
mod residency;
mod running;
mod runtimes;
mod sampling;
mod sandboxes;
mod signals;
mod thread_limit;
mod together;
mod waits;
mod window;
