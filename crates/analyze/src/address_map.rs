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
    /// Where the allocation began, before parts were unmapped or it was moved.
    pub(crate) origin: u64,
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

    /// Takes out the range that begins exactly there.
    pub(crate) fn take(&mut self, start: u64) -> Option<Range> {
        self.ranges.remove(&start)
    }

    /// Takes out all between `start` and `end`, cutting ranges that reach beyond. Returns the pieces taken out.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<Range> {
        let first = self
            .ranges
            .range(..start)
            .next_back()
            .filter(|(_, range)| range.end > start);
        let from = first.map_or(start, |(&at, _)| at);
        let touched: Vec<u64> = self.ranges.range(from..end).map(|(&at, _)| at).collect();
        let mut taken = Vec::new();
        for at in touched {
            let Some(range) = self.ranges.remove(&at) else {
                continue;
            };
            if range.start < start {
                self.ranges.insert(
                    range.start,
                    Range {
                        end: start,
                        ..range
                    },
                );
            }
            if range.end > end {
                self.ranges.insert(
                    end,
                    Range {
                        start: end,
                        ..range
                    },
                );
            }
            taken.push(Range {
                start: range.start.max(start),
                end: range.end.min(end),
                ..range
            });
        }
        taken
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
                .range(address..page + page_bytes)
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
        Range {
            start,
            end,
            object,
            allocation: 0,
            origin: start,
        }
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
