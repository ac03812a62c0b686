//! Which pages of a file the calls of a rule have brought into the page cache, and which of these lie behind them. Arithmetic only.
//!
//! The kernel tells of each page that a call brings in, and of each that leaves: what was cached before, or was brought in by
//! anybody else, never is among them. Pages are counted by chunks of 2 MiB, the largest folio: to drop a part of a folio does
//! nothing, and a chunk has only whole ones.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::Range;

use pagewise_abi::regret;

/// Bytes of a chunk.
pub(super) const CHUNK: u64 = regret::CHUNK;
pub(super) const PAGE: u64 = 4096;
const PAGES: usize = (CHUNK / PAGE) as usize;
/// Chunks that are waited for at once: of a reader that jumps about, the oldest are given up.
const MOST_OPEN: usize = 64;
/// Chunks that were just written are dropped when so many more were: they have been written back by then.
const WRITTEN_LAG: usize = 8;
/// Chunks that wait for the disk at most (8 GiB): the oldest of more are given up.
const MOST_WRITTEN: usize = 4096;

/// A bit for each page of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pages([u64; PAGES / 64]);

impl Pages {
    fn set(&mut self, pages: Range<usize>, value: bool) {
        for page in pages {
            let bit = 1 << (page % 64);
            if value {
                self.0[page / 64] |= bit;
            } else {
                self.0[page / 64] &= !bit;
            }
        }
    }

    fn has(&self, page: usize) -> bool {
        self.0[page / 64] >> (page % 64) & 1 == 1
    }

    fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn and_not(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    fn is_full(&self) -> bool {
        self.0.iter().all(|&word| word == u64::MAX)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Stretches of pages, as bytes of a file.
    fn ranges(&self, chunk: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in (0..PAGES).filter(|&page| self.has(page)) {
            let start = chunk * CHUNK + page as u64 * PAGE;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += PAGE,
                _ => ranges.push(start..start + PAGE),
            }
        }
        ranges
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Brought in by the rule's calls, and still there.
    own: Pages,
    /// Read or written by them.
    used: Pages,
    is_written: bool,
    /// Its writing back was asked for.
    is_flushed: bool,
}

/// A part of a file that lies behind its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// All that was looked at.
    pub(super) whole: Range<u64>,
    /// What may be dropped of it.
    pub(super) own: Vec<Range<u64>>,
    /// It ends where folios end: what stays has stayed for another reason.
    pub(super) has_whole_folios: bool,
    /// It was written: what is not on the disk yet cannot be dropped.
    pub(super) is_written: bool,
}

/// Of one file, what the calls of one rule did to it.
#[derive(Debug, Default)]
pub(super) struct Behind {
    chunks: BTreeMap<u64, Chunk>,
    /// Those that are not in `written`, in the order in which they were first used.
    order: VecDeque<u64>,
    /// Written, and not yet dropped, oldest first: at most [`MOST_WRITTEN`].
    written: VecDeque<u64>,
}

impl Passed {
    /// Of its chunk, by number, what may be dropped in whole granules, a bit each.
    pub(super) fn granules(&self) -> (u64, u32) {
        let chunk = self.whole.start / CHUNK;
        let granules = self.own.iter();
        let granules = granules.map(|range| regret::granules_within(chunk, range));
        (chunk, granules.fold(0, |all, of_range| all | of_range))
    }
}

impl Behind {
    /// A call brought these bytes in.
    pub(super) fn added(&mut self, bytes: &Range<u64>) {
        self.each(bytes, true, |chunk, pages| chunk.own.set(pages, true));
    }

    /// These bytes have left the page cache. What of them comes back need not be ours.
    pub(super) fn gone(&mut self, bytes: &Range<u64>) {
        self.each(bytes, false, |chunk, pages| chunk.own.set(pages, false));
    }

