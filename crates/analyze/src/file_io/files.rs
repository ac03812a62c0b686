//! Files, and the contexts that use them.

use std::collections::HashMap;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use pagewise_trace::IoFile;

use super::alike::Kind;
use super::alike::Kinds;
use super::alike::UNNAMED;
use super::heat::Heat;

/// Files that need no device: hints about them mean nothing.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// What was done to a file.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// Its path; `None`: not known.
    pub path: Option<String>,
    /// Its device and inode.
    pub device: (u32, u32),
    /// On that device.
    pub inode: u64,
    /// The kind of its file system.
    pub filesystem: String,
    /// Its size when it was first seen, bytes; or, if calls have reached further since, as far as they have: it has grown.
    pub bytes: u64,
    /// It had no name any more when it was first seen.
    pub unlinked: bool,
    /// Calls on it.
    pub calls: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Different bytes that were read, in whole pages; `None`: not known.
    pub distinct_read_bytes: Option<u64>,
    /// Of these, read more than once; `None`: not known.
    pub read_again_bytes: Option<u64>,
    /// Contexts that use it, by index in the findings' contexts, with the bytes each moved; most first.
    pub contexts: Vec<(usize, u64)>,
    /// Contexts that move a good part of its bytes want different things of the page cache.
    pub contexts_disagree: bool,
    /// Where in it.
    pub heat: Heat,
}

impl FileUse {
    fn new(row: IoFile) -> Self {
        Self {
            path: row.path,
            device: (row.major, row.minor),
            inode: row.inode,
            filesystem: row.filesystem,
            bytes: row.bytes,
            unlinked: row.unlinked,
            calls: 0,
            read_bytes: 0,
            written_bytes: 0,
            distinct_read_bytes: None,
            read_again_bytes: None,
            contexts: Vec::new(),
            contexts_disagree: false,
            heat: Heat::default(),
        }
    }

    /// A call has read or written so far.
    pub(crate) fn reaches(&mut self, end: u64) {
        self.bytes = self.bytes.max(end);
    }

    /// Whether it is in memory anyway.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.filesystem.as_str())
    }
}

/// The files of a trace, by the numbers that rows have.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) files: Vec<FileUse>,
    kinds: Vec<Kind>,
    index: HashMap<u32, u32, RandomState>,
    /// Numbers beyond a file's first, until they are met.
    later: HashSet<u32, RandomState>,
}

impl Files {
    /// A file that has several numbers is one.
    pub(crate) fn new(rows: Vec<IoFile>) -> Self {
        let mut files = Self::default();
        let mut known: HashMap<(u32, u32, u64, u32), u32> = HashMap::new();
        let mut kinds = Kinds::default();
        for row in rows {
            let number = row.file;
            let identity = (row.major, row.minor, row.inode, row.generation);
            let next = files.files.len() as u32;
            let index = *known.entry(identity).or_insert(next);
            if index == next {
                files.kinds.push(kinds.of(row.path.as_deref()));
                files.files.push(FileUse::new(row));
            } else {
                files.later.insert(number);
            }
            files.index.insert(number, index);
        }
        files
    }

    /// The index of the file of that number, and whether it is met by this number for the first time, having had another before.
    pub(crate) fn meet(&mut self, number: u32) -> Option<(u32, bool)> {
        let index = *self.index.get(&number)?;
        let is_known_anew = !self.later.is_empty() && self.later.remove(&number);
        Some((index, is_known_anew))
    }

    /// Which others that file is like; of none, as of one without a name.
    pub(crate) fn kind(&self, file: Option<u32>) -> Kind {
        let kind = file.and_then(|file| self.kinds.get(file as usize));
        kind.copied().unwrap_or(UNNAMED)
    }

    /// The index of the file of that number.
    pub(crate) fn index(&self, number: Option<u32>) -> Option<u32> {
        self.index.get(&number?).copied()
    }
}
