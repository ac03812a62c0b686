//! Which address spaces begin as a copy of another.

use std::collections::HashMap;

use crate::error::TraceError;
use crate::tables::Space;
use crate::trace::Trace;

/// Address spaces that were forked and run the same program still. After exec the process is the same and its memory is not; after fork it
/// is the other way round. After `vfork` and exec (a shell's commands, `posix_spawn`) neither is: only that it has called exec once more
/// tells it from a fork.
///
/// # Errors
/// [`TraceError`]: the table cannot be read.
pub fn forked(trace: &Trace) -> Result<Vec<Space>, TraceError> {
    let mut spaces: Vec<Space> = trace.spaces()?;
    let of: HashMap<u32, (u32, u32)> = spaces
        .iter()
        .map(|space| (space.space, (space.pid, space.exec_epoch)))
        .collect();
    spaces.retain(|space| {
        let parent = space.parent_space.and_then(|parent| of.get(&parent));
        parent.is_some_and(|&(pid, execs)| pid != space.pid && space.exec_epoch <= execs)
    });
    Ok(spaces)
}

/// The same, each with the one it was forked from, with whose memory it begins, and when, ns of `CLOCK_MONOTONIC`.
///
/// # Errors
/// [`TraceError`]: the table cannot be read.
pub fn forked_from(trace: &Trace) -> Result<HashMap<u32, (u32, u64)>, TraceError> {
    let forked = forked(trace)?.into_iter();
    let pairs =
        forked.filter_map(|space| Some((space.space, (space.parent_space?, space.begin_ns))));
    Ok(pairs.collect())
}
