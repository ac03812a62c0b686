//! A context: a call path and what it does to files.

use std::sync::Arc;

use pagewise_trace::IoDirection;

use crate::histogram::Histogram;
use crate::object::ObjectFrame;

use super::class::Advice;
use super::class::Class;
use super::pages::PAGE;
use super::runs::Runs;

/// All calls by one call path in one direction; or, where it wants something else for some of its files, those on files that it uses alike.
#[derive(Clone, Debug)]
pub struct IoContext {
    /// Its call paths in the trace: those that read alike.
    pub stacks: Vec<u32>,
    /// Innermost first; empty: not known.
    pub frames: Vec<Arc<ObjectFrame>>,
    /// How plans know it again, one key for each call path that they can tell; filled in by who knows plans.
    pub keys: Vec<String>,
    /// What it does.
    pub does: Use,
    /// Its call path uses other files in another way: that is another context.
    pub is_by_files: bool,
    /// System calls, or requests of io_uring. Of a mapping, faults that had to wait for a page; 0 where the kernel does not tell of them.
    pub calls: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Bytes read or written; of a mapping, brought in.
    pub bytes: u64,
    /// Of these, past the page cache.
    pub direct_bytes: u64,
    /// Of these, of files that are in memory anyway (tmpfs).
    pub in_memory_bytes: u64,
    /// Of these, by requests of io_uring.
    pub requested_bytes: u64,
    /// How long its calls took, ns.
    pub latency: Histogram,
    /// Together, ns.
    pub latency_ns: u64,
    /// Bytes that it asked for and the page cache did not have. Of a write: that came into it. `None`: not known.
    pub missed_bytes: Option<u64>,
    /// Bytes read ahead for it. `None`: not known.
    pub ahead_bytes: Option<u64>,
    /// Of what it brought into the page cache, what nobody used there: of a read, beyond the one that brought it in.
    /// `None`: not known.
    pub in_vain_bytes: Option<u64>,
    /// Of what was read ahead for it, what was never read. `None`: not known.
    pub unused_ahead_bytes: Option<u64>,
    /// What it brought in that had been evicted before; `None`: not known.
    pub refaulted_bytes: Option<u64>,
    /// In what order; of a mapping, that of what its faults have brought in.
    pub runs: Runs,
    /// What is used again; `None`: not known.
    pub reuse: Option<Reuse>,
    /// Its files, by index in the findings' files, with the bytes it moved there; most first.
    pub files: Vec<(usize, u64)>,
    /// What it is; empty: there is no telling.
    pub classes: Vec<Class>,
    /// What would help.
    pub advice: Advice,
}

/// What a context does to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Reads them.
    Read,
    /// Writes them.
    Write,
    /// Has them written back.
    Sync,
    /// Touches mappings of them: only what had to be brought in, or waited for, is seen.
    Map,
}

impl Use {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Map => "map",
        }
    }
}

impl From<IoDirection> for Use {
    fn from(direction: IoDirection) -> Self {
        match direction {
            IoDirection::Read => Self::Read,
            IoDirection::Write => Self::Write,
            IoDirection::Sync => Self::Sync,
            IoDirection::Map => Self::Map,
        }
    }
}

/// How much of what was read is read again; of what was written, written or read again. In whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Read or written, bytes.
    pub bytes: u64,
    /// Of these, again, bytes.
    pub again_bytes: u64,
    /// Of these, while they were still in the page cache since: what the page cache was good for. `None`: not known.
    pub again_cached_bytes: Option<u64>,
}

impl Reuse {
    /// From 0 to 1; `None`: there was nothing.
    pub fn again_share(self) -> Option<f64> {
        (self.bytes > 0).then(|| self.again_bytes as f64 / self.bytes as f64)
    }

    /// The same of what was still in the page cache; `None` also if that is not known.
    pub fn again_cached_share(self) -> Option<f64> {
        let cached = self.again_cached_bytes?;
        (self.bytes > 0).then(|| cached as f64 / self.bytes as f64)
    }
}

impl IoContext {
    /// Its classes as one word or two; `None`: there is no telling.
    pub fn class(&self) -> Option<String> {
        let names: Vec<&str> = self.classes.iter().map(|class| class.name()).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    /// The innermost frame that is not a library's: where the program asks for it.
    pub fn place(&self) -> Option<&ObjectFrame> {
        let mut frames = self.frames.iter().map(AsRef::as_ref);
        frames.find(|frame: &&ObjectFrame| !frame.is_library())
    }

    /// Share of what it read through the page cache, in whole pages, that was not there; `None`: it read none, or that is not known.
    pub fn miss_ratio(&self) -> Option<f64> {
        let missed = self.missed_bytes?;
        let buffered = self.bytes.saturating_sub(self.direct_bytes);
        // Whole pages are brought in for a part of them.
        let used = match self.reuse {
            Some(reuse) => reuse.bytes,
            // Where pages are not followed, how many smaller calls share one is not known.
            None if self.mean_bytes()? < PAGE => return None,
            None => buffered,
        };
        (self.does == Use::Read && buffered > 0 && used > 0)
            .then(|| (missed as f64 / used as f64).min(1.0))
    }

    /// Mean bytes of a call that did not fail; `None`: there is none. Not all faults that bring in pages are told, so nor is a mean of theirs.
    pub fn mean_bytes(&self) -> Option<u64> {
        let succeeded = self.calls - self.failed;
        (succeeded > 0 && matches!(self.does, Use::Read | Use::Write))
            .then(|| self.bytes / succeeded)
    }
}
