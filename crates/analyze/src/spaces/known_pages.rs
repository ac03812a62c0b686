//! Who shares which page, as it was found for an earlier event: most events are on pages that saw others, between two changes
//! near them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::heap_page::Page;

/// Changes are remembered by pieces of memory of this size.
const PIECE_BITS: u32 = 16;
/// A change of more pieces than that changes everything.
const MOST_PIECES: u64 = 4096;
/// Pages to remember: of 1 GiB, in some 30 MiB.
const MOST_PAGES: usize = 1 << 18;

/// The pages of all spaces.
#[derive(Default)]
pub(super) struct KnownPages {
    /// By space and start; with the number of changes before.
    pages: HashMap<(u32, u64), (u64, Page), RandomState>,
    /// Number of the last change of each piece of each space.
    changed: HashMap<(u32, u64), u64, RandomState>,
    changes: u64,
}

impl KnownPages {
    /// The page at `start`, if nothing has changed since near it.
    pub(super) fn get(&self, space: u32, start: u64) -> Option<&Page> {
        let (since, page) = self.pages.get(&(space, start))?;
        let (low, high) = page.looked_at;
        // Farther than any recorder's samples reach, it is not worth remembering: a damaged trace may say anything.
        if is_vast(low, high) {
            return None;
        }
        let is_older = |piece| {
            let changed = self.changed.get(&(space, piece));
            changed.is_none_or(|change| change <= since)
        };
        pieces(low, high).all(is_older).then_some(page)
    }

    /// Remembers the page at `start`.
    pub(super) fn note(&mut self, space: u32, start: u64, page: Page) -> &Page {
        if self.pages.len() >= MOST_PAGES {
            self.pages.clear();
        }
        let known = self.pages.entry((space, start)).or_default();
        *known = (self.changes, page);
        &known.1
    }

    /// A block begins or ends there.
    pub(super) fn change(&mut self, space: u32, start: u64, end: u64) {
        if is_vast(start, end) {
            return self.forget();
        }
        self.changes += 1;
        for piece in pieces(start, end) {
            self.changed.insert((space, piece), self.changes);
        }
    }

    /// What mappings there are has changed.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
        self.changed.clear();
    }
}

fn is_vast(start: u64, end: u64) -> bool {
    end.saturating_sub(start) >> PIECE_BITS > MOST_PIECES
}

fn pieces(start: u64, end: u64) -> impl Iterator<Item = u64> {
    let last = end.max(start.saturating_add(1)) - 1;
    (start >> PIECE_BITS)..=(last >> PIECE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const PIECE: u64 = 1 << PIECE_BITS;

    fn page(looked_at: (u64, u64)) -> Page {
        Page {
            looked_at,
            ..Page::default()
        }
    }

    #[test]
    fn a_page_is_known_until_something_changes_where_was_looked() {
        let mut known = KnownPages::default();
        let start = 10 * PIECE;
        known.note(1, start, page((start - PIECE, start + PAGE)));
        known.change(1, start + PIECE, start + 2 * PIECE);
        known.change(2, start, start + PAGE);
        assert!(known.get(1, start).is_some());
        assert!(known.get(2, start).is_none() && known.get(1, start + PAGE).is_none());
        known.change(1, start - 2 * PIECE, start - PIECE + 1);
        assert!(known.get(1, start).is_none());
        known.note(1, start, page((start - PIECE, start + PAGE)));
        assert!(known.get(1, start).is_some());
        known.forget();
        assert!(known.get(1, start).is_none());
    }

    #[test]
    fn what_is_huge_changes_everything_at_once() {
        let mut known = KnownPages::default();
        known.note(1, 0, page((0, PAGE)));
        known.change(1, 1 << 40, u64::MAX);
        assert!(known.get(1, 0).is_none() && known.changed.is_empty());
        known.note(1, 0, page((0, u64::MAX)));
        assert!(known.get(1, 0).is_none());
    }

    #[test]
    fn no_more_pages_are_remembered_than_fit() {
        let mut known = KnownPages::default();
        for number in 0..=MOST_PAGES as u64 {
            known.note(1, number * PAGE, page((0, PAGE)));
        }
        assert!(known.pages.len() <= MOST_PAGES);
        assert!(known.get(1, MOST_PAGES as u64 * PAGE).is_some());
    }
}
