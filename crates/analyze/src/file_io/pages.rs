//! Each page of each file: who read and wrote it last, and whether what the page cache has of it was of any use.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Bytes of a page, on all processors that are supported.
pub(crate) const PAGE: u64 = 4096;
const CHUNK_PAGES: usize = 512;
/// 128 GiB of files: 256 MiB of memory here. Beyond, reuse is not known.
const MOST_CHUNKS: usize = 1 << 16;

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
#[derive(Default)]
pub(crate) struct Pages {
    chunks: HashMap<(u32, u64), Box<[Page; CHUNK_PAGES]>, RandomState>,
    fates: Vec<Fate>,
    is_full: bool,
}

impl Pages {
    /// Whether there were too many to follow.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
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

    fn for_each(
        &mut self,
        file: u32,
        offset: u64,
        bytes: u64,
        mut each: impl FnMut(&mut Page, &mut Vec<Fate>),
    ) {
        if bytes == 0 {
            return;
        }
        let (first, last) = (offset / PAGE, offset.saturating_add(bytes - 1) / PAGE);
        let mut page = first;
        while page <= last {
            let chunk = page / CHUNK_PAGES as u64;
            let end = ((chunk + 1) * CHUNK_PAGES as u64).min(last + 1);
            if self.chunks.len() >= MOST_CHUNKS && !self.chunks.contains_key(&(file, chunk)) {
                self.is_full = true;
                return;
            }
            let pages = self
                .chunks
                .entry((file, chunk))
                .or_insert_with(|| Box::new([Page::default(); CHUNK_PAGES]));
            let begin = (page % CHUNK_PAGES as u64) as usize;
            for page in &mut pages[begin..begin + (end - page) as usize] {
                each(page, &mut self.fates);
            }
            page = end;
        }
    }

    /// Pages came into the page cache.
    pub(crate) fn added(&mut self, who: Who, file: u32, offset: u64, bytes: u64) {
        self.fate_mut(who);
        self.for_each(file, offset, bytes, |page, fates| {
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
        self.for_each(file, offset, bytes, |page, fates| {
            settle(page, fates);
            page.flags &= !(CACHED | KEPT);
            if evicted {
                page.flags |= EVICTED;
            }
        });
    }

    /// A call read this. `continues`: it goes on where the one before has ended, perhaps within a page.
    pub(crate) fn read(&mut self, who: Who, file: u32, offset: u64, bytes: u64, continues: bool) {
        let Some((offset, bytes)) = own_pages(offset, bytes, continues) else {
            return;
        };
        self.fate_mut(who);
        self.for_each(file, offset, bytes, |page, fates| {
            page.uses = page.uses.saturating_add(1);
            use_again(page, fates);
            page.flags &= !LAST_WROTE;
            fates[who as usize].read += 1;
            if page.has(READ) {
                page.flags |= READ_AGAIN;
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

    /// A call wrote this.
    pub(crate) fn written(
        &mut self,
        who: Who,
        file: u32,
        offset: u64,
        bytes: u64,
        continues: bool,
    ) {
        let Some((offset, bytes)) = own_pages(offset, bytes, continues) else {
            return;
        };
        self.fate_mut(who);
        self.for_each(file, offset, bytes, |page, fates| {
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

/// It is used: whoever used it last is credited, if it was kept since. To drop it then would have cost reading it again.
fn use_again(page: &mut Page, fates: &mut [Fate]) {
    if page.has(KEPT) {
        if page.has(LAST_WROTE) {
            fates[page.written_by as usize].kept_written += 1;
        } else {
            fates[page.read_by as usize].kept_read += 1;
        }
    }
    page.flags |= KEPT;
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
        pages.read(1, 7, 0, 6 * PAGE, false);
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
        pages.read(1, 7, 0, 2 * PAGE, false);
        pages.read(2, 7, 0, PAGE, false);
        pages.read(2, 7, 0, PAGE, false);
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
        pages.read(1, 7, 0, 4 * PAGE, false);
        pages.read(2, 7, 0, PAGE, false);
        pages.removed(7, 0, 4 * PAGE, true);
        pages.added(1, 7, 0, 4 * PAGE);
        pages.read(1, 7, 0, 4 * PAGE, false);
        assert_eq!((pages.fate(1).read_again, pages.fate(1).kept_read), (4, 1));
        pages.written(3, 7, 0, 2 * PAGE, false);
        pages.read(1, 7, 0, PAGE, false);
        pages.removed(7, 0, 4 * PAGE, true);
        pages.read(1, 7, PAGE, PAGE, false);
        assert_eq!(
            (pages.fate(1).kept_read, pages.fate(3).kept_written),
            (3, 1)
        );
    }

    #[test]
    fn small_reads_in_a_row_read_a_page_once() {
        let mut pages = Pages::default();
        for piece in 0..8 {
            pages.read(1, 7, piece * 1000, 1000, piece > 0);
        }
        assert_eq!((pages.fate(1).read, pages.fate(1).read_again), (2, 0));
    }

    #[test]
    fn what_is_written_and_read_back_counts_once() {
        let mut pages = Pages::default();
        pages.added(1, 7, 0, 2 * PAGE);
        pages.written(1, 7, 0, 2 * PAGE, false);
        pages.read(2, 7, 0, PAGE, false);
        pages.read(2, 7, 0, PAGE, false);
        pages.written(1, 7, PAGE, PAGE, false);
        pages.finish();
        let fate = pages.fate(1);
        assert_eq!((fate.written, fate.rewritten, fate.read_back), (3, 1, 1));
        assert_eq!((fate.unused, fate.used_once), (0, 1));
    }

    #[test]
    fn a_hostile_place_is_no_overflow() {
        let mut pages = Pages::default();
        pages.read(1, 7, u64::MAX - 10, 4096, false);
        assert_eq!(pages.fate(1).read, 1);
    }
}
