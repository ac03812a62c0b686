//! Who shares a page of a heap: what is known of it, and an estimate for the rest.
//!
//! A page holds many small objects, of which few were sampled. In this order:
//!
//! 1. Every recorded object on the page has the bytes it covers.
//! 2. The rest of the page goes to the sites of samples on the same page, by what those samples stand for.
//! 3. Without any, it goes to the sites of the nearest samples: of the smallest surroundings (one page to each side, two,
//!    four, ...) that hold one. Allocators keep together what was allocated together or has the same size.
//!
//! A sample stands for bytes that nobody saw. Those on its own pages are counted there already (1, 2), so that only the
//! others count in 3: else objects of many pages would be counted twice. And one of so many pages that it stands for
//! hardly more than itself says little about the rest of its first and last page: the surroundings grow until they
//! stand for enough.

use crate::address_map::AddressMap;
use crate::address_map::Range;
use crate::apportion::Shares;
use crate::apportion::add_share;
use crate::heat::Heat;
use crate::heat::Rates;

/// Where neighbours are looked for: not outside of the mapping, and not for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Most bytes to each side.
    pub(crate) reach: u64,
    /// Mean distance of samples, in bytes.
    pub(crate) mean_bytes: f64,
}

/// Beside an object recorded for itself, the rest of a page is another's only if samples lie this near, in pages.
const NEAR_PAGES: u64 = 16;

/// Who shares a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) shares: Shares,
    /// Not all of it is known.
    pub(crate) estimated: bool,
    /// Some of it was recorded for itself.
    pub(crate) has_exact: bool,
    /// From where to where was looked: while nothing begins or ends there, it is the same.
    pub(crate) looked_at: (u64, u64),
}

/// Samples on a page are enough to tell of its rest if they stand for so many mean distances beside their own pages:
/// one small object is.
const ON_PAGE: f64 = 0.5;
/// Those around must stand for more, as a few of them need not be like the page between. More would mix what lies apart.
const AROUND: f64 = 2.0;

/// The recorded objects of an allocator's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    /// Recorded for themselves.
    pub(crate) exact: AddressMap,
    /// Recorded by chance.
    pub(crate) samples: AddressMap,
}

impl Blocks {
    /// Who shares the page at `start`; nobody: there is no object on it or near it.
    pub(crate) fn page(
        &self,
        start: u64,
        page_bytes: u64,
        around: Surroundings,
        rates: &Rates,
    ) -> Page {
        let (mut shares, covered) = self.on_page(start, page_bytes);
        let rest = page_bytes as f64 - covered;
        let only_exact =
            !shares.is_empty() && !self.has_samples(start, start.saturating_add(page_bytes));
        let most = if only_exact {
            NEAR_PAGES * page_bytes
        } else {
            u64::MAX
        };
        let reach = around.reach.min(most);
        let around = Surroundings { reach, ..around };
        let (others, looked_at) = self.unseen(start, page_bytes, around, rates);
        let sum: f64 = others.iter().map(|(_, share)| share).sum();
        let estimated = rest >= 1.0 && sum > 0.0;
        for (object, share) in others.into_iter().filter(|_| estimated) {
            add_share(&mut shares, object, rest * share / sum);
        }
        let has_exact = self
            .exact
            .overlapping(start, start.saturating_add(page_bytes))
            .next();
        Page {
            shares,
            estimated,
            has_exact: has_exact.is_some(),
            looked_at,
        }
    }

    /// Tells of an event on this page those whose samples are on it.
    pub(crate) fn learn(&self, start: u64, page_bytes: u64, heat: &mut Heat) {
        for sample in self
            .samples
            .overlapping(start, start.saturating_add(page_bytes))
        {
            heat.see(sample.object);
        }
    }

    /// Whether a sample lies there.
    pub(crate) fn has_samples(&self, start: u64, end: u64) -> bool {
        self.samples.overlapping(start, end).next().is_some()
    }

