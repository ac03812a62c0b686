//! Which part of a file lies behind its reader, and whose it was: what may be dropped from the page cache. Arithmetic only.
//!
//! ```text
//!   begin            end                 looked
//!     |--- read -------|--- read ahead ---|      chunks of 2 MiB, each with a bit for every 64 KiB that was cached before
//! ```
//!
//! A chunk is as large as the largest folio: to drop a part of a folio does nothing.

use std::ops::Range;

use pagewise_abi::regret;

/// Bytes of a chunk.
pub(super) const CHUNK: u64 = regret::CHUNK;
/// Bytes of a bit of a chunk.
pub(super) const GRANULE: u64 = regret::GRANULE;
/// Chunks that are known at once.
const KNOWN: u64 = 64;
/// How far the kernel may read ahead at most: two windows, of twice 8 MiB.
const REACH: u64 = 32 << 20;
/// A window is at most four times as large as the one before while it is small, twice later, and is read when the reader is at the
/// beginning of that (`get_init_ra_size()` and `get_next_ra_size()`, mm/readahead.c, 6.12): so many times what was read at first, and so
/// many times and so much later.
const AT_FIRST: u64 = 16;
const LATER: u64 = 4;
const AND: u64 = 4 << 20;
/// A call of unknown length is taken for one of this.
const UNKNOWN_CALL: u64 = 512 << 10;
/// Behind the end of a run so much that was read ahead is dropped.
const REST: u64 = 16 << 20;
/// A run goes on if no more than this is left out, or read again.
const SLACK: u64 = 256 << 10;
/// What was just written is dropped so much later where the kernel does not tell whether it has been written back.
pub(super) const WRITE_LAG: u64 = 16 << 20;

/// A run through a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    start: u64,
    /// What is before it is done; start of a chunk.
    begin: u64,
    end: u64,
    /// The chunks from `begin` to here have been looked at.
    looked: u64,
    /// Written back up to here.
    pub(super) written: u64,
    /// Granules that were cached before, by number of the chunk.
    others: [u32; KNOWN as usize],
    is_any: bool,
}

impl Behind {
    pub(super) const NONE: Self = Self {
        start: 0,
        begin: 0,
        end: 0,
        looked: 0,
        written: 0,
        others: [0; KNOWN as usize],
        is_any: false,
    };

