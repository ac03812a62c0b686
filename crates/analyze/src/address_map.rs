//! Which object lies where, in one address space, now.

use std::collections::BTreeMap;

/// An object's range and what it was when it began: pages are counted from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Index of the object.
    pub(crate) object: usize,
    /// Which allocation of the object.
    pub(crate) allocation: u64,
    /// The call path that made the allocation, if it is one and the path was taken.
    pub(crate) stack: Option<u32>,
    /// Where the allocation began, before parts were unmapped or it was moved.
    pub(crate) origin: u64,
    /// Bytes allocated that it stands for; its own if it is no sample.
    pub(crate) stands_for: u64,
    /// Bytes that the whole allocation had.
    pub(crate) whole_bytes: u64,
}

impl Range {
    /// What begins and ends with its object, and was not allocated.
    pub(crate) fn whole(start: u64, end: u64, object: usize) -> Self {
        Self {
            start,
            end,
            object,
            allocation: 0,
            stack: None,
            origin: start,
            stands_for: end.saturating_sub(start),
            whole_bytes: end.saturating_sub(start),
        }
    }

    /// How many allocations it stands for: of a piece, the part of one that it is.
    pub(crate) fn allocations(&self) -> f64 {
        self.stands_for as f64 / self.whole_bytes.max(1) as f64
    }

    /// The part of it between two addresses within it.
    fn part(&self, start: u64, end: u64) -> Self {
        let whole = u128::from((self.end - self.start).max(1));
        let stands_for = u128::from(self.stands_for) * u128::from(end - start) / whole;
        Self {
            start,
            end,
            stands_for: stands_for as u64,
            ..*self
        }
    }

    /// Whether it stands for more than itself.
    pub(crate) fn is_sample(&self) -> bool {
        self.stands_for > self.end.saturating_sub(self.start)
    }

    /// How many pages it lies on.
    pub(crate) fn pages(&self, page_bytes: u64) -> u64 {
        self.end
            .max(self.start.saturating_add(1))
            .div_ceil(page_bytes)
            - self.start / page_bytes
    }

    /// Whether the other begins where this one ends, with no whole page between them, and is of the same object.
    pub(crate) fn is_right_below(&self, upper: &Range, page_bytes: u64) -> bool {
        let last = self.end.saturating_sub(1);
        self.object == upper.object
            && last < upper.start
            && upper.start / page_bytes - last / page_bytes <= 1
    }

    /// Bytes of it that lie between two addresses.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> u64 {
        self.end.min(end).saturating_sub(self.start.max(start))
    }
}

/// Ranges that do not overlap, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressMap {
    ranges: BTreeMap<u64, Range>,
}

impl AddressMap {
    /// Adds a range; what it overlaps must have been released without our being told.
    pub(crate) fn insert(&mut self, range: Range) -> Vec<Range> {
        let gone = self.remove(range.start, range.end);
        self.ranges.insert(range.start, range);
        gone
    }

    /// How many ranges of its object are right beside a range: 0 to 2.
    pub(crate) fn beside(&self, range: &Range, page_bytes: u64) -> usize {
        let below = self.ranges.range(..range.start).next_back();
        let above = self.ranges.range(range.end..).next();
        let is_below = below.is_some_and(|(_, below)| below.is_right_below(range, page_bytes));
        let is_above = above.is_some_and(|(_, above)| range.is_right_below(above, page_bytes));
        usize::from(is_below) + usize::from(is_above)
    }

