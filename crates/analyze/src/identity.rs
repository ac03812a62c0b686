//! What an object is called.

/// What sort of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A recorded allocation or anonymous mapping.
    Allocation,
    /// A variable of static storage.
    Global,
    /// The `brk` heap outside recorded allocations: small ones.
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
    pub name: Option<String>,
    /// Source file, as the debug information has it.
    pub file: Option<String>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Function that allocates.
    pub function: Option<String>,
    /// Tells sites apart of which nothing else is known: their call path.
    pub stack: Option<u32>,
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
        }
    }

    pub(crate) fn of_site(site: &pagewise_trace::Site) -> Self {
        let nameless = site.line.is_none() && site.name.is_none();
        Self {
            kind: ObjectKind::Allocation,
            name: site.name.clone(),
            file: site.file.clone(),
            line: site.line,
            function: site.function.clone(),
            // Without a line, a function may hold many sites.
            stack: nameless.then_some(site.stack),
        }
    }

    pub(crate) fn of_global(global: &pagewise_trace::Global) -> Self {
        Self {
            name: Some(global.name.clone()),
            file: global.file.clone(),
            line: global.line,
            ..Self::plain(ObjectKind::Global)
        }
    }

    /// A mapping as `/proc/PID/maps` lists it.
    pub(crate) fn of_mapping(path: &str) -> Self {
        match path {
            "[heap]" => Self::plain(ObjectKind::Heap),
            _ if path.starts_with("[stack") => Self::plain(ObjectKind::Stack),
            _ => Self {
                name: Some(path.to_owned()),
                ..Self::plain(ObjectKind::File)
            },
        }
    }
}