    /// Bytes that objects cover, each and together.
    fn on_page(&self, start: u64, page_bytes: u64) -> (Shares, f64) {
        let end = start.saturating_add(page_bytes);
        let (mut shares, mut covered) = (Shares::new(), 0.0);
        let exact = self.exact.overlapping(start, end);
        for range in exact.chain(self.samples.overlapping(start, end)) {
            let bytes = range.overlap(start, end) as f64 * room_of_a_byte(range);
            covered += bytes;
            add_share(&mut shares, range.object, bytes);
        }
        (shares, covered)
    }

    /// What the nearest samples stand for on pages other than their own, and where they were looked for.
    fn unseen(
        &self,
        start: u64,
        page_bytes: u64,
        around: Surroundings,
        rates: &Rates,
    ) -> (Shares, (u64, u64)) {
        let end = start.saturating_add(page_bytes);
        let mut distance = 0;
        loop {
            let low = start.saturating_sub(distance).max(around.start);
            let high = end.saturating_add(distance).min(around.end);
            let (mut shares, mut sum) = (Shares::new(), 0.0);
            for sample in self.samples.overlapping(low, high) {
                // As far away as its middle: else those of many pages would be near to everyone.
                let middle = sample.start + (sample.end - sample.start) / 2;
                if distance > 0 && !(low..high).contains(&middle) {
                    continue;
                }
                let unseen = unseen_by(sample, page_bytes, around.mean_bytes);
                sum += unseen;
                // What is on one page sees the same events.
                let rate = if distance == 0 {
                    1.0
                } else {
                    rates.of(sample.object)
                };
                add_share(&mut shares, sample.object, unseen * rate);
            }
            let wanted = if distance == 0 { ON_PAGE } else { AROUND };
            distance = (2 * distance).max(page_bytes);
            if sum >= wanted * around.mean_bytes || distance > around.reach {
                return (shares, (low.min(start), high.max(end)));
            }
        }
    }
}

/// Bytes that a sample stands for on pages where there is no sign of them.
fn unseen_by(sample: &Range, page_bytes: u64, mean_bytes: f64) -> f64 {
    const LEAST: f64 = 1e-3;
    let stands_for = sample.stands_for as f64 * room_of_a_byte(sample);
    let beside_pages = stands_for - (sample.pages(page_bytes) * page_bytes) as f64;
    if beside_pages >= ON_PAGE * mean_bytes {
        return beside_pages; // all of its pages are given to it
    }
    let beside_itself = stands_for - (sample.end - sample.start) as f64;
    beside_itself.max(stands_for * LEAST)
}

/// Bytes of the heap that an allocator uses for each that was asked for: pages are full of room, not of what was asked for.
fn room_of_a_byte(range: &Range) -> f64 {
    let bytes = (range.end - range.start).max(1);
    heap_bytes_of_block(bytes) as f64 / bytes as f64
}

