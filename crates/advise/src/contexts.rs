//! How contexts of input and output are known again in another run: by their call paths, as allocations are.

use std::collections::BTreeSet;
use std::collections::HashSet;

use pagewise_analyze::file_io::FileIo;
use pagewise_plan::Frame;
use pagewise_plan::Site;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::rivals::harmful;
use crate::rivals::parties;
use crate::targets::Targets;

/// How one call path of a context is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// Its number in the trace.
    pub stack: u32,
    /// Return addresses of the program and its own libraries, innermost first: what [`Site::of`] makes a key of. Or why that
    /// cannot be told. Where contexts that want different things differ in libraries of the system only, of these libraries, too.
    pub path: Result<Vec<Frame>, String>,
}

/// Of each context in turn, its call paths.
///
/// # Errors
/// If the trace cannot be read.
pub fn context_paths(trace: &Trace, io: &FileIo) -> Result<Vec<Vec<ContextPath>>, TraceError> {
    context_paths_by(trace, io, Libraries::WhereNeeded)
}

/// Whether frames of the system's libraries may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Libraries {
    /// Never: a plan that names a library counts its frames in the paths of all its rules.
    Never,
    /// Where contexts that want different things cannot be told apart without.
    WhereNeeded,
}

/// The same, with or without the system's libraries.
pub(crate) fn context_paths_by(
    trace: &Trace,
    io: &FileIo,
    libraries: Libraries,
) -> Result<Vec<Vec<ContextPath>>, TraceError> {
    let used: HashSet<u32> = io
        .contexts
        .iter()
        .flat_map(|context| context.stacks.iter().copied())
        .collect();
    let targets = Targets::of_stacks(trace, &used)?;
    let own = paths(io, &targets, &BTreeSet::new());
    let confused = harmful(&parties(io, &own));
    if confused.is_empty() || libraries == Libraries::Never {
        return Ok(own);
    }
    let stacks = confused.iter().flat_map(|&at| &io.contexts[at].stacks);
    let longer = paths(io, &targets, &targets.nameable_libraries(stacks));
    let is_better = harmful(&parties(io, &longer)).len() < confused.len();
    Ok(if is_better { longer } else { own })
}

/// `libraries`: those of the system that count.
fn paths(io: &FileIo, targets: &Targets, libraries: &BTreeSet<&str>) -> Vec<Vec<ContextPath>> {
    let of_stack = |&stack: &u32| {
        let path = targets
            .path_of_call(stack, libraries)
            .and_then(|path| match path.is_empty() {
                true => Err("no frame of its call path is the program's own".to_owned()),
                false => Ok(path),
            });
        ContextPath { stack, path }
    };
    let contexts = io.contexts.iter();
    contexts
        .map(|context| context.stacks.iter().map(of_stack).collect())
        .collect()
}

/// Gives contexts the keys that plans know them by.
///
/// # Errors
/// If the trace cannot be read.
pub fn add_context_keys(trace: &Trace, io: &mut FileIo) -> Result<(), TraceError> {
    let paths = context_paths(trace, io)?;
    for (context, paths) in io.contexts.iter_mut().zip(paths) {
        let keys = paths.iter().filter_map(|path| path.path.as_deref().ok());
        context.keys = keys.map(|path| Site::of(path).to_string()).collect();
        context.keys.sort_unstable();
        context.keys.dedup();
    }
    Ok(())
}