    /// A call has read or written these bytes. Returns a chunk that is to be written back now.
    pub(super) fn used(&mut self, bytes: &Range<u64>, is_write: bool) -> Vec<Range<u64>> {
        let mut full = Vec::new();
        let mut number = bytes.start / CHUNK;
        self.each(bytes, true, |chunk, pages| {
            let was_full = chunk.used.is_full();
            chunk.used.set(pages, true);
            chunk.is_written |= is_write;
            if is_write && !was_full && chunk.used.is_full() {
                chunk.is_flushed = true;
                full.push(number);
            }
            number += 1;
        });
        for &chunk in &full {
            self.wait_for_disk(chunk);
        }
        full.into_iter()
            .map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK)
            .collect()
    }

    /// What was read and lies behind the calls by now: whole chunks, and the oldest of too many that never were used as a whole.
    pub(super) fn take_passed(&mut self) -> Vec<Passed> {
        let mut passed = Vec::new();
        let is_read = |chunk: &Chunk| !chunk.is_written && chunk.used.is_full();
        let chunks = self.chunks.iter().filter(|(_, chunk)| is_read(chunk));
        let full: Vec<u64> = chunks.map(|(&number, _)| number).collect();
        passed.extend(full.into_iter().filter_map(|chunk| self.take(chunk)));
        while self.order.len() > MOST_OPEN {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if self
                .chunks
                .get(&oldest)
                .is_some_and(|chunk| chunk.is_written)
            {
                self.wait_for_disk(oldest);
            } else {
                passed.extend(self.take(oldest));
            }
        }
        passed
    }

    /// What was written longest ago, if that is long enough: whoever finds it on the disk takes it, who does not postpones it.
    pub(super) fn oldest_written(&self) -> Option<Range<u64>> {
        let is_ripe = self.written.len() > WRITTEN_LAG;
        let &oldest = self.written.front().filter(|_| is_ripe)?;
        Some(oldest * CHUNK..(oldest + 1) * CHUNK)
    }

    pub(super) fn take_oldest_written(&mut self) -> Option<Passed> {
        let oldest = self.written.pop_front()?;
        self.take(oldest)
    }

    /// The oldest was written again: its turn comes after that of the others.
    pub(super) fn postpone_oldest_written(&mut self) {
        if !self.written.is_empty() {
            self.written.rotate_left(1);
        }
    }

    /// From now on it is one of those that were written.
    fn wait_for_disk(&mut self, chunk: u64) {
        // A few at the end, where the chunks of one who writes in order are.
        if let Some(at) = self.order.iter().rposition(|&other| other == chunk) {
            self.order.remove(at);
        }
        if !self.written.contains(&chunk) {
            self.written.push_back(chunk);
        }
        if self.written.len() > MOST_WRITTEN
            && let Some(oldest) = self.written.pop_front()
        {
            self.chunks.remove(&oldest);
        }
    }

    /// Nothing has happened for a while: what was used. What was read ahead, and not used yet, stays; and what was written and
    /// is now to be written back, which is returned first, until the next time.
    pub(super) fn take_used(&mut self) -> (Vec<Range<u64>>, Vec<Passed>) {
        let (mut dirty, mut passed) = (Vec::new(), Vec::new());
        self.written.clear();
        self.order.clear();
        for (&number, chunk) in &mut self.chunks {
            if chunk.is_written && !chunk.is_flushed {
                chunk.is_flushed = true;
                dirty.push(number * CHUNK..(number + 1) * CHUNK);
                continue;
            }
            let used = chunk.own.and(&chunk.used);
            chunk.own = chunk.own.and_not(&chunk.used);
            let has_whole_folios = chunk.own.is_empty();
            chunk.used = Pages::default();
            let is_written = std::mem::take(&mut chunk.is_written);
            passed.push(Passed {
                whole: number * CHUNK..(number + 1) * CHUNK,
                own: used.ranges(number),
                has_whole_folios,
                is_written,
            });
        }
        self.chunks
            .retain(|_, chunk| chunk.is_written || !chunk.own.is_empty());
        self.order = self.chunks.keys().copied().collect();
        passed.retain(|passed| !passed.own.is_empty());
        (dirty, passed)
    }

