//! Which variable of the user's program is an allocation, and on which of its lines was it made?
//!
//! An allocation is recorded as the call path that made it. Its inner frames belong to the
//! allocator and the language runtime; the first of the rest that has a source line is where the
//! *user's own* code asked for memory. The variable is read from that line of the source with a
//! syntax tree; where the source is missing or no longer fits, from the debug information.
//!
//! A function that only hands the memory to its caller (`xmalloc`, a factory) would give one name
//! to everything it makes: then the caller's line names the variable.

pub(crate) mod function_name;
mod in_turn;
mod runtime;
mod sources;
mod syntax;

use crate::declared::Declarations;
use crate::elf::FileStamp;
use crate::frame::{Frame, display_file};
use crate::variables::{Place, Variables};
pub use function_name::simple_name;
pub use in_turn::{InTurn, name_in_turn};
use runtime::is_interpreter;
pub use runtime::{is_allocator_by_name, is_runtime, is_runtime_code};
use sources::Sources;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use syntax::{Escape, Finding, Query, SourceTree};

/// Lines remembered; beyond this the memory starts anew.
const MAX_LINES: usize = 100_000;

/// Where an allocation was made, and what the program calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// The variable, member or container: `x`, `s->field`, `grid[]` for the elements of an array
    /// or container, `*out` for what a pointer designates. Members are named without `this->` and
    /// `self.`. `a|b` means one of these, which share a line that does not tell them apart.
    pub name: Option<String>,
    /// Its type, as a declaration has it: `double *`.
    pub type_name: Option<String>,
    /// Source file of the line, as the debug information spells it. See [`Site::display`].
    pub file: Option<String>,
    /// The user's own line, from 1.
    pub line: Option<u32>,
    /// Demangled name of the function the line is in.
    pub function: Option<String>,
    /// The frame this is about, as an index into the call path.
    pub frame_index: usize,
}

impl Site {
    /// The short form for people: `name (file:line)` as far as known.
    ///
    /// ```
    /// let site = pagewise_attribute::Site {
    ///     name: Some("x".into()),
    ///     file: Some("/home/me/main.cpp".into()),
    ///     line: Some(41),
    ///     ..Default::default()
    /// };
    /// assert_eq!(site.display(), "x (main.cpp:41)");
    /// ```
    #[must_use]
    pub fn display(&self) -> String {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{}:{line}", display_file(file))),
            (Some(file), None) => Some(display_file(file).to_owned()),
            _ => None,
        };
        let what = self.name.as_deref().or(self.function.as_deref());
        match (what, place) {
            (Some(what), Some(place)) => format!("{what} ({place})"),
            (Some(only), None) => only.to_owned(),
            (None, Some(place)) => place,
            (None, None) => "unknown".to_owned(),
        }
    }
}

/// Names allocations. Remembers sources, their syntax trees and the lines already read, all
/// within bounds.
#[derive(Default)]
pub struct Namer {
    sources: Sources,
    declarations: Declarations,
    variables: Variables,
    types: HashMap<TypeKey, Option<String>>,
    lines: HashMap<LineKey, Option<Finding>>,
}

/// Module, function and name of a variable, and the line that uses it.
type TypeKey = (Option<String>, Option<String>, String, Option<u32>);

/// What a line's finding depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LineKey {
    file: String,
    line: u32,
    column: Option<u32>,
    callee: Option<String>,
    function: Option<String>,
    module: Option<String>,
    out_argument: Option<usize>,
}

impl std::fmt::Debug for Namer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Namer")
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

impl Namer {
    /// A namer that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the allocation made by a call path (symbolized, innermost frame first).
    ///
    /// Never fails: what cannot be found out is `None`. A path of runtime frames only yields its
    /// outermost frame, an empty one an empty site.
    pub fn name(&mut self, frames: &[Frame]) -> Site {
        // The cheap question first: most frames of programs without debug information have no line.
        let is_candidate = |&index: &usize| has_line(&frames[index]) && !is_runtime(&frames[index]);
        let mut callers = (0..frames.len()).filter(is_candidate);
        let Some(first) = callers.next() else {
            return site_without_lines(frames);
        };
        // Of an interpreter that an extension without lines has been called by, the line says nothing: it runs whatever calls that.
        let is_extension =
            |frame: &Frame| frame.module.is_some() && !is_runtime(frame) && !is_interpreter(frame);
        if is_interpreter(&frames[first]) && frames[..first].iter().any(is_extension) {
            return site_without_lines(&frames[..first]);
        }
        let mut site = self.name_along(frames, first, callers);
        site.type_name = self.type_of(&site, &frames[site.frame_index]);
        site
    }

