//! Each page of each file: who read and wrote it last, and whether what the page cache has of it was of any use.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

/// Bytes of a page, on all processors that are supported.
pub(crate) const PAGE: u64 = 4096;
/// Small, as each small file has one of its own.
const CHUNK_PAGES: usize = 32;
const CHUNK_BYTES: u64 = CHUNK_PAGES as u64 * PAGE;
/// 128 GiB of large files, or a million small ones: 256 MiB of memory here, and some for the table. What is beyond is not followed, and
/// counted.
const MOST_CHUNKS: usize = 1 << 20;
/// No row of a healthy trace tells of more at once.
const MOST_BYTES: u64 = 1 << 35;

/// Who reads or writes: a call path's number in the tallies, from 1; 0 is nobody.
pub(crate) type Who = u16;

#[derive(Clone, Copy, Default)]
struct Page {
    cached_by: Who,
    read_by: Who,
    written_by: Who,
    uses: u8,
    flags: u8,
}

const CACHED: u8 = 1;
const EVICTED: u8 = 2;
const READ: u8 = 4;
const READ_AGAIN: u8 = 8;
const READ_BACK: u8 = 16;
/// Used, and still in the page cache since.
const KEPT: u8 = 32;
/// The last use was a write.
const LAST_WROTE: u8 = 64;
/// Written whole since it was read: what is read next was not there before.
const REPLACED: u8 = 128;

impl Page {
    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What became of the pages of one call path, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// It read so many.
    pub(crate) read: u64,
    /// Of these, somebody recorded has read so many again.
    pub(crate) read_again: u64,
    /// It wrote so many.
    pub(crate) written: u64,
    /// Of these, so many were written again,
    pub(crate) rewritten: u64,
    /// and so many were read.
    pub(crate) read_back: u64,
    /// Of those that it read, so many were used again while they were still in the page cache since,
    pub(crate) kept_read: u64,
    /// and so many of those that it wrote.
    pub(crate) kept_written: u64,
    /// It brought so many into the page cache.
    pub(crate) cached: u64,
    /// Of these, so many had been evicted before.
    pub(crate) refaulted: u64,
    /// Nobody used so many of them while they were there,
    pub(crate) unused: u64,
    /// and so many were used once: for a read, by the one that brought them in.
    pub(crate) used_once: u64,
    /// It used so many more that could not be followed: then the others are too few.
    pub(crate) beyond: u64,
}

impl Fate {
    /// Only what was read and written.
    pub(crate) fn without_cached(self) -> Self {
        Self {
            cached: 0,
            refaulted: 0,
            unused: 0,
            used_once: 0,
            ..self
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.read += other.read;
        self.read_again += other.read_again;
        self.written += other.written;
        self.rewritten += other.rewritten;
        self.read_back += other.read_back;
        self.kept_read += other.kept_read;
        self.kept_written += other.kept_written;
        self.cached += other.cached;
        self.refaulted += other.refaulted;
        self.unused += other.unused;
        self.used_once += other.used_once;
        self.beyond += other.beyond;
    }
}

/// Of one file, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Different ones that were read.
    pub(crate) read: u64,
    /// Of these, read more than once.
    pub(crate) read_again: u64,
}

/// All pages that were touched.
pub(crate) struct Pages {
    chunks: HashMap<(u32, u64), Box<[Page; CHUNK_PAGES]>, RandomState>,
    most_chunks: usize,
    fates: Vec<Fate>,
    /// Files of which not all pages are followed.
    cut_files: HashSet<u32, RandomState>,
}

impl Default for Pages {
    fn default() -> Self {
        Self::with_room_for(MOST_CHUNKS)
    }
}

impl Pages {
    fn with_room_for(most_chunks: usize) -> Self {
        Self {
            chunks: HashMap::default(),
            most_chunks,
            fates: Vec::new(),
            cut_files: HashSet::default(),
        }
    }

    /// Whether there were too many pages to follow all of this file's.
    pub(crate) fn is_cut(&self, file: u32) -> bool {
        self.cut_files.contains(&file)
    }

