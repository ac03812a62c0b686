//! Whether what was dropped is missed: it comes back into the page cache so soon that it would have been there still. A backup that is read
//! twice, where the recording saw it once, costs as much again when it is dropped. Arithmetic only, the same in the preloaded library and outside.
//!
//! A program that goes through more than fits into memory reads all of it again, too; that would have been gone anyhow, and is no harm done.

use core::ops::Range;

use crate::plan::MOST_RULES;

/// Bytes of a chunk, by which files are dropped, and of a bit of it.
pub const CHUNK: u64 = 2 << 20;
/// See [`CHUNK`].
pub const GRANULE: u64 = CHUNK / 32;
/// Chunks that are remembered at once. Where there are more than half as many, every second one is followed, then every fourth, and so on.
const PLACES: usize = 1 << 14;
/// So many granules must have been missed to tell it from chance (16 MiB),
const FEWEST: u64 = 256;
/// and so many percent of all that were dropped, beyond those that were reckoned with.
const SHARE: u64 = 5;
/// What comes back before this part of memory was dropped by all rules together would have been in memory still; the rest is others'.
const OF_MEMORY: u64 = 2;

#[derive(Clone, Copy)]
struct Dropped {
    /// Which chunk of which file; 0: none.
    key: u64,
    /// Granules that all rules had dropped by then.
    at: u64,
    granules: u32,
    rule: u32,
}

#[derive(Clone, Copy)]
struct OfRule {
    dropped: u64,
    missed: u64,
    again_percent: u64,
}

/// What a rule drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// That rule.
    pub rule: usize,
    /// Of which file.
    pub file: (u64, u64),
    /// Of which chunk.
    pub chunk: u64,
    /// What calls have brought in of it, a bit each.
    pub granules: u32,
    /// So many percent of what the rule drops are known to be missed, and reckoned with.
    pub again_percent: u64,
    /// It was written: that nothing is there to write over costs nothing.
    pub is_written: bool,
}

/// What came back of what a rule has dropped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// That rule.
    pub rule: usize,
    /// Bytes that would have been in the page cache still, as far as chunks are followed: what these stand for.
    pub bytes: u64,
    /// It is so much by now that dropping does harm.
    pub is_harm: bool,
}

/// What was dropped of all files.
pub struct Regret {
    chunks: [Dropped; PLACES],
    taken: usize,
    /// Chunks are followed whose keys end so: a bit more halves their number.
    sample: u64,
    all: u64,
    rules: [OfRule; MOST_RULES],
}

impl Regret {
    /// Nothing was.
    pub const NONE: Self = Self {
        chunks: [Dropped {
            key: 0,
            at: 0,
            granules: 0,
            rule: 0,
        }; PLACES],
        taken: 0,
        sample: 0,
        all: 0,
        rules: [OfRule {
            dropped: 0,
            missed: 0,
            again_percent: 0,
        }; MOST_RULES],
    };

    /// Something is dropped by a program that may use so much memory. Returns what of it was dropped before and had come back.
    pub fn dropped(&mut self, drop: Drop, memory_bytes: u64) -> Option<Missed> {
        let Drop { rule, granules, .. } = drop;
        let key = key(drop.file, drop.chunk);
        let count = u64::from(granules.count_ones());
        let before = self.all;
        self.all += count;
        if !self.follows(key) {
            return None;
        }
        if let Some(of_rule) = self.rules.get_mut(rule) {
            of_rule.dropped += count;
            of_rule.again_percent = drop.again_percent;
        }
        let number = (key >> 32) as usize % PLACES;
        let last = self.chunks[number];
        if last.key == 0 || !self.follows(last.key) {
            self.take_place();
        }
        let place = &mut self.chunks[number];
        *place = Dropped {
            key,
            at: before,
            granules,
            rule: rule as u32,
        };
        if last.key != key {
            return None;
        }
        // A run may come by in parts.
        place.granules |= last.granules;
        let again = u64::from((last.granules & granules).count_ones());
        let is_soon = (before - last.at).saturating_mul(GRANULE) < memory_bytes / OF_MEMORY;
        (again > 0 && is_soon && !drop.is_written).then(|| self.miss(last.rule as usize, again))
    }

    fn follows(&self, key: u64) -> bool {
        key & self.sample == 0
    }

    fn take_place(&mut self) {
        self.taken += 1;
        if self.taken > PLACES / 2 {
            self.sample = self.sample << 1 | 1;
            self.taken /= 2;
        }
    }

    fn miss(&mut self, rule: usize, again: u64) -> Missed {
        let is_harm = self.rules.get_mut(rule).is_some_and(|of_rule| {
            of_rule.missed += again;
            let most = SHARE + of_rule.again_percent;
            of_rule.missed >= FEWEST && of_rule.missed * 100 > of_rule.dropped * most
        });
        Missed {
            rule,
            bytes: again * GRANULE * (self.sample + 1),
            is_harm,
        }
    }
}

/// Never 0. That two are the same is as unlikely as 2^64 is large.
fn key((device, inode): (u64, u64), chunk: u64) -> u64 {
    let mut mixed = device;
    for part in [inode, chunk] {
        // SplitMix64 (G. Steele et al., OOPSLA 2014).
        mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ part;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
    }
    mixed.max(1)
}

