//! Call paths that were cut short, and which whole one each is the beginning of.
//!
//! The stacks that come with a program's first allocations may be too short for their call paths, and the next ones are
//! not. Where nothing but the call path tells sites apart, both would be sites of their own.

use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;

use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Of each cut call path the whole one, by number, if there is exactly one that begins so.
#[derive(Debug, Default)]
pub(crate) struct WholePaths(HashMap<u32, u32>);

#[derive(Default)]
struct Path {
    /// By depth: of all frames up to it, the hash.
    prefixes: Vec<u64>,
    truncated: bool,
}

impl WholePaths {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut frames: HashMap<u32, Vec<StackFrame>> = HashMap::new();
        for frame in trace.rows::<StackFrame>()? {
            let frame = frame?;
            frames.entry(frame.stack).or_default().push(frame);
        }
        let paths: HashMap<u32, Path> = frames
            .into_iter()
            .map(|(stack, frames)| (stack, path(frames)))
            .collect();
        Ok(Self::of(&paths))
    }

    fn of(paths: &HashMap<u32, Path>) -> Self {
        let mut wanted: HashMap<u64, Vec<u32>> = HashMap::new();
        for (&stack, path) in paths.iter().filter(|(_, path)| path.truncated) {
            if let Some(&whole) = path.prefixes.last() {
                wanted.entry(whole).or_default().push(stack);
            }
        }
        let mut found: HashMap<u64, Option<u32>> = HashMap::new();
        for (&stack, path) in paths.iter().filter(|(_, path)| !path.truncated) {
            for prefix in path.prefixes.iter().filter(|at| wanted.contains_key(at)) {
                found
                    .entry(*prefix)
                    .and_modify(|only| *only = None)
                    .or_insert(Some(stack));
            }
        }
        let unique = found
            .into_iter()
            .filter_map(|(prefix, only)| Some((prefix, only?)));
        let of_each = unique.flat_map(|(prefix, whole)| {
            let cut = wanted.get(&prefix).into_iter().flatten();
            cut.map(move |&stack| (stack, whole))
        });
        Self(of_each.collect())
    }

    /// The whole call path that this one is the beginning of; itself if that is not known.
    pub(crate) fn whole(&self, stack: u32) -> u32 {
        self.0.get(&stack).copied().unwrap_or(stack)
    }
}

fn path(mut frames: Vec<StackFrame>) -> Path {
    frames.sort_by_key(|frame| frame.depth);
    let truncated = frames.iter().any(|frame| frame.truncated);
    let mut hasher = DefaultHasher::new();
    let prefixes = frames.into_iter().map(|frame| {
        match frame.module_offset {
            Some(offset) => (frame.module, offset).hash(&mut hasher),
            None => frame.address.hash(&mut hasher),
        }
        hasher.finish()
    });
    Path {
        prefixes: prefixes.collect(),
        truncated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(described: &[(u32, &[u64], bool)]) -> HashMap<u32, Path> {
        let one = |&(stack, addresses, truncated): &(u32, &[u64], bool)| {
            let frame = |(depth, &address): (usize, &u64)| StackFrame {
                stack,
                depth: depth as u16,
                address,
                module: None,
                module_offset: None,
                truncated,
            };
            (
                stack,
                path(addresses.iter().enumerate().map(frame).collect()),
            )
        };
        described.iter().map(one).collect()
    }

    #[test]
    fn a_cut_path_is_the_whole_one_it_begins() {
        let found = WholePaths::of(&paths(&[
            (1, &[10, 20], true),
            (2, &[10, 20, 30], false),
            (3, &[10, 21, 30], false),
            (4, &[11, 20], true),
        ]));
        assert_eq!((found.whole(1), found.whole(2), found.whole(4)), (2, 2, 4));
    }

    #[test]
    fn a_beginning_of_several_stays_by_itself() {
        let found = WholePaths::of(&paths(&[
            (1, &[10], true),
            (2, &[10, 20], false),
            (3, &[10, 30], false),
        ]));
        assert_eq!(found.whole(1), 1);
    }
}