    /// What was written and is not asked to be written back yet, which it is to be now.
    pub(super) fn take_dirty(&mut self) -> Vec<Range<u64>> {
        let chunks = self.chunks.iter_mut();
        let dirty = chunks.filter(|(_, chunk)| chunk.is_written && !chunk.is_flushed);
        let ranges = dirty.map(|(&number, chunk)| {
            chunk.is_flushed = true;
            number * CHUNK..(number + 1) * CHUNK
        });
        ranges.collect()
    }

    /// Somebody has read to the end of the file, and others go on: what was used of the chunk there, which will never be full.
    pub(super) fn take_last(&mut self, end: u64) -> Option<Passed> {
        let number = end.checked_sub(1)? / CHUNK;
        let chunk = self.chunks.get_mut(&number)?;
        if chunk.is_written {
            return None;
        }
        let own = chunk.own.and(&chunk.used);
        chunk.own = chunk.own.and_not(&own);
        let has_whole_folios = chunk.own.is_empty();
        if has_whole_folios {
            self.take(number);
        }
        (!own.is_empty()).then(|| Passed {
            whole: number * CHUNK..(number + 1) * CHUNK,
            own: own.ranges(number),
            has_whole_folios,
            is_written: false,
        })
    }

    /// The file is done with: all that was brought in, also what was read ahead and never used.
    pub(super) fn take_all(&mut self) -> Vec<Passed> {
        let numbers: Vec<u64> = self.chunks.keys().copied().collect();
        let all = numbers.into_iter().filter_map(|number| self.take(number));
        let all = all.collect();
        *self = Self::default();
        all
    }