    /// What was used, but could not be followed, by anyone, in bytes.
    pub(crate) fn beyond_bytes(&self) -> u64 {
        let pages = self.fates.iter().map(|fate| fate.beyond);
        pages.sum::<u64>().saturating_mul(PAGE)
    }

    pub(crate) fn fate(&self, who: Who) -> Fate {
        self.fates.get(who as usize).copied().unwrap_or_default()
    }

    fn fate_mut(&mut self, who: Who) -> &mut Fate {
        let at = who as usize;
        if at >= self.fates.len() {
            self.fates.resize(at + 1, Fate::default());
        }
        &mut self.fates[at]
    }

    /// Those of which there is no room are counted as beyond what `who` can be told of.
    fn for_each(
        &mut self,
        who: Option<Who>,
        file: u32,
        (offset, bytes): (u64, u64),
        mut each: impl FnMut(&mut Page, &mut [Fate]),
    ) {
        if bytes == 0 {
            return;
        }
        if let Some(who) = who {
            self.fate_mut(who);
        }
        let bytes = bytes.min(MOST_BYTES);
        let last = offset.saturating_add(bytes - 1) / PAGE;
        let mut page = offset / PAGE;
        while page <= last {
            let chunk = page / CHUNK_PAGES as u64;
            let end = ((chunk + 1) * CHUNK_PAGES as u64).min(last + 1);
            let is_full = self.chunks.len() >= self.most_chunks;
            let pages = match self.chunks.entry((file, chunk)) {
                Entry::Occupied(pages) => Some(pages.into_mut()),
                Entry::Vacant(_) if is_full => None,
                Entry::Vacant(place) => {
                    Some(place.insert(Box::new([Page::default(); CHUNK_PAGES])))
                }
            };
            match (pages, who) {
                (Some(pages), _) => {
                    let begin = (page % CHUNK_PAGES as u64) as usize;
                    for page in &mut pages[begin..begin + (end - page) as usize] {
                        each(page, &mut self.fates);
                    }
                }
                (None, Some(who)) => {
                    self.fates[who as usize].beyond += end - page;
                    self.cut_files.insert(file);
                }
                (None, None) => {}
            }
            page = end;
        }
    }

    /// Pages came into the page cache.
    pub(crate) fn added(&mut self, who: Who, file: u32, offset: u64, bytes: u64) {
        self.for_each(Some(who), file, (offset, bytes), |page, fates| {
            settle(page, fates);
            let fate = &mut fates[who as usize];
            fate.cached += 1;
            fate.refaulted += u64::from(page.has(EVICTED));
            page.flags = page.flags & !(EVICTED | KEPT) | CACHED;
            page.cached_by = who;
            page.uses = 0;
        });
    }

    /// Pages left it.
    pub(crate) fn removed(&mut self, file: u32, offset: u64, bytes: u64, evicted: bool) {
        self.for_each(None, file, (offset, bytes), |page, fates| {
            settle(page, fates);
            page.flags &= !(CACHED | KEPT);
            if evicted {
                page.flags |= EVICTED;
            }
        });
    }

    /// What the page cache has of a file is not known from here on, as nobody was told of what left it. `bytes`: its size.
    pub(crate) fn forget_cached(&mut self, file: u32, bytes: u64) {
        let fates = &mut self.fates;
        let mut forget = |pages: &mut [Page; CHUNK_PAGES]| {
            for page in pages {
                settle(page, fates);
                page.flags &= !(CACHED | KEPT);
            }
        };
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        if chunks < self.chunks.len() as u64 {
            for chunk in 0..chunks {
                if let Some(pages) = self.chunks.get_mut(&(file, chunk)) {
                    forget(pages);
                }
            }
        } else {
            let all = self.chunks.iter_mut();
            for (_, pages) in all.filter(|((of, _), _)| *of == file) {
                forget(pages);
            }
        }
    }

