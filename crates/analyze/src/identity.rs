//! What an object is called.

use std::fmt;
use std::sync::Arc;

use crate::call_paths::CallPaths;
use crate::strings::Strings;

/// What sort of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A recorded allocation or anonymous mapping.
    Allocation,
    /// A variable of static storage.
    Global,
    /// The `brk` heap where no recorded allocation is on the page or near it.
    Heap,
    /// A stack.
    Stack,
    /// A private file mapping: code, constants and variables of a module.
    File,
    /// Nobody told us.
    Unknown,
}

impl ObjectKind {
    /// The word for it in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Global => "global",
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::File => "file",
            Self::Unknown => "unknown",
        }
    }
}

/// Two allocations are the same object if their identities are equal: the same variable on the same line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// What sort of memory it is.
    pub kind: ObjectKind,
    /// Variable, or the path of a file mapping.
    pub name: Option<Arc<str>>,
    /// Source file, as the debug information has it.
    pub file: Option<Arc<str>>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Function that allocates.
    pub function: Option<Arc<str>>,
    /// Tells sites apart of which nothing else is known: their call path.
    pub stack: Option<u32>,
    /// Without variable and line: the code that allocates, as a name (`solver+0x4f10 < solver+0x2210`).
    pub code: Option<Arc<str>>,
}

impl Identity {
    pub(crate) fn plain(kind: ObjectKind) -> Self {
        Self {
            kind,
            name: None,
            file: None,
            line: None,
            function: None,
            stack: None,
            code: None,
        }
    }

    pub(crate) fn of_site(
        site: &pagewise_trace::Site,
        paths: &CallPaths,
        strings: &mut Strings,
    ) -> Self {
        let nameless = site.line.is_none() && site.name.is_none();
        Self {
            kind: ObjectKind::Allocation,
            name: site.name.as_deref().map(Arc::from),
            file: strings.shared(site.file.as_deref()),
            line: site.line,
            function: strings.shared(site.function.as_deref()),
            // Without a line, a function may hold many sites.
            stack: nameless.then_some(paths.whole(site.stack)),
            code: None,
        }
    }

    pub(crate) fn of_global(global: &pagewise_trace::Global) -> Self {
        Self {
            name: Some(global.name.as_str().into()),
            file: global.file.as_deref().map(Arc::from),
            line: global.line,
            ..Self::plain(ObjectKind::Global)
        }
    }

    /// A mapping as `/proc/PID/maps` lists it.
    pub(crate) fn of_mapping(path: &str) -> Self {
        match path {
            "[heap]" => Self::plain(ObjectKind::Heap),
            _ if path.starts_with("[stack") => Self::plain(ObjectKind::Stack),
            _ if path.starts_with("[anonymous") => Self {
                name: Some(path.into()),
                ..Self::plain(ObjectKind::Unknown)
            },
            _ => Self {
                name: Some(path.into()),
                ..Self::plain(ObjectKind::File)
            },
        }
    }
}

/// What an object is called in a line of text: `grid (sweep.c:12)`.
impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name_with(|file| file.rsplit('/').next().unwrap_or(file)))
    }
}

impl Identity {
    /// What it is called in a line of text, with its source file as `shown` says.
    pub fn name_with(&self, shown: impl Fn(&str) -> &str) -> String {
        let file = self.file.as_deref().map(shown);
        let place = match (file, self.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file.to_owned()),
            (None, _) => None,
        };
        let function = self.function.as_deref().map(bare);
        match (self.kind, self.name.as_deref(), place) {
            (ObjectKind::Heap, ..) => "[heap] (no sample near)".to_owned(),
            (ObjectKind::Stack, ..) => "[stack]".to_owned(),
            (ObjectKind::Unknown, ..) => "(memory of no recorded object)".to_owned(),
            (_, Some(name), Some(place)) => format!("{name} ({place})"),
            (_, Some(name), None) => name.to_owned(),
            (_, None, Some(place)) => match function {
                Some(function) => format!("{function} ({place})"),
                None => place,
            },
            (_, None, None) => match (&self.code, function) {
                (Some(code), _) => code.to_string(),
                (None, Some(function)) => format!("{function} (no line known)"),
                (None, None) => "allocation of unknown origin".to_owned(),
            },
        }
    }
}

/// A function's name without its parameters.
pub fn bare(function: &str) -> &str {
    match function.find('(') {
        Some(0) | None => function,
        Some(at) => &function[..at],
    }
}
