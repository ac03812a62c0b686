//! What the addresses on call paths tell, without their names.
//!
//! **Cut paths.** The stacks that come with a program's first allocations may be too short for their call paths, and the
//! next ones are not. Where nothing but the call path tells sites apart, both would be sites of their own.
//!
//! **Calls under way.** A fault whose path goes through the preloaded library happened inside a call that allocates
//! (`calloc` writes zeros, `realloc` copies), of which the recording tells only when it returns.

use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;

use foldhash::fast::RandomState;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::names::is_ours;

/// So many callers say which call it was. The outer ones may be missing: their part of the stack may be in swap.
const CALLERS: usize = 3;

/// What is known of a trace's call paths, by number.
#[derive(Debug, Default)]
pub(crate) struct CallPaths {
    whole: HashMap<u32, u32>,
    /// Of faults inside a hooked call, who called it, as a hash.
    faults: HashMap<u32, u64, RandomState>,
    /// Of allocations, who called; empty if there are no such faults.
    allocations: HashMap<u32, u64, RandomState>,
}

impl CallPaths {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let (mut paths, mut cut) = (Self::default(), CutPaths::default());
        for_each_path(trace, |frames| {
            paths.note(frames);
            if is_cut(frames) {
                cut.add_cut(frames);
            }
        })?;
        if paths.faults.is_empty() {
            paths.allocations = HashMap::default();
        }
        if !cut.wanted.is_empty() {
            for_each_path(trace, |frames| {
                if !is_cut(frames) {
                    cut.add_whole(frames);
                }
            })?;
        }
        paths.whole = cut.finish();
        Ok(paths)
    }

    fn note(&mut self, frames: &[StackFrame]) {
        let Some(ours) = frames.iter().position(is_ours) else {
            return;
        };
        let callers = frames[ours..].iter().skip_while(|frame| is_ours(frame));
        let mut hasher = DefaultHasher::new();
        let count = callers
            .take(CALLERS)
            .map(|frame| hash_place(frame, &mut hasher))
            .count();
        if count > 0 {
            // An allocation's stack is taken in the library itself.
            let paths = match ours {
                0 => &mut self.allocations,
                _ => &mut self.faults,
            };
            paths.insert(frames[0].stack, hasher.finish());
        }
    }

    /// The whole call path that this one is the beginning of; itself if that is not known.
    pub(crate) fn whole(&self, stack: u32) -> u32 {
        self.whole.get(&stack).copied().unwrap_or(stack)
    }

    /// Whether any fault happened inside a call that allocates.
    pub(crate) fn any_in_call(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Whether a fault on this path happened inside a call that allocates.
    pub(crate) fn is_in_call(&self, fault: u32) -> bool {
        self.faults.contains_key(&fault)
    }

    /// Whether a fault on this path happened inside a call as the one that made an allocation: by the same callers.
    pub(crate) fn is_same_call(&self, fault: u32, allocation: u32) -> bool {
        let callers = self.faults.get(&fault);
        callers.is_some() && callers == self.allocations.get(&allocation)
    }
}

/// Goes through all call paths: each one's frames, innermost first. Rows of one path follow each other.
fn for_each_path(trace: &Trace, mut each: impl FnMut(&[StackFrame])) -> Result<(), TraceError> {
    let mut path: Vec<StackFrame> = Vec::new();
    let mut end = |path: &mut Vec<StackFrame>| {
        if !path.is_empty() {
            path.sort_by_key(|frame| frame.depth);
            each(path);
            path.clear();
        }
    };
    for frame in trace.rows::<StackFrame>()? {
        let frame = frame?;
        if path.first().is_some_and(|first| first.stack != frame.stack) {
            end(&mut path);
        }
        path.push(frame);
    }
    end(&mut path);
    Ok(())
}

fn is_cut(frames: &[StackFrame]) -> bool {
    frames.iter().any(|frame| frame.truncated)
}

