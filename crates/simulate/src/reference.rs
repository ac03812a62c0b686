//! One access to one page.

use std::fmt;

/// Pages a simulation can number: 2^30, a footprint of 4 TiB.
pub const MAX_PAGES: u32 = 1 << 30;

const WRITE: u32 = 1;
const FILE: u32 = 2;

/// One access to one page, in four bytes: who decodes a trace numbers its pages in order of their first appearance, so
/// that whoever simulates indexes arrays instead of hashing addresses.
///
/// Whether the page's contents live in a file or in swap is a property of the access, because a page can change sides
/// (a private mapping that is written) and because some classifications go by the kind of access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Reference(u32);

impl Reference {
    /// An access to page number `page`; `None` if the number is not below [`MAX_PAGES`].
    #[inline]
    pub fn new(page: u32, write: bool, file: bool) -> Option<Reference> {
        (page < MAX_PAGES).then_some(Reference(
            page << 2 | u32::from(file) << 1 | u32::from(write),
        ))
    }

    /// The page's number, counted from 0 in order of first appearance.
    #[inline]
    pub fn page(self) -> u32 {
        self.0 >> 2
    }

    /// Whether the page is written.
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & WRITE != 0
    }

    /// Whether the page's contents live in a file; otherwise it is anonymous and lives in swap.
    #[inline]
    pub fn is_file(self) -> bool {
        self.0 & FILE != 0
    }

    /// File and write bit as a number below 4: anonymous read, anonymous write, file read, file write.
    #[inline]
    pub fn class(self) -> usize {
        (self.0 & (WRITE | FILE)) as usize
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backing = if self.is_file() { "file" } else { "anonymous" };
        let verb = if self.is_write() { "write" } else { "read" };
        write!(f, "{backing} {verb} of page {}", self.page())
    }
}