    /// A call read this. `start`: where the first of the calls has begun of which each goes on where the one before has ended, perhaps within
    /// a page.
    pub(crate) fn read(&mut self, who: Who, file: u32, offset: u64, bytes: u64, start: u64) {
        let Some(own) = own_pages(offset, bytes, start < offset) else {
            return;
        };
        self.for_each(Some(who), file, own, |page, fates| {
            page.uses = page.uses.saturating_add(1);
            use_again(page, fates);
            let is_replaced = page.has(REPLACED);
            page.flags &= !(LAST_WROTE | REPLACED);
            fates[who as usize].read += 1;
            if page.has(READ) && !is_replaced {
                page.flags |= READ_AGAIN;
                // Nobody's, if it was read past the page cache.
                fates[page.read_by as usize].read_again += 1;
            }
            if page.written_by > 0 && !page.has(READ_BACK) {
                page.flags |= READ_BACK;
                fates[page.written_by as usize].read_back += 1;
            }
            page.flags |= READ;
            page.read_by = who;
        });
    }

    /// A call read this past the page cache, which is of no use to it: only of the file is known that it was read, or read again.
    pub(crate) fn read_past(&mut self, file: u32, offset: u64, bytes: u64) {
        self.for_each(None, file, (offset, bytes), |page, _| {
            if page.has(READ) && !page.has(REPLACED) {
                page.flags |= READ_AGAIN;
            }
            page.flags |= READ;
        });
    }

    /// A call wrote this past the page cache: what is read there next is new. The rest as of [`Self::written`].
    pub(crate) fn written_past(
        &mut self,
        file: u32,
        (offset, bytes): (u64, u64),
        start: u64,
        reaches_end: bool,
    ) {
        let whole_end = end_of_whole(offset.saturating_add(bytes), reaches_end);
        self.replaced(file, start.max(offset / PAGE * PAGE), whole_end);
    }

    /// A call wrote this. `start`: as of a read. `reaches_end`: there is nothing behind it in its last page.
    pub(crate) fn written(
        &mut self,
        who: Who,
        file: u32,
        (offset, bytes): (u64, u64),
        start: u64,
        reaches_end: bool,
    ) {
        let whole_end = end_of_whole(offset.saturating_add(bytes), reaches_end);
        self.replaced(file, start.max(offset / PAGE * PAGE), whole_end);
        let Some(own) = own_pages(offset, bytes, start < offset) else {
            return;
        };
        self.for_each(Some(who), file, own, |page, fates| {
            fates[who as usize].written += 1;
            use_again(page, fates);
            page.flags |= LAST_WROTE;
            if page.written_by > 0 {
                fates[page.written_by as usize].rewritten += 1;
                page.uses = page.uses.saturating_add(1);
            }
            page.flags &= !READ_BACK;
            page.written_by = who;
        });
    }

    /// Of the pages that a call has written, those that are written whole now, by it and the ones that it goes on from.
    fn replaced(&mut self, file: u32, begin: u64, end: u64) {
        if let Some(first) = begin.checked_next_multiple_of(PAGE) {
            let whole = (first, end.saturating_sub(first));
            self.for_each(None, file, whole, |page, _| page.flags |= REPLACED);
        }
    }

    /// At the end: what is still cached has had its uses.
    pub(crate) fn finish(&mut self) -> HashMap<u32, Shares, RandomState> {
        let mut shares: HashMap<u32, Shares, RandomState> = HashMap::default();
        for ((file, _), pages) in &mut self.chunks {
            let of_file = shares.entry(*file).or_default();
            for page in pages.iter_mut() {
                settle(page, &mut self.fates);
                of_file.read += u64::from(page.has(READ));
                of_file.read_again += u64::from(page.has(READ_AGAIN));
            }
        }
        shares
    }
}

fn settle(page: &mut Page, fates: &mut [Fate]) {
    if page.has(CACHED) {
        let fate = &mut fates[page.cached_by as usize];
        fate.unused += u64::from(page.uses == 0);
        fate.used_once += u64::from(page.uses == 1);
    }
}

/// It is used: whoever used it last is credited, if it was kept since. To drop it then would have cost reading it again; or, as it is written
/// whole without having been read, nothing.
fn use_again(page: &mut Page, fates: &mut [Fate]) {
    let is_overwritten = page.has(REPLACED) && !page.has(LAST_WROTE);
    if page.has(KEPT) && !is_overwritten {
        if page.has(LAST_WROTE) {
            fates[page.written_by as usize].kept_written += 1;
        } else {
            fates[page.read_by as usize].kept_read += 1;
        }
    }
    page.flags |= KEPT;
}

