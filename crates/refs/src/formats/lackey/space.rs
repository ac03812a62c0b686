//! What is mapped where, page by page, and which page of a file or of anonymous memory that is.
//!
//! Pages are those of the kernel, not addresses: a page of a file is the same wherever and however often it is mapped; a
//! new mapping brings new anonymous pages, also where an old one was; a private page of a file that is written becomes an
//! anonymous copy, and the file's page stays what it was.

use std::collections::BTreeMap;
use std::collections::HashSet;

use super::Kind;
use super::Touch;
use crate::runs::ANONYMOUS_READ;
use crate::runs::ANONYMOUS_WRITE;
use crate::runs::FILE_READ;
use crate::runs::FILE_WRITE;
use crate::runs::Run;

/// Pages of files have this bit in their keys, the file's number above [`FILE_SHIFT`], the page's below.
const FILE_KEY: u64 = 1 << 63;
const FILE_SHIFT: u32 = 40;

/// What lies behind a range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// Anonymous memory, from this key on.
    Anonymous(u64),
    /// A file mapped shared, from this key on.
    Shared(u64),
    /// A file mapped privately; its pages' copies have keys from `copy` on.
    Private { file: u64, copy: u64 },
}

impl Backing {
    fn skip(self, pages: u64) -> Self {
        match self {
            Self::Anonymous(key) => Self::Anonymous(key + pages),
            Self::Shared(key) => Self::Shared(key + pages),
            Self::Private { file, copy } => Self::Private {
                file: file + pages,
                copy: copy + pages,
            },
        }
    }
}

/// A range of pages, without its first page, which is its key in the map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) end: u64,
    pub(super) backing: Backing,
}

/// The address space of the program.
pub(super) struct Space {
    pub(super) page_shift: u32,
    mappings: BTreeMap<u64, Mapping>,
    /// Keys of private pages that have been written.
    copied: HashSet<u64>,
    /// The next key of anonymous memory.
    next_key: u64,
    /// What recent accesses found, by the page's lowest bits.
    recent: Vec<Recent>,
    /// Whether the stack has been found.
    stack_known: bool,
}

/// What a page's read and write are.
#[derive(Clone, Copy, Debug)]
struct Recent {
    page: u64,
    read: Run,
    /// `None`: not just that.
    write: Option<Run>,
}

const RECENT: usize = 1 << 10;
const NOTHING: Recent = Recent {
    page: u64::MAX,
    read: Run {
        key: 0,
        pages: 0,
        access: FILE_READ,
    },
    write: None,
};

/// How far below and above the first data access the stack reaches at most, in bytes.
const STACK_BELOW: u64 = 1 << 30;
const STACK_ABOVE: u64 = 1 << 20;

impl Space {
    pub(super) fn new(page_shift: u32) -> Self {
        Self {
            page_shift,
            mappings: BTreeMap::new(),
            copied: HashSet::new(),
            next_key: 0,
            recent: vec![NOTHING; RECENT],
            stack_known: false,
        }
    }

    /// The runs of an access; `None` if it is impossibly large.
    #[inline]
    pub(super) fn access(&mut self, touch: Touch, runs: &mut Vec<Run>) -> Option<()> {
        let first = touch.address >> self.page_shift;
        let last = touch.address.saturating_add(touch.bytes.saturating_sub(1)) >> self.page_shift;
        if last - first > u64::from(u16::MAX) {
            return None;
        }
        if !self.stack_known && touch.kind != Kind::Fetch {
            self.find_stack(touch.address);
        }
        for page in first..=last {
            if touch.kind != Kind::Store {
                self.read(page, runs);
            }
            if matches!(touch.kind, Kind::Store | Kind::Modify) {
                self.write(page, runs);
            }
        }
        Some(())
    }

    #[inline]
    fn read(&mut self, page: u64, runs: &mut Vec<Run>) {
        let recent = self.recent[page as usize % RECENT];
        if recent.page == page {
            runs.push(recent.read);
        } else {
            runs.push(self.look(page).read);
        }
    }

    #[inline]
    fn write(&mut self, page: u64, runs: &mut Vec<Run>) {
        let mut recent = self.recent[page as usize % RECENT];
        if recent.page != page {
            recent = self.look(page);
        }
        match recent.write {
            Some(write) => runs.push(write),
            None => self.copy(page, recent.read, runs),
        }
    }

    /// The first write to a private page of a file: the kernel reads the file's page and copies it.
    #[inline(never)]
    fn copy(&mut self, page: u64, read: Run, runs: &mut Vec<Run>) {
        let (start, mapping) = self.mapping(page);
        if let Backing::Private { copy, .. } = mapping.backing.skip(page - start) {
            self.copied.insert(copy);
            runs.push(read);
            runs.push(Run::one(copy, ANONYMOUS_WRITE));
        }
        self.look(page);
    }