    /// All ranges, by address.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &Range> {
        self.ranges.values()
    }

    /// The parts of all ranges between `start` and `end`.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> impl Iterator<Item = Range> + '_ {
        self.overlapping(start, end).map(move |range| Range {
            start: range.start.max(start),
            end: range.end.min(end),
            ..*range
        })
    }

    /// Takes out the range that begins exactly there.
    pub(crate) fn take(&mut self, start: u64) -> Option<Range> {
        self.ranges.remove(&start)
    }

    /// Takes out all between `start` and `end`, cutting ranges that reach beyond. Returns the pieces taken out.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<Range> {
        // Mostly there is nothing: the last range that begins before the end would have to reach in.
        let last = self.ranges.range(..end).next_back();
        if last.is_none_or(|(_, range)| range.start < start && range.end <= start) {
            return Vec::new();
        }
        let touched: Vec<u64> = self
            .overlapping(start, end)
            .map(|range| range.start)
            .collect();
        let mut taken = Vec::new();
        for at in touched {
            let Some(range) = self.ranges.remove(&at) else {
                continue;
            };
            if range.start < start {
                self.ranges
                    .insert(range.start, range.part(range.start, start));
            }
            if range.end > end {
                self.ranges.insert(end, range.part(end, range.end));
            }
            taken.push(range.part(range.start.max(start), range.end.min(end)));
        }
        taken
    }

    /// Where the first range after the address begins, or the one around it ends, whichever comes first.
    pub(crate) fn next_boundary(&self, address: u64) -> Option<u64> {
        let below = self.ranges.range(..=address).next_back();
        let end = below
            .map(|(_, range)| range.end)
            .filter(|&end| end > address);
        let after = address.checked_add(1);
        let start = after.and_then(|after| self.ranges.range(after..).next());
        let start = start.map(|(&start, _)| start);
        end.into_iter().chain(start).min()
    }

    /// The range that holds all between two addresses.
    pub(crate) fn holding(&self, start: u64, end: u64) -> Option<&Range> {
        let (_, below) = self.ranges.range(..=start).next_back()?;
        (below.end >= end).then_some(below)
    }

    /// The ranges that reach between two addresses, by address.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Range> {
        let below = self.ranges.range(..start).next_back();
        below
            .filter(|(_, range)| range.end > start)
            .into_iter()
            .chain(self.ranges.range(start..end.max(start)))
            .map(|(_, range)| range)
    }

    /// The range that holds the address; else one that shares its page: page events know only the page.
    pub(crate) fn find(&self, address: u64, page_bytes: u64) -> Option<&Range> {
        let page = address & !(page_bytes - 1);
        let below = self
            .ranges
            .range(..=address)
            .next_back()
            .map(|(_, range)| range);
        let exact = below.filter(|range| range.end > address);
        let after = || {
            self.ranges
                .range(address..page.saturating_add(page_bytes))
                .next()
                .map(|(_, range)| range)
        };
        exact
            .or_else(after)
            .or_else(|| below.filter(|range| range.end > page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, object: usize) -> Range {
        Range::whole(start, end, object)
    }

    fn found(map: &AddressMap, address: u64) -> Option<usize> {
        map.find(address, 4096).map(|range| range.object)
    }

    #[test]
    fn a_page_belongs_to_the_object_on_it() {
        let mut map = AddressMap::default();
        map.insert(range(0x1_0010, 0x3_0010, 1));
        assert_eq!(found(&map, 0x1_0000), Some(1), "the page its header is on");
        assert_eq!(found(&map, 0x2_0000), Some(1));
        assert_eq!(found(&map, 0x3_0800), Some(1), "the page its tail is on");
        assert_eq!(found(&map, 0x3_1000), None);
        assert_eq!(found(&map, 0xf000), None);
        assert_eq!(found(&map, u64::MAX), None, "the last page of all");
    }

    #[test]
    fn what_reaches_into_a_page_is_found() {
        let mut map = AddressMap::default();
        for (start, end) in [(0x0f00, 0x1010), (0x1100, 0x1200), (0x1ff0, 0x3000)] {
            map.insert(range(start, end, start as usize));
        }
        let objects = |start, end| -> Vec<usize> {
            let found = map.overlapping(start, end);
            found.map(|range| range.object).collect()
        };
        assert_eq!(objects(0x1000, 0x2000), [0x0f00, 0x1100, 0x1ff0]);
        assert_eq!(objects(0x2000, 0x3000), [0x1ff0]);
        assert_eq!(objects(0x3000, 0x4000), [0usize; 0]);
        let last = *map.overlapping(0x2000, 0x3000).next().expect("one");
        assert_eq!(last.overlap(0x1000, 0x2000), 0x10);
        assert_eq!(last.overlap(0x4000, 0x5000), 0);
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut map = AddressMap::default();
        map.insert(range(0x1_0000, 0x5_0000, 7));
        let taken = map.remove(0x2_0000, 0x3_0000);
        assert_eq!(taken.len(), 1);
        assert_eq!(
            (
                found(&map, 0x1_f000),
                found(&map, 0x2_8000),
                found(&map, 0x4_0000)
            ),
            (Some(7), None, Some(7))
        );
        assert_eq!(
            map.find(0x4_0000, 4096).map(|range| range.origin),
            Some(0x1_0000)
        );
    }

    #[test]
    fn neighbours_of_an_object_are_less_than_a_page_apart() {
        let mut map = AddressMap::default();
        for (start, end, object) in [
            (0x1_0010, 0x2_0010, 1),
            (0x2_0020, 0x3_0000, 1),
            (0x3_0ff0, 0x4_0000, 1),
            (0x4_0000, 0x5_0000, 2),
            (0x5_2000, 0x6_0000, 2),
        ] {
            map.insert(range(start, end, object));
        }
        let beside: Vec<usize> = map.ranges().map(|range| map.beside(range, 4096)).collect();
        assert_eq!(beside, [1, 2, 1, 0, 0]);
    }

    #[test]
    fn boundaries_are_begins_and_ends() {
        let mut map = AddressMap::default();
        map.insert(range(0x1000, 0x2000, 1));
        map.insert(range(0x3000, 0x4000, 2));
        let next = |address| map.next_boundary(address);
        assert_eq!(
            (next(0), next(0x1000), next(0x1fff)),
            (Some(0x1000), Some(0x2000), Some(0x2000))
        );
        assert_eq!((next(0x2000), next(0x3abc)), (Some(0x3000), Some(0x4000)));
        assert_eq!((next(0x4000), next(u64::MAX)), (None, None));
    }

    #[test]
    fn a_new_range_replaces_what_it_covers() {
        let mut map = AddressMap::default();
        map.insert(range(0x1_0000, 0x2_0000, 1));
        assert_eq!(map.insert(range(0x1_8000, 0x3_0000, 2)).len(), 1);
        assert_eq!(
            (found(&map, 0x1_0000), found(&map, 0x1_8000)),
            (Some(1), Some(2))
        );
        assert_eq!(map.take(0x1_8000).map(|range| range.object), Some(2));
        assert_eq!(map.take(0x1_8000), None);
    }
}
