//! Spots: some pages of memory, spread evenly, that stand for all of it.

/// Neighbouring pages that are chosen together: to choose them one by one would take as many more interruptions of the program.
pub const SPOT_PAGES: u64 = 16;
/// Pages of a region of 2 MiB.
const REGION_PAGES: u64 = 512;

/// One in so many spots: of each run of that many, aligned to as many, exactly one, at a place that its address decides at random. So objects have their
/// share to within a spot, whatever their layout, and no stride of a program goes past all spots. Those of a smaller share are among those of a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spots {
    one_in: u64,
    is_beside: bool,
}

impl Spots {
    /// `one_in`: a power of two; of another number the next smaller one.
    pub fn one_in(one_in: u64) -> Self {
        let one_in = 1 << one_in.max(1).ilog2();
        Self {
            one_in,
            is_beside: false,
        }
    }

    /// The spots beside those of so large a share, of two at least: of each pair the other one. No page lies in both, whatever the shares.
    pub fn beside_one_in(one_in: u64) -> Self {
        Self {
            is_beside: true,
            ..Self::one_in(one_in.max(2))
        }
    }

    /// Whether a page, by its address in pages, lies in a spot beside those that are taken, whatever their share, but for that of all.
    pub fn is_beside(page: u64) -> bool {
        Self::beside_one_in(2).takes(page)
    }

    /// For how many pages each stands.
    pub fn pages_each(self) -> u64 {
        self.one_in
    }

    /// Whether a page, by its address in pages, lies in one of them.
    pub fn takes(self, page: u64) -> bool {
        let spot = page / SPOT_PAGES;
        // Of the two halves of each run, the one that chance prefers.
        (1..=self.one_in.ilog2())
            .all(|level| spot >> (level - 1) & 1 == self.chosen_half(spot >> level, level))
    }

    /// Of the spot that stands for a page, the one in its place: itself, if it lies in one.
    pub fn nearest(self, page: u64) -> u64 {
        let levels = self.one_in.ilog2();
        let run = (page / SPOT_PAGES) >> levels;
        let spot = (1..=levels)
            .rev()
            .fold(run, |run, level| run << 1 | self.chosen_half(run, level));
        spot * SPOT_PAGES + page % SPOT_PAGES
    }

    /// In which half of a run of spots the one lies that is taken, 0 or 1.
    fn chosen_half(self, run: u64, level: u32) -> u64 {
        half(run, level) ^ u64::from(self.is_beside && level == 1)
    }

    /// The pages of the region of 2 MiB at an address that lie in one of them: the lowest bit of the first word is the first page.
    pub fn in_region(self, address: u64) -> [u64; REGION_PAGES as usize / 64] {
        let first = address / (REGION_PAGES * 4096) * REGION_PAGES;
        let mut pages = [0; REGION_PAGES as usize / 64];
        for at in (0..REGION_PAGES).step_by(SPOT_PAGES as usize) {
            if self.takes(first + at) {
                let spot = (1 << SPOT_PAGES) - 1;
                pages[at as usize / 64] |= spot << (at % 64);
            }
        }
        pages
    }
}

/// 0 or 1, by the number of a run of spots and its length (S. Vigna's finish of splitmix64).
fn half(run: u64, level: u32) -> u64 {
    let mut mixed = (run << 6 | u64::from(level)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_run_there_is_one_spot() {
        for one_in in [1, 2, 16, 1024] {
            let spots = Spots::one_in(one_in);
            for run in 0..50 {
                let first = run * one_in * SPOT_PAGES;
                let taken: Vec<u64> = (first..first + one_in * SPOT_PAGES)
                    .filter(|&page| spots.takes(page))
                    .collect();
                assert_eq!(taken.len() as u64, SPOT_PAGES, "{one_in} {run}");
                assert_eq!(taken[0] % SPOT_PAGES, 0);
                assert_eq!(taken[3] - taken[0], 3);
            }
        }
    }

    #[test]
    fn fewer_are_some_of_more_and_no_stride_goes_past_all() {
        let (more, fewer) = (Spots::one_in(8), Spots::one_in(64));
        assert!((0..1 << 16).all(|page| !fewer.takes(page) || more.takes(page)));
        for stride in [8 * SPOT_PAGES, 512, 4096] {
            let taken = (0..4000).filter(|at| more.takes(at * stride)).count();
            assert!((350..650).contains(&taken), "{stride}: {taken}");
        }
        assert_eq!(Spots::one_in(100), fewer);
        assert_eq!(Spots::one_in(0).pages_each(), 1);
    }

    #[test]
    fn beside_each_spot_there_is_one_that_is_no_spot_of_any_share() {
        for one_in in [2, 32, 1024] {
            let beside = Spots::beside_one_in(one_in);
            let spots = Spots::one_in(one_in);
            assert_eq!(beside.pages_each(), one_in);
            for page in 0..1 << 16 {
                assert_eq!(beside.takes(page), spots.takes(page ^ SPOT_PAGES), "{page}");
                assert!(!beside.takes(page) || Spots::is_beside(page));
            }
        }
        assert!((0..1 << 16).all(|page| Spots::is_beside(page) != Spots::one_in(2).takes(page)));
    }

    #[test]
    fn the_spot_that_stands_for_a_page_is_in_its_run() {
        for spots in [1, 2, 8, 64].map(Spots::one_in) {
            let run = spots.pages_each() * SPOT_PAGES;
            for page in 0..1 << 12 {
                let nearest = spots.nearest(page);
                assert!(spots.takes(nearest), "{spots:?} {page}");
                assert_eq!(nearest / run, page / run);
                assert_eq!(nearest % SPOT_PAGES, page % SPOT_PAGES);
                assert!(!spots.takes(page) || nearest == page);
            }
        }
        let beside = Spots::beside_one_in(8);
        assert!((0..1 << 12).all(|page| beside.takes(beside.nearest(page))));
    }

    #[test]
    fn a_region_is_told_page_by_page() {
        let spots = Spots::one_in(4);
        let region = 7 * (2 << 20);
        let pages = spots.in_region(region + 5);
        for at in 0..REGION_PAGES {
            let is_set = pages[at as usize / 64] >> (at % 64) & 1 == 1;
            assert_eq!(is_set, spots.takes(region / 4096 + at), "{at}");
        }
        assert_eq!(pages.iter().map(|word| word.count_ones()).sum::<u32>(), 128);
    }
}
