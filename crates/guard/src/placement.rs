//! Where in its slot an object lies: its end at the guard, as exactly as its alignment permits, or its begin at the one of
//! the slot before.

use crate::page;

/// The alignment of the C library's `malloc` on 64-bit processors, bytes.
const FULL: usize = 16;
/// What programs rely on even where no type needs it: they keep marks in the low three bits of addresses.
const LEAST: usize = 8;

/// Which end of an object touches a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    End,
    Begin,
}

/// How objects are aligned that ask for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// 16 bytes where the size is a multiple of it, else 8.
    Auto,
    /// So many bytes, a power of two.
    To(usize),
}

impl Alignment {
    /// For an object of this size.
    pub(crate) fn of(self, bytes: usize) -> usize {
        match self {
            Self::Auto if bytes.is_multiple_of(FULL) => FULL,
            Self::Auto => LEAST,
            Self::To(alignment) => alignment,
        }
    }
}

/// An object on its pages, behind which there is a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Where it begins.
    pub(crate) start: usize,
    /// How long it is.
    pub(crate) bytes: usize,
    /// Where the guard begins.
    pub(crate) guard: usize,
}

impl Placed {
    /// Of `bytes` and aligned to a power of two, in front of `guard`, the begin of a page.
    pub(crate) fn before(guard: usize, bytes: usize, alignment: usize) -> Self {
        Self {
            start: (guard - bytes) & !(alignment - 1),
            bytes,
            guard,
        }
    }

    /// Of `bytes`, from `begin` on, where its slot begins.
    pub(crate) fn from(begin: usize, bytes: usize) -> Self {
        Self {
            start: begin,
            bytes,
            guard: (begin + bytes).next_multiple_of(page::bytes()),
        }
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.bytes
    }

    /// Where its first page begins.
    pub(crate) fn first_page(&self) -> usize {
        page::floor(self.start)
    }

    /// Pages that are accessible, in bytes.
    pub(crate) fn open_bytes(&self) -> usize {
        self.guard - self.first_page()
    }
}

/// Pages that an object needs. With an alignment of more than a page at least `large`: only a large object's slot begins at a
/// multiple of it.
pub(crate) fn pages(bytes: usize, alignment: usize, large: usize) -> Option<usize> {
    let page = page::bytes();
    if alignment > page {
        return Some(bytes.div_ceil(page).max(large));
    }
    Some(bytes.checked_next_multiple_of(alignment)?.div_ceil(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: usize = 64 << 20;

    #[test]
    fn an_object_ends_at_its_guard_where_its_size_permits() {
        for (bytes, gap) in [(0, 0), (8, 0), (24, 0), (16, 0), (12, 4), (1, 7), (21, 3)] {
            let alignment = Alignment::Auto.of(bytes);
            let placed = Placed::before(GUARD, bytes, alignment);
            assert_eq!(GUARD - placed.end(), gap, "{bytes}");
            assert_eq!(placed.start % alignment, 0);
            assert!(!bytes.is_multiple_of(16) || placed.start.is_multiple_of(16));
        }
        for bytes in 0..40 {
            let exact = Placed::before(GUARD, bytes, Alignment::To(1).of(bytes));
            assert_eq!(exact.end(), GUARD);
        }
    }

    #[test]
    fn large_alignments_hold_in_slots_that_begin_so() {
        let page = page::bytes();
        for (bytes, alignment, wanted) in [
            (100, 16 * page, 17),
            (20 * page + 1, 16 * page, 21),
            (page, page, 1),
            (1, page, 1),
            (page - 7, 16, 1),
            (page - 7, 8, 1),
            (page + 8, 16, 2),
            (0, 16, 0),
        ] {
            let pages = pages(bytes, alignment, 17);
            assert_eq!(pages, Some(wanted), "{bytes} {alignment}");
            let placed = Placed::before(GUARD + wanted * page, bytes, alignment);
            assert!(placed.start >= GUARD && placed.start.is_multiple_of(alignment));
            assert!(placed.end() <= placed.guard);
        }
        assert_eq!(pages(usize::MAX, 16, 17), None);
    }
}