    fn type_of(&mut self, site: &Site, frame: &Frame) -> Option<String> {
        let name = site.name.clone()?;
        let key = (frame.module.clone(), site.function.clone(), name, site.line);
        if let Some(known) = self.types.get(&key) {
            return known.clone();
        }
        let at = Place {
            svma: frame.module_offset?,
            line: site.line,
        };
        let found = self.variables.type_of(frame.module.as_deref()?, at, &key.2);
        if self.types.len() >= MAX_LINES {
            self.types.clear();
        }
        self.types.insert(key, found.clone());
        found
    }

    /// Names by the first line, going outwards by the callers' as long as the memory does.
    fn name_along(
        &mut self,
        frames: &[Frame],
        first: usize,
        callers: impl Iterator<Item = usize>,
    ) -> Site {
        let mut best = site(frames, first, None);
        let mut was_read = false;
        let mut out_argument = None;
        for index in std::iter::once(first).chain(callers) {
            let Some(finding) = self.finding(frames, index, out_argument) else {
                break;
            };
            was_read = true;
            if finding.name.is_some() {
                best = site(frames, index, finding.name);
            }
            out_argument = match finding.escape {
                Some(Escape::Returned) => None,
                Some(Escape::OutParameter(parameter)) => Some(parameter),
                None => break,
            };
        }
        // A line that was understood and binds nothing has no name to look for elsewhere.
        if best.name.is_none() && !was_read {
            best.name = self.declared(&frames[first]);
        }
        best
    }

    fn finding(
        &mut self,
        frames: &[Frame],
        index: usize,
        out_argument: Option<usize>,
    ) -> Option<Finding> {
        let frame = &frames[index];
        let callee = index
            .checked_sub(1)
            .and_then(|inner| frames[inner].function.as_deref());
        let key = LineKey {
            file: frame.file.clone()?,
            line: frame.line?,
            column: frame.column,
            callee: callee.and_then(simple_name),
            function: frame.function.clone(),
            module: frame.module.clone(),
            out_argument,
        };
        if let Some(finding) = self.lines.get(&key) {
            return finding.clone();
        }
        let finding = self.read_line(&key);
        if self.lines.len() >= MAX_LINES {
            self.lines.clear();
        }
        self.lines.insert(key, finding.clone());
        finding
    }

    fn read_line(&mut self, key: &LineKey) -> Option<Finding> {
        let source = self.sources.get(&key.file)?;
        if changed_since_built(key) && !is_function_there(&source, key) {
            return None;
        }
        source.find(&Query {
            line: key.line,
            column: key.column,
            callee: key.callee.as_deref(),
            out_argument: key.out_argument,
        })
    }

    fn declared(&mut self, frame: &Frame) -> Option<String> {
        let module = frame.module.as_deref()?;
        self.declarations.at(
            module,
            frame.module_offset?,
            frame.file.as_deref()?,
            frame.line?,
        )
    }
}

/// Without a line of the program's own: its first function, if any is known.
fn site_without_lines(frames: &[Frame]) -> Site {
    let own = |&index: &usize| !is_runtime(&frames[index]);
    let named = |&index: &usize| frames[index].function.is_some() && own(&index);
    let wraps = |index: usize| {
        frames[index]
            .function
            .as_deref()
            .is_some_and(is_allocator_by_name)
    };
    let indices = 0..frames.len();
    let found = indices
        .clone()
        .find(|index| named(index) && !wraps(*index))
        .or_else(|| indices.clone().find(named))
        .or_else(|| indices.clone().find(own));
    let fallback = found.or(frames.len().checked_sub(1));
    fallback.map_or_else(Site::default, |index| site(frames, index, None))
}

fn has_line(frame: &Frame) -> bool {
    frame.file.is_some() && frame.line.is_some()
}

fn site(frames: &[Frame], index: usize, name: Option<String>) -> Site {
    let frame = &frames[index];
    Site {
        name,
        type_name: None,
        file: frame.file.clone(),
        line: frame.line,
        function: frame.function.clone(),
        frame_index: index,
    }
}

/// Whether the source is newer than the module. Only a hint: a build may touch sources, a check
/// out may date them later.
fn changed_since_built(key: &LineKey) -> bool {
    let modified = |path: &str| FileStamp::of(Path::new(path)).map(|stamp| stamp.modified());
    let module = key.module.as_deref().and_then(modified);
    module.is_some_and(|module| modified(&key.file).is_some_and(|source| source > module))
}

/// Whether the line still is in the function it was compiled in. Unknown counts as yes.
fn is_function_there(source: &Arc<SourceTree>, key: &LineKey) -> bool {
    let compiled = key.function.as_deref().and_then(simple_name);
    match (compiled, source.function_at(key.line)) {
        (Some(compiled), Some(written)) => compiled == written,
        // A named function's code does not move out of functions.
        (Some(_), None) => false,
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests;