    /// It could not be dropped yet.
    pub(super) fn put_back(&mut self, passed: &Passed) {
        for range in &passed.own {
            self.each(range, true, |chunk, pages| {
                chunk.own.set(pages.clone(), true);
                chunk.used.set(pages, true);
                chunk.is_written = true;
                chunk.is_flushed = true;
            });
        }
        let chunk = passed.whole.start / CHUNK;
        if !passed.own.is_empty() {
            self.wait_for_disk(chunk);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Something was written that could not be dropped yet.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.chunks.values().any(|chunk| chunk.is_written)
    }

    fn take(&mut self, number: u64) -> Option<Passed> {
        let chunk = self.chunks.remove(&number)?;
        // A few at the front, where the chunks of one who reads in order are.
        if let Some(at) = self.order.iter().position(|&other| other == number) {
            self.order.remove(at);
        }
        (!chunk.used.is_empty() || !chunk.own.is_empty()).then(|| Passed {
            whole: number * CHUNK..(number + 1) * CHUNK,
            own: chunk.own.ranges(number),
            has_whole_folios: true,
            is_written: chunk.is_written,
        })
    }

    /// Calls `change` with each chunk that the range is in, and the pages of it that are.
    fn each(
        &mut self,
        bytes: &Range<u64>,
        makes: bool,
        mut change: impl FnMut(&mut Chunk, Range<usize>),
    ) {
        if bytes.is_empty() {
            return;
        }
        for number in bytes.start / CHUNK..=(bytes.end - 1) / CHUNK {
            let begin = bytes.start.max(number * CHUNK) - number * CHUNK;
            let end = bytes.end.min((number + 1) * CHUNK) - number * CHUNK;
            let pages = (begin / PAGE) as usize..end.div_ceil(PAGE) as usize;
            match self.chunks.get_mut(&number) {
                Some(chunk) => change(chunk, pages),
                None if makes => {
                    let mut chunk = Chunk::default();
                    change(&mut chunk, pages);
                    self.chunks.insert(number, chunk);
                    self.order.push_back(number);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    const PIECE: u64 = 64 << 10;

    fn read(behind: &mut Behind, from: u64, to: u64) -> Vec<Passed> {
        let mut passed = Vec::new();
        for at in (from..to).step_by(PIECE as usize) {
            assert!(behind.used(&(at..at + PIECE), false).is_empty());
            passed.extend(behind.take_passed());
        }
        passed
    }

    #[test]
    fn a_chunk_passes_once_all_of_it_was_read() {
        let mut behind = Behind::default();
        behind.added(&(0..2 * CHUNK));
        assert!(read(&mut behind, 0, CHUNK - PIECE).is_empty());
        let passed = read(&mut behind, CHUNK - PIECE, CHUNK);
        let expected = Passed {
            whole: 0..CHUNK,
            own: vec![0..CHUNK],
            has_whole_folios: true,
            is_written: false,
        };
        assert_eq!(passed, [expected]);
        // What was read ahead stays until the file is done with.
        assert_eq!(behind.take_used(), (vec![], vec![]));
        assert_eq!(behind.take_all()[0].own, [CHUNK..2 * CHUNK]);
        assert!(behind.is_empty());
    }

    #[test]
    fn what_was_cached_before_and_what_left_meanwhile_is_not_ours() {
        let mut behind = Behind::default();
        behind.added(&(0..CHUNK / 2));
        behind.gone(&(PAGE..2 * PAGE));
        behind.gone(&(5 * CHUNK..6 * CHUNK));
        let passed = read(&mut behind, 0, CHUNK);
        assert_eq!(passed[0].own, [0..PAGE, 2 * PAGE..CHUNK / 2]);
        // All of it another's: told, and nothing dropped.
        let passed = read(&mut behind, CHUNK, 2 * CHUNK);
        assert!(passed[0].own.is_empty() && passed.len() == 1);
    }

    #[test]
    fn chunks_may_be_read_in_any_order_and_by_many() {
        let mut behind = Behind::default();
        behind.added(&(0..2 * CHUNK));
        let mut passed = Vec::new();
        for at in (0..CHUNK / PIECE).rev().map(|piece| piece * PIECE) {
            behind.used(&(at..at + PIECE), false);
            behind.used(&(CHUNK + at..CHUNK + at + PIECE), false);
            passed.extend(behind.take_passed());
        }
        assert_eq!(passed.len(), 2);
        assert!(behind.is_empty());
    }

    #[test]
    fn at_the_end_of_a_file_that_others_read_what_was_used_there_goes() {
        let mut behind = Behind::default();
        behind.added(&(0..CHUNK + 2 * PIECE));
        read(&mut behind, 0, PIECE);
        read(&mut behind, CHUNK, CHUNK + PIECE);
        let passed = behind.take_last(CHUNK + 2 * PIECE).expect("used");
        assert_eq!(passed.own, [CHUNK..CHUNK + PIECE]);
        assert!(!passed.has_whole_folios);
        assert_eq!(behind.take_last(CHUNK + 2 * PIECE), None);
        read(&mut behind, CHUNK + PIECE, CHUNK + 2 * PIECE);
        let passed = behind.take_last(CHUNK + 2 * PIECE).expect("used");
        assert!(passed.has_whole_folios);
        assert_eq!(behind.take_last(0), None);
        assert_eq!(behind.take_all()[0].own, [0..CHUNK], "of those others");
    }

    #[test]
    fn of_one_who_jumps_the_oldest_places_are_given_up() {
        let mut behind = Behind::default();
        for chunk in 0..200 {
            let page = chunk * CHUNK..chunk * CHUNK + PAGE;
            behind.added(&page);
            behind.used(&page, false);
            for passed in behind.take_passed() {
                assert_eq!(passed.own[0].end - passed.own[0].start, PAGE);
            }
        }
        assert_eq!(behind.chunks.len(), MOST_OPEN);
        assert_eq!(behind.take_all().len(), MOST_OPEN);
    }

    #[test]
    fn what_is_written_passes_later() {
        let mut behind = Behind::default();
        let mut passed = Vec::new();
        for chunk in 0..WRITTEN_LAG as u64 + 2 {
            let range = chunk * CHUNK..(chunk + 1) * CHUNK;
            behind.added(&range);
            assert_eq!(behind.used(&range, true), std::slice::from_ref(&range));
            // Written again, it is not asked for again.
            assert!(behind.used(&range, true).is_empty());
            assert!(behind.take_passed().is_empty(), "it waits for the disk");
            if behind.oldest_written().is_some() {
                passed.extend(behind.take_oldest_written());
            }
        }
        let starts: Vec<u64> = passed.iter().map(|passed| passed.whole.start).collect();
        assert_eq!(starts, [0, CHUNK]);
        // Not on the disk yet: tried again, after the others.
        behind.put_back(&passed[1]);
        assert_eq!(behind.oldest_written(), Some(2 * CHUNK..3 * CHUNK));
        for _ in 0..WRITTEN_LAG {
            behind.postpone_oldest_written();
        }
        assert_eq!(behind.take_oldest_written().as_ref(), passed.last());
        assert_eq!(behind.oldest_written(), None, "the others are too young");
        let page = 50 * CHUNK..50 * CHUNK + PAGE;
        behind.added(&page);
        behind.used(&page, true);
        let (dirty, passed) = behind.take_used();
        assert_eq!((dirty.len(), passed.len()), (1, WRITTEN_LAG));
        let (dirty, passed) = behind.take_used();
        assert_eq!((dirty.len(), passed[0].own.clone()), (0, vec![page]));
        assert!(behind.is_empty());
    }

    #[test]
    fn what_waits_for_a_slow_disk_is_bounded_and_costs_no_open_places() {
        let mut behind = Behind::default();
        for chunk in 0..MOST_WRITTEN as u64 + 10 {
            let range = chunk * CHUNK..(chunk + 1) * CHUNK;
            behind.added(&range);
            behind.used(&range, true);
        }
        assert_eq!(behind.oldest_written(), Some(10 * CHUNK..11 * CHUNK));
        assert!(behind.take_passed().is_empty() && behind.order.is_empty());
        assert_eq!(behind.chunks.len(), MOST_WRITTEN);
        // One who jumps about, writing: those wait, too, and are not taken from those that were read.
        for chunk in 0..MOST_OPEN as u64 + 1 {
            let at = (2 * chunk + 9999) * CHUNK;
            behind.used(&(at..at + PAGE), true);
        }
        assert!(behind.take_passed().is_empty());
        assert_eq!(behind.order.len(), MOST_OPEN);
        assert_eq!(behind.written.len(), MOST_WRITTEN);
    }

    #[test]
    fn what_a_short_writer_leaves_is_written_back_and_waited_for() {
        let mut behind = Behind::default();
        behind.added(&(0..PIECE));
        behind.used(&(0..PIECE), true);
        assert_eq!(behind.take_dirty(), [0..CHUNK]);
        assert!(behind.take_dirty().is_empty(), "once is enough");
        let passed = behind.take_all();
        assert!(passed[0].is_written && !behind.waits_for_disk());
        behind.put_back(&passed[0]);
        assert!(behind.waits_for_disk());
        let (dirty, passed) = behind.take_used();
        assert_eq!((dirty.len(), passed[0].own.clone()), (0, vec![0..PIECE]));
    }

    #[test]
    fn at_rest_only_what_was_used_goes() {
        let mut behind = Behind::default();
        behind.added(&(0..CHUNK));
        behind.used(&(0..PIECE), false);
        let (_, passed) = behind.take_used();
        assert_eq!(passed[0].own, vec![0..PIECE]);
        assert!(!passed[0].has_whole_folios, "its last folio may go on");
        assert!(behind.take_used().1.is_empty());
        assert_eq!(behind.take_all()[0].own, vec![PIECE..CHUNK]);
    }
}
