//! Call paths with names. Each frame is held once, a path is a list of their numbers: a recursive program has a hundred
//! thousand paths of a hundred frames each, made of a few thousand places in its code.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pagewise_trace::Frame;
use pagewise_trace::FrameOffset;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::object::ObjectFrame;

/// What the module of generated code with names is called, whichever process it was generated in.
const GENERATED: &str = "[generated code]";

fn is_of_generated_code(module: Option<&str>) -> bool {
    module.is_some_and(pagewise_attribute::names_generated_code)
}

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
    pub(crate) fn read(trace: &Trace, wanted: &Wanted) -> Result<Self, TraceError> {
        let mut offsets = Offsets::read(trace, wanted)?;
        let mut result = Self::default();
        let mut is_wanted = remembering(|stack| wanted.contains(&stack));
        for frame in trace.rows::<Frame>()? {
            let frame = frame?;
            if !is_wanted(frame.stack) {
                continue;
            }
            let is_generated =
                frame.function.is_some() && is_of_generated_code(frame.module.as_deref());
            let offset = match frame.line {
                // It lies elsewhere in each process, and after each compilation.
                _ if is_generated => None,
                Some(_) => None,
                None => offsets.of(frame.stack, frame.depth),
            };
            let module = match is_generated {
                true => Some(GENERATED.to_owned()),
                false => frame.module,
            };
            result.add(
                frame.stack,
                ObjectFrame {
                    function: frame.function,
                    file: frame.file,
                    line: frame.line,
                    module,
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

    /// Whether frames of these numbers are at places of the same function.
    pub(crate) fn are_of_one_function(&self, one: u32, other: u32) -> bool {
        let function = |number: u32| {
            let frame = &self.frames[number as usize];
            frame
                .function
                .as_ref()
                .map(|name| (name, &frame.file, &frame.module))
        };
        one == other || function(one).is_some_and(|one| function(other) == Some(one))
    }

    /// All paths that have frames.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = u32> {
        self.paths.keys().copied()
    }
}

/// Numbers of call paths.
type Wanted = HashSet<u32, RandomState>;

/// Answers as `ask` does, and asks once for all rows of a path, which follow each other.
fn remembering(ask: impl Fn(u32) -> bool) -> impl FnMut(u32) -> bool {
    let mut last = None;
    move |stack| match last {
        Some((of, answer)) if of == stack => answer,
        _ => {
            let answer = ask(stack);
            last = Some((stack, answer));
            answer
        }
    }
}

/// Where in its module each frame is.
struct Offsets {
    /// Path, depth and offset, sorted.
    rows: Vec<(u32, u16, u64)>,
    /// Where the last one asked for is: the next mostly follows it.
    last: usize,
}

impl Offsets {
    fn read(trace: &Trace, wanted: &Wanted) -> Result<Self, TraceError> {
        let mut rows = Vec::new();
        let mut is_wanted = remembering(|stack| wanted.contains(&stack));
        for frame in trace.rows::<FrameOffset>()? {
            let frame = frame?;
            if let Some(offset) = frame.module_offset
                && is_wanted(frame.stack)
            {
                rows.push((frame.stack, frame.depth, offset));
            }
        }
        rows.sort_unstable();
        Ok(Self { rows, last: 0 })
    }

    fn of(&mut self, stack: u32, depth: u16) -> Option<u64> {
        let key = |&(stack, depth, _): &(u32, u16, u64)| (stack, depth);
        let wanted = (stack, depth);
        let is_there = |at: &usize| self.rows.get(*at).map(key) == Some(wanted);
        let near = [self.last, self.last + 1].into_iter().find(is_there);
        self.last = match near {
            Some(near) => near,
            None => self.rows.binary_search_by_key(&wanted, key).ok()?,
        };
        Some(self.rows[self.last].2)
    }
}