/// Bytes of the heap that a block of so many bytes takes, as glibc has it (malloc/malloc.c, 2.36): a header of 8 bytes, steps of 16, at least
/// 32; others are near that.
pub fn heap_bytes_of_block(bytes: u64) -> u64 {
    let used = bytes.saturating_add(8).checked_next_multiple_of(16);
    used.unwrap_or(u64::MAX).max(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const ANYWHERE: Surroundings = Surroundings {
        start: 0,
        end: u64::MAX,
        reach: 1 << 20,
        mean_bytes: 32_768.0,
    };

    fn range(start: u64, bytes: u64, object: usize, stands_for: u64) -> Range {
        Range {
            stack: None,
            start,
            end: start + bytes,
            object,
            allocation: 0,
            origin: start,
            stands_for,
            whole_bytes: bytes,
        }
    }

    fn share_of(shares: &Shares, object: usize) -> f64 {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        let found = shares.iter().find(|(other, _)| *other == object);
        found.map_or(0.0, |(_, share)| share / sum)
    }

    fn shares(blocks: &Blocks, page: u64) -> Shares {
        blocks
            .page(page * PAGE, PAGE, ANYWHERE, &Rates::default())
            .shares
    }

    #[test]
    fn what_is_known_of_a_page_comes_first() {
        let mut blocks = Blocks::default();
        blocks.exact.insert(range(10 * PAGE, 2048, 1, 2048));
        blocks.exact.insert(range(10 * PAGE + 2048, 2048, 2, 2048));
        blocks.samples.insert(range(11 * PAGE, 64, 3, 65_600));
        let found = shares(&blocks, 10);
        assert_eq!((share_of(&found, 1), share_of(&found, 2)), (0.5, 0.5));
        assert_eq!(share_of(&shares(&blocks, 11), 3), 1.0);
    }

    #[test]
    fn the_rest_of_a_page_is_its_samples_or_the_nearest() {
        let mut blocks = Blocks::default();
        blocks.exact.insert(range(10 * PAGE, 1024, 1, 1024));
        blocks.samples.insert(range(12 * PAGE, 64, 2, 100_000));
        blocks.samples.insert(range(100 * PAGE, 64, 3, 100_000));
        let found = shares(&blocks, 10);
        assert!((share_of(&found, 1) - 0.25).abs() < 0.01, "{found:?}");
        assert!((share_of(&found, 2) - 0.75).abs() < 0.01, "{found:?}");
        assert_eq!(share_of(&shares(&blocks, 40), 2), 1.0);
        assert_eq!(share_of(&shares(&blocks, 90), 3), 1.0);
    }

    #[test]
    fn a_large_block_alone_in_the_world_has_its_pages_to_itself() {
        let mut blocks = Blocks::default();
        blocks
            .exact
            .insert(range(10 * PAGE + 16, 100_000, 1, 100_000));
        assert_eq!(share_of(&shares(&blocks, 10), 1), 1.0);
        assert!(shares(&blocks, 9).is_empty());
    }

    #[test]
    fn neighbours_are_not_sought_across_the_end_of_a_mapping_or_far_away() {
        let mut blocks = Blocks::default();
        blocks.samples.insert(range(10 * PAGE, 64, 1, 65_600));
        let within = |start, end, reach| {
            let around = Surroundings {
                start,
                end,
                reach,
                ..ANYWHERE
            };
            !blocks
                .page(12 * PAGE, PAGE, around, &Rates::default())
                .shares
                .is_empty()
        };
        assert!(within(0, u64::MAX, 1 << 20));
        assert!(!within(11 * PAGE, u64::MAX, 1 << 20));
        assert!(!within(0, u64::MAX, PAGE));
    }

    #[test]
    fn a_sample_of_many_pages_counts_less_for_its_neighbours() {
        let pages = |sample: &Range| unseen_by(sample, PAGE, 32_768.0) / PAGE as f64;
        let large = pages(&range(8 * PAGE, 8 * PAGE, 1, 20 * PAGE));
        assert!((large - 12.0).abs() < 0.1, "{large}");
        let small = pages(&range(17 * PAGE, 64, 2, 16 * PAGE));
        assert!((small - (16.0 * 80.0 / 64.0 - 1.0)).abs() < 0.1, "{small}");
        let whole = pages(&range(8 * PAGE, 16 * PAGE, 1, 16 * PAGE));
        assert!((0.0..0.1).contains(&whole), "{whole}");
    }

    #[test]
    fn one_that_stands_for_itself_leaves_the_rest_of_its_pages_to_others() {
        let mut blocks = Blocks::default();
        let bytes = 10 * PAGE + PAGE / 2;
        blocks.samples.insert(range(8 * PAGE, bytes, 1, bytes + 64));
        blocks.samples.insert(range(40 * PAGE, 64, 2, 16 * PAGE));
        assert_eq!(share_of(&shares(&blocks, 17), 1), 1.0);
        let boundary = shares(&blocks, 18);
        assert!((share_of(&boundary, 1) - 0.5).abs() < 0.01, "{boundary:?}");
        assert!((share_of(&boundary, 2) - 0.5).abs() < 0.01, "{boundary:?}");
    }
}
