//! How contexts of input and output are known again in another run: by their call paths, as allocations are.

use std::collections::HashSet;

use pagewise_analyze::file_io::FileIo;
use pagewise_plan::Frame;
use pagewise_plan::Site;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::targets::Targets;

/// How one call path of a context is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// Its number in the trace.
    pub stack: u32,
    /// Return addresses of the program and its own libraries, innermost first: what [`Site::of`] makes a key of. Or why that
    /// cannot be told.
    pub path: Result<Vec<Frame>, String>,
}

/// Of each context in turn, its call paths.
///
/// # Errors
/// If the trace cannot be read.
pub fn context_paths(trace: &Trace, io: &FileIo) -> Result<Vec<Vec<ContextPath>>, TraceError> {
    let used: HashSet<u32> = io
        .contexts
        .iter()
        .flat_map(|context| context.stacks.iter().copied())
        .collect();
    let targets = Targets::of_stacks(trace, &used)?;
    let of_stack = |&stack: &u32| {
        let path = targets
            .path_of_call(stack)
            .and_then(|path| match path.is_empty() {
                true => Err("no frame of its call path is the program's own".to_owned()),
                false => Ok(path),
            });
        ContextPath { stack, path }
    };
    let contexts = io.contexts.iter();
    Ok(contexts
        .map(|context| context.stacks.iter().map(of_stack).collect())
        .collect())
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
