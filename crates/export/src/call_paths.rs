//! Call paths with their names.

use std::collections::BTreeMap;
use std::collections::HashMap;

use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// One function of a call path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// One address of a call path: the function there, and before it those inlined into it, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) module: Option<String>,
    /// As the module's file states it, or as it was in memory where no module is known.
    pub(crate) address: Option<u64>,
    pub(crate) functions: Vec<Function>,
}

/// All call paths of a recording by number, each innermost level first.
#[derive(Debug, Default)]
pub(crate) struct CallPaths(HashMap<u32, Vec<Level>>);

impl CallPaths {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut levels: BTreeMap<(u32, u16), Level> = BTreeMap::new();
        let mut frames = trace.frames()?;
        frames.sort_by_key(|frame| (frame.stack, frame.depth, frame.inline_index));
        for frame in frames {
            let level = levels.entry((frame.stack, frame.depth)).or_default();
            level.module = level.module.take().or(frame.module);
            level.functions.push(Function {
                name: frame.function,
                file: frame.file,
                line: frame.line,
            });
        }
        let named: std::collections::HashSet<u32> =
            levels.keys().map(|&(stack, _)| stack).collect();
        for frame in trace.stacks()? {
            let key = (frame.stack, frame.depth);
            // A named path lacks the frames of the preloaded library on purpose.
            if !named.contains(&frame.stack) || levels.contains_key(&key) {
                place(levels.entry(key).or_default(), frame);
            }
        }
        let mut paths: HashMap<u32, Vec<Level>> = HashMap::new();
        for ((stack, _), level) in levels {
            paths.entry(stack).or_default().push(level);
        }
        Ok(Self(paths))
    }

    /// The levels of a call path; none if it is not in the recording.
    pub(crate) fn levels(&self, stack: Option<u32>) -> &[Level] {
        let path = stack.and_then(|stack| self.0.get(&stack));
        path.map_or(&[], Vec::as_slice)
    }
}

/// Adds to a level where it is.
fn place(level: &mut Level, frame: StackFrame) {
    level.address = frame.module_offset.or(Some(frame.address));
    level.module = level.module.take().or(frame.module);
    if level.functions.is_empty() {
        level.functions.push(Function::default());
    }
}

impl Level {
    /// A name for one of its functions, also where none is known.
    pub(crate) fn name_of(&self, function: &Function) -> String {
        if let Some(name) = &function.name {
            return name.clone();
        }
        let module = self.module.as_deref();
        let module = module.map(|module| module.rsplit('/').next().unwrap_or(module));
        match (module, self.address) {
            (Some(module), Some(address)) => format!("{module}+{address:#x}"),
            (Some(module), None) => format!("[{module}]"),
            (None, Some(address)) => format!("{address:#x}"),
            (None, None) => "[unknown]".to_owned(),
        }
    }
}