fn hash_place(frame: &StackFrame, hasher: &mut DefaultHasher) {
    match frame.module_offset {
        Some(offset) => (&frame.module, offset).hash(hasher),
        None => frame.address.hash(hasher),
    }
}

/// Of each cut call path the whole one, if there is exactly one that begins so. The cut ones come first.
#[derive(Default)]
struct CutPaths {
    /// By the hash of their frames.
    wanted: HashMap<u64, Vec<u32>>,
    found: HashMap<u64, Option<u32>>,
}

impl CutPaths {
    fn add_cut(&mut self, frames: &[StackFrame]) {
        if let Some(whole) = prefixes(frames).last() {
            self.wanted.entry(whole).or_default().push(frames[0].stack);
        }
    }

    fn add_whole(&mut self, frames: &[StackFrame]) {
        for prefix in prefixes(frames).filter(|at| self.wanted.contains_key(at)) {
            self.found
                .entry(prefix)
                .and_modify(|only| *only = None)
                .or_insert(Some(frames[0].stack));
        }
    }

    fn finish(self) -> HashMap<u32, u32> {
        let unique = self
            .found
            .into_iter()
            .filter_map(|(prefix, only)| Some((prefix, only?)));
        let of_each = unique.flat_map(|(prefix, whole)| {
            let cut = self.wanted.get(&prefix).into_iter().flatten();
            cut.map(move |&stack| (stack, whole))
        });
        of_each.collect()
    }
}

/// By depth: of all frames up to it, the hash.
fn prefixes(frames: &[StackFrame]) -> impl Iterator<Item = u64> {
    let mut hasher = DefaultHasher::new();
    frames.iter().map(move |frame| {
        hash_place(frame, &mut hasher);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(stack: u32, addresses: &[u64], truncated: bool) -> Vec<StackFrame> {
        let frame = |(depth, &address): (usize, &u64)| StackFrame {
            stack,
            depth: depth as u16,
            address,
            module: None,
            module_offset: None,
            truncated,
        };
        addresses.iter().enumerate().map(frame).collect()
    }

    fn whole(cut: &[(u32, &[u64])], whole: &[(u32, &[u64])]) -> HashMap<u32, u32> {
        let mut paths = CutPaths::default();
        for (stack, addresses) in cut {
            paths.add_cut(&path(*stack, addresses, true));
        }
        for (stack, addresses) in whole {
            paths.add_whole(&path(*stack, addresses, false));
        }
        paths.finish()
    }

    #[test]
    fn a_cut_path_is_the_whole_one_it_begins() {
        let found = whole(
            &[(1, &[10, 20]), (4, &[11, 20])],
            &[(2, &[10, 20, 30]), (3, &[10, 21, 30])],
        );
        assert_eq!(found, HashMap::from([(1, 2)]));
    }

    #[test]
    fn a_beginning_of_several_stays_by_itself() {
        let found = whole(&[(1, &[10])], &[(2, &[10, 20]), (3, &[10, 30])]);
        assert_eq!(found, HashMap::new());
    }

    #[test]
    fn calls_are_the_same_if_their_callers_are() {
        let of = |stack: u32, addresses: &[u64], ours: usize| {
            let mut frames = path(stack, addresses, false);
            frames[ours].module = Some("/opt/lib/libpagewise_runtime.so".to_owned());
            frames
        };
        let mut paths = CallPaths::default();
        paths.note(&of(1, &[5, 20, 30, 40, 50], 0));
        paths.note(&of(2, &[7, 8, 5, 20, 30, 40, 51], 2));
        paths.note(&of(3, &[7, 8, 5, 21, 30, 40, 50], 2));
        paths.note(&path(4, &[20, 30, 40], false));
        assert!(paths.is_same_call(2, 1), "farther callers do not count");
        assert!(!paths.is_same_call(3, 1), "another line of the caller");
        assert!(!paths.is_same_call(4, 1) && !paths.is_in_call(4));
    }
}