    pub(super) fn is_any(&self) -> bool {
        self.is_any
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether a call at this place goes on with the run.
    pub(super) fn goes_on_at(&self, offset: u64) -> bool {
        self.is_any
            && offset >= self.end.saturating_sub(SLACK).max(self.begin)
            && offset <= self.end + SLACK
    }

    pub(super) fn start_at(&mut self, offset: u64) {
        *self = Self::NONE;
        self.start = offset;
        self.begin = offset / CHUNK * CHUNK;
        self.end = offset;
        self.looked = self.begin;
        self.written = offset;
        self.is_any = true;
    }

    /// The run has got on to here.
    pub(super) fn reach(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// What is to be looked at before the next call, of so many bytes (0: unknown), `reads_ahead` if the kernel does for it. Empty: nothing
    /// yet.
    pub(super) fn unseen_before(&self, bytes: u64, reads_ahead: bool) -> Range<u64> {
        let call = if bytes == 0 { UNKNOWN_CALL } else { bytes };
        let read = self.end - self.start + call;
        let ahead = match reads_ahead {
            false => 0,
            true => (AT_FIRST * read).min(LATER * read + AND).min(REACH),
        };
        let bytes = bytes.max(1);
        // Further than needed, so that there are few looks.
        let wanted = (self.end + bytes + ahead + ahead / 2).next_multiple_of(CHUNK);
        // A look costs a system call: many chunks at a time, but the first ones in time.
        let is_due = self.looked < (self.end + bytes + ahead).next_multiple_of(CHUNK);
        // A range that begins where nothing is known yet may be as long as it likes, should nothing of it be cached.
        let most = if self.looked == self.begin {
            u64::MAX
        } else {
            (self.begin + KNOWN * CHUNK).max(self.looked)
        };
        if is_due && self.looked < wanted.min(most) {
            self.looked..wanted.min(most)
        } else {
            self.looked..self.looked
        }
    }

    /// Nothing of what was to be looked at was cached.
    pub(super) fn is_clear(&mut self, range: &Range<u64>) {
        for chunk in self.numbers(range) {
            self.others[(chunk % KNOWN) as usize] = 0;
        }
        self.looked = range.end;
    }

    /// Chunks of a range that a look may tell apart: what is further is left alone.
    pub(super) fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        let first = range.start / CHUNK;
        first
            ..range
                .end
                .div_ceil(CHUNK)
                .min(self.begin / CHUNK + KNOWN)
                .max(first)
    }

    /// A chunk was looked at by itself: which granules were cached.
    pub(super) fn set_others(&mut self, chunk: u64, granules: u32) {
        self.others[(chunk % KNOWN) as usize] = granules;
        self.looked = (chunk + 1) * CHUNK;
    }

    /// What is cached of these granules is the run's own.
    pub(super) fn set_own(&mut self, range: &Range<u64>) {
        let looked = self.begin / CHUNK..self.looked / CHUNK;
        for chunk in self.numbers(range).filter(|chunk| looked.contains(chunk)) {
            self.others[(chunk % KNOWN) as usize] &= !regret::granules_within(chunk, range);
        }
    }

    /// Nothing of the run is its own, as all of it was cached before.
    pub(super) fn is_others(&self) -> bool {
        let chunks = self.begin / CHUNK..self.looked / CHUNK;
        self.looked >= self.end
            && chunks.end - chunks.start <= KNOWN
            && chunks
                .into_iter()
                .all(|chunk| self.others[(chunk % KNOWN) as usize] == u32::MAX)
    }

    /// Where the next chunk is that lies behind the run by so much.
    pub(super) fn passed(&self, lag: u64) -> Option<Range<u64>> {
        let end = self.end.checked_sub(lag)?;
        let chunk = self.begin..self.begin + CHUNK;
        (chunk.end <= end).then_some(chunk)
    }

    /// The granules of a chunk that the run has gone through, a bit each.
    pub(super) fn touched(&self, chunk: u64) -> u32 {
        regret::granules_within(chunk, &(self.start..self.end))
    }

    /// Hardly more can be known at once.
    pub(super) fn is_crowded(&self) -> bool {
        self.end.saturating_sub(self.begin) >= (KNOWN - 8) * CHUNK
    }

    /// Takes the next chunk that lies behind the run by so much: its number, and the granules that were cached before.
    pub(super) fn take_passed(&mut self, lag: u64) -> Option<(u64, u32)> {
        self.passed(lag).map(|_| self.take())
    }

    /// Takes the next chunk that the run, or reading ahead of it, may have touched.
    pub(super) fn take_rest(&mut self, reads_ahead: bool) -> Option<(u64, u32)> {
        let run = self.end - self.start;
        let ahead = if reads_ahead && run > 0 {
            (4 * run).min(REST)
        } else {
            0
        };
        let chunk =
            (self.begin < self.end + ahead && self.begin < self.looked).then(|| self.take());
        if chunk.is_none() {
            self.is_any = false;
        }
        chunk
    }

    fn take(&mut self) -> (u64, u32) {
        let chunk = self.begin / CHUNK;
        let is_known = self.begin < self.looked;
        self.begin += CHUNK;
        self.looked = self.looked.max(self.begin);
        let others = if is_known {
            self.others[(chunk % KNOWN) as usize]
        } else {
            u32::MAX
        };
        (chunk, others)
    }
}

/// The parts of a chunk that were not cached before, as offsets in the file.
pub(super) fn own_parts(chunk: u64, others: u32) -> impl Iterator<Item = Range<u64>> {
    let mut granule = 0;
    std::iter::from_fn(move || {
        let clear = |granule: u32| granule < 32 && others >> granule & 1 == 0;
        while granule < 32 && !clear(granule) {
            granule += 1;
        }
        let first = granule;
        while clear(granule) {
            granule += 1;
        }
        let at = |granule: u32| chunk * CHUNK + u64::from(granule) * GRANULE;
        (first < granule).then(|| at(first)..at(granule))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks as the library does, with what is cached given by a function of the offset.
    fn look(behind: &mut Behind, bytes: u64, is_cached: impl Fn(u64) -> bool) {
        let range = behind.unseen_before(bytes, true);
        if range.is_empty() {
            return;
        }
        let granules =
            |range: Range<u64>| (range.start / GRANULE..range.end / GRANULE).map(|at| at * GRANULE);
        if !granules(range.clone()).any(&is_cached) {
            behind.is_clear(&range);
            return;
        }
        for chunk in behind.numbers(&range) {
            let all = granules(chunk * CHUNK..(chunk + 1) * CHUNK).enumerate();
            let bits = all
                .filter(|&(_, at)| is_cached(at))
                .map(|(bit, _)| 1u32 << bit);
            behind.set_others(chunk, bits.sum());
        }
    }

    fn dropped(behind: &mut Behind, at_end: bool) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        loop {
            let chunk = if at_end {
                behind.take_rest(true)
            } else {
                behind.take_passed(0)
            };
            let Some((chunk, others)) = chunk else {
                return parts;
            };
            parts.extend(own_parts(chunk, others));
        }
    }

    #[test]
    fn a_scan_is_dropped_in_whole_chunks_and_to_its_end() {
        let mut behind = Behind::NONE;
        behind.start_at(0);
        let mut parts = Vec::new();
        for call in 0..20u64 {
            assert!(behind.goes_on_at(call * 1_000_000));
            look(&mut behind, 1_000_000, |_| false);
            behind.reach((call + 1) * 1_000_000);
            parts.extend(dropped(&mut behind, false));
        }
        assert!(
            parts
                .iter()
                .all(|part| part.start % CHUNK == 0 && part.end - part.start == CHUNK)
        );
        assert_eq!(parts.last().map(|part| part.end), Some(9 * CHUNK));
        let rest = dropped(&mut behind, true);
        assert_eq!(rest.first().map(|part| part.start), Some(9 * CHUNK));
        assert!(rest.last().is_some_and(|part| part.end >= 20_000_000));
        assert!(!behind.is_any());
    }

    #[test]
    fn what_was_cached_before_is_never_dropped_however_far_ahead_the_kernel_reads() {
        let hot = |at: u64| (30 << 20..37 << 20).contains(&at) || at == 50 << 20;
        let mut behind = Behind::NONE;
        behind.start_at(0);
        let mut read_ahead = 0;
        let mut parts = Vec::new();
        for call in 0..100u64 {
            // All up to there is cached by the time it is looked at: by us.
            let ours = read_ahead;
            look(&mut behind, 1 << 20, |at| hot(at) || at < ours);
            behind.reach((call + 1) << 20);
            read_ahead = behind.end() + (behind.end() * 2).min(16 << 20);
            parts.extend(dropped(&mut behind, false));
        }
        let total: u64 = parts.iter().map(|part| part.end - part.start).sum();
        assert_eq!(total, (100 << 20) - (7 << 20) - GRANULE);
        assert!(
            parts
                .iter()
                .all(|part| !(part.start..part.end).step_by(GRANULE as usize).any(hot))
        );
    }

    #[test]
    fn a_call_that_reads_all_at_once_is_dropped_if_nothing_was_cached() {
        let mut behind = Behind::NONE;
        behind.start_at(0);
        look(&mut behind, 1 << 30, |_| false);
        behind.reach(1 << 30);
        assert_eq!(dropped(&mut behind, false).len(), 512);
        let mut behind = Behind::NONE;
        behind.start_at(0);
        look(&mut behind, 1 << 30, |at| at == 0);
        behind.reach(1 << 30);
        let parts = dropped(&mut behind, false);
        assert_eq!(
            parts.last().map(|part| part.end),
            Some(KNOWN * CHUNK),
            "the rest is unknown"
        );
    }

    #[test]
    fn jumps_end_a_run_and_small_steps_do_not() {
        let mut behind = Behind::NONE;
        assert!(!behind.goes_on_at(0));
        behind.start_at(5 << 20);
        behind.reach(6 << 20);
        assert!(behind.goes_on_at((6 << 20) + SLACK) && behind.goes_on_at((6 << 20) - SLACK));
        assert!(!behind.goes_on_at(8 << 20) && !behind.goes_on_at(0));
        // Where nothing is read ahead, nothing more is looked at nor dropped.
        assert_eq!(behind.unseen_before(4096, false), 4 << 20..8 << 20);
    }

    #[test]
    fn a_short_run_is_looked_at_as_far_as_the_kernel_can_have_read_ahead() {
        let mut behind = Behind::NONE;
        behind.start_at(6 << 20);
        assert_eq!(behind.unseen_before(4096, true), 6 << 20..8 << 20);
        assert_eq!(behind.unseen_before(0, true), 6 << 20..16 << 20);
        assert_eq!(behind.unseen_before(1 << 20, true), 6 << 20..20 << 20);
        behind.reach(7 << 20);
        assert_eq!(behind.unseen_before(64 << 20, true).end, 120 << 20);
        // What a small call before it has brought in is its own, though it is there already.
        look(&mut behind, 4096, |at| at < 7 << 20);
        behind.set_own(&((6 << 20) + GRANULE..(6 << 20) + 3 * GRANULE));
        behind.reach(8 << 20);
        let (chunk, others) = behind.take_passed(0).expect("passed");
        assert_eq!(
            (chunk, others),
            (3, 0xfff9),
            "half of it but for two granules"
        );
    }

    #[test]
    fn what_is_written_waits_until_it_may_be_clean() {
        let mut behind = Behind::NONE;
        behind.start_at(0);
        look(&mut behind, 20 << 20, |_| false);
        behind.reach(20 << 20);
        let count = std::iter::from_fn(|| behind.take_passed(WRITE_LAG)).count();
        assert_eq!(count, 2);
        assert_eq!(behind.passed(WRITE_LAG), None);
        assert_eq!(behind.passed(0), Some(4 << 20..6 << 20));
        assert!(!behind.is_crowded());
        behind.reach((KNOWN - 6) * CHUNK);
        assert!(behind.is_crowded());
    }
}