    /// Finds out what a page is and remembers it.
    #[inline(never)]
    fn look(&mut self, page: u64) -> Recent {
        let (start, mapping) = self.mapping(page);
        let (read, write) = match mapping.backing.skip(page - start) {
            Backing::Anonymous(key) => anonymous(key),
            Backing::Shared(key) => {
                let write = Run::one(key, FILE_WRITE);
                (Run::one(key, FILE_READ), Some(write))
            }
            Backing::Private { copy, .. } if self.copied.contains(&copy) => anonymous(copy),
            Backing::Private { file, .. } => (Run::one(file, FILE_READ), None),
        };
        let found = Recent { page, read, write };
        self.recent[page as usize % RECENT] = found;
        found
    }

    /// The mapping of a page, and where it begins. What was there before the first system call is the program's own file.
    fn mapping(&mut self, page: u64) -> (u64, Mapping) {
        let found = self.mappings.range(..=page).next_back();
        if let Some((start, mapping)) = found
            && page < mapping.end
        {
            return (*start, *mapping);
        }
        let backing = Backing::Private {
            file: file_key(0, page, 1).unwrap_or_else(|| FILE_KEY - 1 - self.fresh_key(1)),
            copy: self.fresh_key(1),
        };
        let mapping = Mapping {
            end: page + 1,
            backing,
        };
        self.mappings.insert(page, mapping);
        (page, mapping)
    }

    /// The first data access of a program is on its stack: the kernel, or the loader's first call, puts it there.
    #[inline(never)]
    fn find_stack(&mut self, address: u64) {
        self.stack_known = true;
        let start = address.saturating_sub(STACK_BELOW) >> self.page_shift;
        let end = (address.saturating_add(STACK_ABOVE) >> self.page_shift) + 1;
        self.map_anonymous(start, end);
    }

    /// Keys for so many new pages.
    pub(super) fn fresh_key(&mut self, pages: u64) -> u64 {
        let key = self.next_key;
        // Keys come round after mappings of 2^63 pages in all: no log of a real program has them.
        self.next_key = (key + pages) % (FILE_KEY / 2);
        key
    }

    /// New anonymous pages.
    pub(super) fn map_anonymous(&mut self, start: u64, end: u64) {
        let key = self.fresh_key(end.saturating_sub(start));
        self.map(start, end, Backing::Anonymous(key));
    }

    /// Pages of a file, from this page of it on.
    pub(super) fn map_file(&mut self, start: u64, end: u64, file: u64, first: u64, shared: bool) {
        let pages = end.saturating_sub(start);
        let copy = self.fresh_key(pages);
        let backing = match file_key(file, first, pages) {
            Some(key) if shared => Backing::Shared(key),
            Some(file) => Backing::Private { file, copy },
            // Beyond what keys can tell: pages of their own.
            None => Backing::Shared(copy),
        };
        self.map(start, end, backing);
    }

    /// Maps a range over whatever is there.
    pub(super) fn map(&mut self, start: u64, end: u64, backing: Backing) {
        self.take(start, end);
        if start < end {
            self.mappings.insert(start, Mapping { end, backing });
        }
    }

    /// Unmaps a range; returns what was there, piece by piece.
    pub(super) fn take(&mut self, start: u64, end: u64) -> Vec<(u64, Mapping)> {
        self.recent.fill(NOTHING);
        let before = self.mappings.range(..start).next_back();
        if let Some((&at, &mapping)) = before
            && mapping.end > start
        {
            let backing = mapping.backing.skip(start - at);
            self.mappings.insert(
                at,
                Mapping {
                    end: start,
                    ..mapping
                },
            );
            self.mappings.insert(
                start,
                Mapping {
                    end: mapping.end,
                    backing,
                },
            );
        }
        let mut taken = Vec::new();
        while let Some((&at, &mapping)) = self.mappings.range(start..end).next() {
            self.mappings.remove(&at);
            if mapping.end > end {
                let backing = mapping.backing.skip(end - at);
                self.mappings.insert(
                    end,
                    Mapping {
                        end: mapping.end,
                        backing,
                    },
                );
            }
            let end = mapping.end.min(end);
            taken.push((at, Mapping { end, ..mapping }));
        }
        taken
    }
}

fn anonymous(key: u64) -> (Run, Option<Run>) {
    let write = Run::one(key, ANONYMOUS_WRITE);
    (Run::one(key, ANONYMOUS_READ), Some(write))
}

/// The key of a file's page; `None` if the numbers are too large.
fn file_key(file: u64, page: u64, pages: u64) -> Option<u64> {
    let fits = page.checked_add(pages)? <= 1 << FILE_SHIFT && file < 1 << (63 - FILE_SHIFT);
    fits.then_some(FILE_KEY | file << FILE_SHIFT | page)
}