/// The granules of a chunk that lie wholly in a range of the file, a bit each. (Of one that lies there in part, the next run may have the rest,
/// and would seem to have read it again.)
pub fn granules_within(chunk: u64, range: &Range<u64>) -> u32 {
    let start = chunk.saturating_mul(CHUNK);
    let begin = range.start.saturating_sub(start).div_ceil(GRANULE).min(32);
    let end = (range.end.saturating_sub(start) / GRANULE).min(32);
    let below = |count: u64| ((1u64 << count) - 1) as u32;
    below(end) & !below(begin)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::boxed::Box;

    const FILE: (u64, u64) = (8, 1234);
    const ALL: u32 = u32::MAX;
    const GIB: u64 = 1 << 30;

    fn none() -> Box<Regret> {
        Box::new(Regret::NONE)
    }

    fn whole(chunk: u64) -> Drop {
        Drop {
            rule: 0,
            file: FILE,
            chunk,
            granules: ALL,
            again_percent: 0,
            is_written: false,
        }
    }

    /// Drops so many chunks in order; what was missed of them, and whether that is harm.
    fn pass(regret: &mut Regret, chunks: u64, memory_bytes: u64) -> (u64, bool) {
        let missed = (0..chunks).filter_map(|chunk| regret.dropped(whole(chunk), memory_bytes));
        missed.fold((0, false), |(bytes, harm), missed| {
            assert_eq!(missed.rule, 0);
            (bytes + missed.bytes, harm | missed.is_harm)
        })
    }

    #[test]
    fn what_is_read_twice_and_would_fit_is_missed() {
        let mut regret = none();
        assert_eq!(pass(&mut regret, 100, GIB), (0, false));
        let (bytes, is_harm) = pass(&mut regret, 100, GIB);
        // Some have the same place.
        assert!(is_harm && bytes > 90 * CHUNK, "{bytes}");
    }

    #[test]
    fn what_was_reckoned_with_is_no_harm() {
        let mut regret = none();
        let mut drops = |chunk| {
            let drop = Drop {
                again_percent: 20,
                ..whole(chunk)
            };
            regret.dropped(drop, 4 * GIB)
        };
        // A fifth of all again, then more than a fourth.
        let again = (0..100).chain(0..25).filter_map(&mut drops);
        assert!(again.inspect(|missed| assert!(!missed.is_harm)).count() > 20);
        let more = (25..50).filter_map(drops);
        assert!(more.fold(false, |harm, missed| harm | missed.is_harm));
    }

    #[test]
    fn what_would_have_gone_anyhow_is_not_missed() {
        let mut regret = none();
        for _ in 0..5 {
            assert_eq!(pass(&mut regret, 300, GIB), (0, false));
        }
    }

    #[test]
    fn a_little_that_comes_back_is_no_harm() {
        let mut regret = none();
        pass(&mut regret, 1000, 4 * GIB);
        for chunk in 0..20 {
            let missed = regret.dropped(whole(chunk), 4 * GIB);
            assert!(missed.is_none_or(|missed| !missed.is_harm), "{chunk}");
        }
        // Nor is all of a small file.
        let mut regret = none();
        pass(&mut regret, 1, GIB);
        assert_eq!(pass(&mut regret, 1, GIB), (CHUNK, false));
    }

    #[test]
    fn parts_of_a_chunk_are_told_apart_and_so_are_files() {
        let mut regret = none();
        let mut drops = |rule, file, chunk, granules| {
            let drop = Drop {
                rule,
                file,
                chunk,
                granules,
                again_percent: 0,
                is_written: false,
            };
            regret.dropped(drop, GIB)
        };
        let half = 0xffff;
        assert_eq!(drops(3, FILE, 7, half), None);
        assert_eq!(drops(3, FILE, 7, !half), None);
        assert_eq!(drops(3, FILE, 8, ALL), None);
        assert_eq!(drops(3, (9, 1234), 7, ALL), None);
        let missed = drops(4, FILE, 7, 1 << 31 | 1);
        let missed = missed.expect("both parts were dropped");
        assert_eq!(
            (missed.rule, missed.bytes),
            (3, 2 * GRANULE),
            "by the first"
        );
    }

    #[test]
    fn what_is_written_over_is_not_missed() {
        let mut regret = none();
        pass(&mut regret, 1, GIB);
        let written = Drop {
            is_written: true,
            ..whole(0)
        };
        assert_eq!(regret.dropped(written, GIB), None);
        assert!(regret.dropped(whole(0), GIB).is_some(), "what is read is");
    }

    #[test]
    fn of_more_than_is_remembered_enough_is_left_to_show() {
        let mut regret = none();
        let chunks = 4 * PLACES as u64;
        pass(&mut regret, chunks, u64::MAX);
        let (bytes, is_harm) = pass(&mut regret, chunks, u64::MAX);
        let all = chunks * CHUNK;
        assert!(
            is_harm && (all / 3..=all).contains(&bytes),
            "{bytes} of {all}"
        );
    }

    #[test]
    fn granules_count_as_a_whole() {
        let start = 5 * CHUNK;
        for (range, expected) in [
            (0..0, 0),
            (0..100 * CHUNK, ALL),
            (start..start + GRANULE, 1),
            (start + 1..start + 2 * GRANULE, 2),
            (start..start + GRANULE - 1, 0),
            (start + 31 * GRANULE..start + CHUNK, 1 << 31),
            (start + CHUNK..start + 2 * CHUNK, 0),
            (0..start, 0),
        ] {
            assert_eq!(granules_within(5, &range), expected, "{range:?}");
        }
        assert_eq!(granules_within(u64::MAX, &(0..u64::MAX)), 0);
    }
}