/// Where the pages end that are written whole by what is written up to there.
fn end_of_whole(end: u64, reaches_end: bool) -> u64 {
    match reaches_end {
        true => end.checked_next_multiple_of(PAGE).unwrap_or(end),
        false => end / PAGE * PAGE,
    }
}

/// A page that the call before has begun is its own no more.
fn own_pages(offset: u64, bytes: u64, continues: bool) -> Option<(u64, u64)> {
    if !continues || offset.is_multiple_of(PAGE) {
        return Some((offset, bytes));
    }
    let next = offset.checked_next_multiple_of(PAGE)?;
    let rest = bytes.checked_sub(next - offset).filter(|&rest| rest > 0)?;
    Some((next, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scan_reads_once_is_cached_in_vain() {
        let mut pages = Pages::default();
        pages.added(1, 7, 0, 8 * PAGE);
        pages.read(1, 7, 0, 6 * PAGE, 0);
        pages.removed(7, 0, 8 * PAGE, true);
        let fate = pages.fate(1);
        assert_eq!((fate.cached, fate.used_once, fate.unused), (8, 6, 2));
        assert_eq!((fate.read, fate.read_again), (6, 0));
        pages.added(1, 7, 0, PAGE);
        assert_eq!(pages.fate(1).refaulted, 1, "it had been evicted");
    }

    #[test]
    fn the_last_reader_has_the_credit_of_the_next() {
        let mut pages = Pages::default();
        pages.read(1, 7, 0, 2 * PAGE, 0);
        pages.read(2, 7, 0, PAGE, 0);
        pages.read(2, 7, 0, PAGE, 0);
        assert_eq!((pages.fate(1).read_again, pages.fate(2).read_again), (1, 1));
        let shares = pages.finish();
        assert_eq!(
            shares[&7],
            Shares {
                read: 2,
                read_again: 1
            }
        );
    }

    #[test]
    fn what_comes_back_after_eviction_was_not_kept() {
        let mut pages = Pages::default();
        pages.added(1, 7, 0, 4 * PAGE);
        pages.read(1, 7, 0, 4 * PAGE, 0);
        pages.read(2, 7, 0, PAGE, 0);
        pages.removed(7, 0, 4 * PAGE, true);
        pages.added(1, 7, 0, 4 * PAGE);
        pages.read(1, 7, 0, 4 * PAGE, 0);
        assert_eq!((pages.fate(1).read_again, pages.fate(1).kept_read), (4, 1));
        pages.written(3, 7, (0, 2 * PAGE), 0, false);
        pages.read(1, 7, 0, PAGE, 0);
        pages.removed(7, 0, 4 * PAGE, true);
        pages.read(1, 7, PAGE, PAGE, PAGE);
        assert_eq!(
            (pages.fate(1).kept_read, pages.fate(3).kept_written),
            (1, 1),
            "to write a whole page over it reads nothing"
        );
    }

    #[test]
    fn small_reads_in_a_row_read_a_page_once() {
        let mut pages = Pages::default();
        for piece in 0..8 {
            pages.read(1, 7, piece * 1000, 1000, 0);
        }
        assert_eq!((pages.fate(1).read, pages.fate(1).read_again), (2, 0));
    }

    #[test]
    fn what_is_written_and_read_back_counts_once() {
        let mut pages = Pages::default();
        pages.added(1, 7, 0, 2 * PAGE);
        pages.written(1, 7, (0, 2 * PAGE), 0, false);
        pages.read(2, 7, 0, PAGE, 0);
        pages.read(2, 7, 0, PAGE, 0);
        pages.written(1, 7, (PAGE, PAGE), PAGE, false);
        pages.finish();
        let fate = pages.fate(1);
        assert_eq!((fate.written, fate.rewritten, fate.read_back), (3, 1, 1));
        assert_eq!((fate.unused, fate.used_once), (0, 1));
    }

    #[test]
    fn what_was_written_anew_is_not_read_again() {
        let mut pages = Pages::default();
        for round in 1..4 {
            pages.written(1, 7, (0, 8 * PAGE), 0, false);
            pages.read(2, 7, 0, 8 * PAGE, 0);
            assert_eq!(pages.fate(2).read, round * 8);
        }
        let fate = pages.fate(2);
        assert_eq!((fate.read_again, fate.kept_read), (0, 0));
        assert_eq!(pages.fate(1).kept_written, 3 * 8);
        pages.written(1, 7, (100, PAGE - 100), 100, false);
        pages.read(2, 7, 0, PAGE, 0);
        let fate = pages.fate(2);
        let only_in_part = (fate.read_again, fate.kept_read);
        assert_eq!(only_in_part, (1, 1));
    }

    #[test]
    fn small_writes_in_a_row_write_a_page_anew() {
        let mut pages = Pages::default();
        pages.read(2, 7, 0, 2 * PAGE, 0);
        for piece in 0..8 {
            pages.written(1, 7, (piece * 1000, 1000), 0, false);
        }
        pages.read(2, 7, 0, 2 * PAGE, 0);
        let (read, written) = (pages.fate(2), pages.fate(1));
        assert_eq!((read.read, read.read_again), (4, 1), "the first is new");
        assert_eq!((written.written, written.read_back), (2, 2));
    }

    #[test]
    fn what_goes_past_the_page_cache_uses_nothing_of_it() {
        let mut pages = Pages::default();
        pages.added(1, 7, 0, 4 * PAGE);
        pages.read(1, 7, 0, 4 * PAGE, 0);
        pages.read_past(7, 0, 4 * PAGE);
        assert_eq!(pages.fate(1).read_again, 0, "that read does without it");
        assert_eq!(pages.fate(1).kept_read, 0);
        pages.written_past(7, (0, 2 * PAGE), 0, false);
        pages.read(1, 7, 0, 4 * PAGE, 0);
        pages.finish();
        let fate = pages.fate(1);
        assert_eq!((fate.read, fate.read_again), (8, 2), "the others are new");
        assert_eq!((fate.written, fate.read_back), (0, 0));
        pages.read_past(8, 0, PAGE);
        pages.read(1, 8, 0, PAGE, 0);
        let shares = pages.finish();
        assert_eq!((shares[&7].read, shares[&7].read_again), (4, 4));
        assert_eq!((shares[&8].read, shares[&8].read_again), (1, 1));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_spoils_nothing_else() {
        let mut pages = Pages::with_room_for(2);
        for again in 0..2 {
            pages.read(1, 7, 0, 2 * CHUNK_BYTES, 0);
            pages.read(2, 8, 0, 10, 0);
            assert_eq!(pages.fate(2).beyond, again + 1);
        }
        pages.removed(8, 0, PAGE, true);
        let fate = pages.fate(1);
        let all = 2 * CHUNK_PAGES as u64;
        assert_eq!((fate.read_again, fate.beyond), (all, 0));
        assert_eq!((pages.is_cut(7), pages.is_cut(8)), (false, true));
        assert_eq!(pages.beyond_bytes(), 2 * PAGE);
    }

    #[test]
    fn what_may_have_left_unseen_was_not_kept() {
        for others in [0, 100] {
            let mut pages = Pages::default();
            for other in 0..others {
                pages.read(1, 100 + other, 0, PAGE, 0);
            }
            pages.added(1, 7, 0, PAGE);
            pages.read(1, 7, 0, PAGE, 0);
            pages.forget_cached(7, PAGE);
            pages.read(1, 7, 0, PAGE, 0);
            let fate = pages.fate(1);
            assert_eq!((fate.read_again, fate.kept_read), (1, 0));
            assert_eq!(fate.used_once, 1, "as if it had left");
        }
    }

    #[test]
    fn a_hostile_place_is_no_overflow() {
        let mut pages = Pages::default();
        pages.read(1, 7, u64::MAX - 10, 4096, u64::MAX - 10);
        pages.written(1, 7, (u64::MAX - 10, 4096), 0, false);
        pages.removed(7, 0, u64::MAX, true);
        assert_eq!(pages.fate(1).read, 1);
    }
}
