//! The access map of HawkEye (ASPLOS 2019): a process's regions in ten buckets by access coverage.

use std::collections::BTreeMap;

/// Buckets of 50 base pages each: 0-49, 50-99, ..., the last one 450-512.
pub const BUCKETS: usize = 10;
const WIDTH: f64 = 50.0;

/// Regions by coverage. One that moves up enters its bucket at the head, one that moves down at the tail: so, from head to
/// tail, what became hot lately comes first.
#[derive(Clone, Debug, Default)]
pub struct AccessMap {
    /// Address by rank, lowest rank first.
    buckets: [BTreeMap<i64, u64>; BUCKETS],
    places: BTreeMap<u64, (usize, i64)>,
}

impl AccessMap {
    /// The bucket of a coverage of so many base pages.
    pub fn bucket_of(coverage: f64) -> usize {
        ((coverage / WIDTH) as usize).min(BUCKETS - 1)
    }

    /// The region has this coverage now.
    pub fn place(&mut self, address: u64, coverage: f64) {
        let bucket = Self::bucket_of(coverage);
        let before = self.places.get(&address).map(|place| place.0);
        if before == Some(bucket) {
            return;
        }
        self.remove(address);
        let order = &self.buckets[bucket];
        // What was not there before comes from below.
        let rank = if before.is_none_or(|before| before < bucket) {
            order.first_key_value().map_or(0, |(rank, _)| rank - 1)
        } else {
            order.last_key_value().map_or(0, |(rank, _)| rank + 1)
        };
        self.buckets[bucket].insert(rank, address);
        self.places.insert(address, (bucket, rank));
    }

    /// The region is a candidate no more.
    pub fn remove(&mut self, address: u64) {
        if let Some((bucket, rank)) = self.places.remove(&address) {
            self.buckets[bucket].remove(&rank);
        }
    }

    /// The highest bucket that is not empty.
    pub fn highest(&self) -> Option<usize> {
        self.buckets.iter().rposition(|bucket| !bucket.is_empty())
    }

    /// Its first region.
    pub fn first(&self) -> Option<u64> {
        self.iter_bucket(self.highest()?).next()
    }

    /// Regions of a bucket, from head to tail.
    pub fn iter_bucket(&self, bucket: usize) -> impl Iterator<Item = u64> {
        self.buckets[bucket].values().copied()
    }

    /// Regions in each bucket.
    pub fn counts(&self) -> [usize; BUCKETS] {
        std::array::from_fn(|bucket| self.buckets[bucket].len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(map: &AccessMap, bucket: usize) -> Vec<u64> {
        map.iter_bucket(bucket).collect()
    }

    #[test]
    fn buckets_are_of_fifty_pages_and_the_last_takes_the_rest() {
        for (coverage, bucket) in [
            (0.0, 0),
            (49.9, 0),
            (50.0, 1),
            (449.0, 8),
            (450.0, 9),
            (512.0, 9),
        ] {
            assert_eq!(AccessMap::bucket_of(coverage), bucket, "{coverage}");
        }
    }

    #[test]
    fn up_enters_at_the_head_down_at_the_tail_and_staying_keeps_the_place() {
        let mut map = AccessMap::default();
        for (address, coverage) in [(1, 120.0), (2, 130.0), (3, 40.0), (4, 300.0)] {
            map.place(address, coverage);
        }
        assert_eq!(bucket(&map, 2), [2, 1], "each came from below");
        map.place(3, 110.0);
        map.place(4, 140.0);
        assert_eq!(bucket(&map, 2), [3, 2, 1, 4]);
        map.place(2, 101.0);
        assert_eq!(bucket(&map, 2), [3, 2, 1, 4]);
        assert_eq!((map.highest(), map.first()), (Some(2), Some(3)));
        map.remove(3);
        map.remove(99);
        assert_eq!(map.counts(), [0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    }
}
