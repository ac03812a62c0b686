//! Pages that stand for all, where accesses of all would be too many to make up: a share of them, chosen by their addresses, in memory
//! of the same share (C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad: Efficient MRC Construction with SHARDS, FAST 2015).

use pagewise_trace::Spots;

use crate::history::parts;

/// At least so many pages stand for all,
const LEAST_PAGES: usize = 4096;
/// each for at most so many.
const MOST: u64 = 16;

/// One page in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    one_in: u64,
    /// Of those that were looked at: [`Spots`].
    in_spots: bool,
}

impl Sampling {
    /// Every page.
    #[cfg(test)]
    pub(crate) const ALL: Self = Self {
        one_in: 1,
        in_spots: false,
    };

    /// As many of so many pages as are few enough, and no fewer than [`LEAST_PAGES`]; where only `spots` were looked at, some of these.
    pub(crate) fn first(
        pages: usize,
        spots: Option<Spots>,
        are_few_enough: impl Fn(u64) -> bool,
    ) -> Self {
        let mut one_in = spots.map_or(1, Spots::pages_each);
        let most = one_in.max(MOST);
        while one_in < most
            && pages / (2 * one_in as usize) >= LEAST_PAGES
            && !are_few_enough(one_in)
        {
            one_in *= 2;
        }
        Self {
            one_in,
            in_spots: spots.is_some(),
        }
    }

    /// For how many pages each stands.
    pub(crate) fn one_in(self) -> u64 {
        self.one_in
    }

    /// Whether the page of this key is one of them.
    pub(crate) fn takes(self, key: u64) -> bool {
        if self.in_spots {
            return Spots::one_in(self.one_in).takes(parts(key).1);
        }
        // Neighbours get numbers far apart (Knuth's multiplicative hashing).
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32).is_multiple_of(self.one_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_pages_stands_for_all_where_accesses_are_many() {
        let one_in = |accesses: f64, pages| {
            let are_few_enough = |one_in| accesses / one_in as f64 <= 1e6;
            Sampling::first(pages, None, are_few_enough).one_in()
        };
        assert_eq!(one_in(1e6, 1 << 20), 1);
        assert_eq!(one_in(1.1e6, 1 << 20), 2);
        assert_eq!(one_in(8e6, 1 << 20), 8);
        assert_eq!(one_in(1e12, 1 << 20), 16);
        // Of few pages none can be spared.
        assert_eq!(one_in(1e12, 10_000), 2);
        assert_eq!(one_in(1e12, 8000), 1);
        let looked = |one_in, accesses: f64| {
            let are_few_enough = |one_in| accesses / one_in as f64 <= 1e6;
            Sampling::first(1 << 20, Some(Spots::one_in(one_in)), are_few_enough)
        };
        assert_eq!(looked(4, 1.0).one_in(), 4);
        assert_eq!(looked(4, 1e12).one_in(), 16);
        assert_eq!(looked(64, 1e12).one_in(), 64);
        let spots = Spots::one_in(16);
        assert!((0..4096).all(|page| looked(4, 1e12).takes(page) == spots.takes(page)));
    }

    #[test]
    fn pages_that_stand_for_others_are_spread_evenly() {
        let sampling = Sampling {
            one_in: 8,
            in_spots: false,
        };
        for stride in [1, 2, 8, 512, 4096] {
            let taken = (0..8000).filter(|page| sampling.takes(page * stride));
            let count = taken.count();
            assert!((800..1200).contains(&count), "{stride}: {count}");
        }
        assert!((0..1000).all(|page| Sampling::ALL.takes(page)));
    }
}
