//! Call paths with names. Each frame is held once, a path is a list of their numbers: a recursive program has a hundred
//! thousand paths of a hundred frames each, made of a few thousand places in its code.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pagewise_trace::Frame;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::object::ObjectFrame;

/// Some of a trace's call paths.
#[derive(Default)]
pub(crate) struct FramePaths {
    frames: Vec<Arc<ObjectFrame>>,
    numbers: HashMap<Arc<ObjectFrame>, u32, RandomState>,
    /// By number in the trace, innermost frame first.
    paths: HashMap<u32, Vec<u32>, RandomState>,
}

impl FramePaths {
    /// Reads those that are wanted, by their number in the trace.
    pub(crate) fn read(trace: &Trace, wanted: impl Fn(u32) -> bool) -> Result<Self, TraceError> {
        let offsets = Offsets::read(trace, &wanted)?;
        let mut result = Self::default();
        for frame in trace.rows::<Frame>()? {
            let frame = frame?;
            if !wanted(frame.stack) {
                continue;
            }
            let offset = match frame.line {
                Some(_) => None,
                None => offsets.of(frame.stack, frame.depth),
            };
            result.add(
                frame.stack,
                ObjectFrame {
                    function: frame.function,
                    file: frame.file,
                    line: frame.line,
                    module: frame.module,
                    module_offset: offset,
                    inlined: frame.inlined,
                },
            );
        }
        Ok(result)
    }

    /// Adds a path's next frame outwards.
    pub(crate) fn add(&mut self, stack: u32, frame: ObjectFrame) {
        let number = match self.numbers.get(&frame) {
            Some(&number) => number,
            None => {
                let (number, frame) = (self.frames.len() as u32, Arc::new(frame));
                self.numbers.insert(Arc::clone(&frame), number);
                self.frames.push(frame);
                number
            }
        };
        self.paths.entry(stack).or_default().push(number);
    }

    /// The numbers of a path's frames: equal numbers are equal names. Empty: it has none.
    pub(crate) fn numbers(&self, stack: u32) -> &[u32] {
        self.paths.get(&stack).map_or(&[], Vec::as_slice)
    }

    /// The frames of these numbers.
    pub(crate) fn frames(&self, numbers: &[u32]) -> Vec<Arc<ObjectFrame>> {
        let frame = |number: &u32| Arc::clone(&self.frames[*number as usize]);
        numbers.iter().map(frame).collect()
    }

    /// All paths that have frames.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = u32> {
        self.paths.keys().copied()
    }
}

/// Where in its module each frame is.
struct Offsets(Vec<(u32, u16, u64)>);

impl Offsets {
    fn read(trace: &Trace, wanted: impl Fn(u32) -> bool) -> Result<Self, TraceError> {
        let mut offsets = Vec::new();
        for frame in trace.rows::<StackFrame>()? {
            let frame = frame?;
            if let Some(offset) = frame.module_offset
                && wanted(frame.stack)
            {
                offsets.push((frame.stack, frame.depth, offset));
            }
        }
        offsets.sort_unstable();
        Ok(Self(offsets))
    }

    fn of(&self, stack: u32, depth: u16) -> Option<u64> {
        let key = |&(stack, depth, _): &(u32, u16, u64)| (stack, depth);
        let at = self.0.binary_search_by_key(&(stack, depth), key).ok()?;
        Some(self.0[at].2)
    }
}
