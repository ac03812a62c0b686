//! How fast a sweep gets on, whatever stops it now and then. Pure.
//!
//! Where nothing is dropped behind a sweep any more, reclaim finds only pages just used, and waits for a tenth of a second once before it
//! takes them (`mm/vmscan.c`, reclaim_throttle, 6.18); programs pause, and so do machines. A few such waits would decide what is to be told
//! from thousands of pages.

use super::sweep::Progress;

/// What is measured is looked at in so many parts,
const PARTS: usize = 8;
/// of which these are left out: the slowest.
const LEFT_OUT: usize = PARTS / 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    part_pages: u64,
    /// The last one may be larger: what comes at once is in one part.
    parts: [Progress; PARTS],
    /// That which is being filled.
    part: usize,
}

impl Pace {
    /// To be measured over so many pages.
    pub(super) const fn over(pages: u64) -> Self {
        let part_pages = pages.div_ceil(PARTS as u64);
        Self {
            part_pages: if part_pages > 0 { part_pages } else { 1 },
            parts: [Progress { pages: 0, ns: 0 }; PARTS],
            part: 0,
        }
    }

    pub(super) fn add(&mut self, progress: Progress) {
        let part = &mut self.parts[self.part];
        part.pages += progress.pages;
        part.ns += progress.ns;
        let is_full = part.pages >= self.part_pages;
        self.part = (self.part + usize::from(is_full)).min(PARTS - 1);
    }

    /// How many there were so far.
    pub(super) fn pages(&self) -> u64 {
        self.parts.iter().map(|part| part.pages).sum()
    }

    /// The pages and the time of all but the slowest quarter.
    pub(super) fn steady(&self) -> Progress {
        let mut parts = self.parts;
        let by_pace = |a: &Progress, b: &Progress| {
            let (a_by_b, b_by_a) = (a.ns.saturating_mul(b.pages), b.ns.saturating_mul(a.pages));
            a_by_b.cmp(&b_by_a)
        };
        let seen = parts.iter().filter(|part| part.pages > 0).count();
        parts[..seen].sort_unstable_by(by_pace);
        let left_out = if seen == PARTS { LEFT_OUT } else { 0 };
        let steady = parts[..seen - left_out].iter();
        steady.fold(Progress { pages: 0, ns: 0 }, |sum, part| Progress {
            pages: sum.pages + part.pages,
            ns: sum.ns + part.ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(pages: u64, ns_of: impl Fn(u64) -> u64) -> Progress {
        let mut pace = Pace::over(pages);
        for page in 0..pages {
            pace.add(Progress {
                pages: 1,
                ns: ns_of(page),
            });
        }
        assert_eq!(pace.pages(), pages);
        pace.steady()
    }

    #[test]
    fn waits_now_and_then_do_not_count() {
        let each = |page| {
            if page % 2000 == 1000 {
                100_000_000
            } else {
                5000
            }
        };
        let steady = paced(4096, each);
        assert_eq!(steady.ns / steady.pages, 5000);
    }

    #[test]
    fn what_is_slow_everywhere_is_slow() {
        let steady = paced(4096, |page| if page % 256 == 0 { 2_560_000 } else { 0 });
        assert_eq!(steady.ns / steady.pages, 10_000);
    }

    #[test]
    fn what_comes_at_once_counts_as_a_whole() {
        let mut pace = Pace::over(4096);
        pace.add(Progress {
            pages: 5000,
            ns: 50_000,
        });
        assert_eq!(pace.steady().pages, 5000);
        for _ in 0..100 {
            pace.add(Progress {
                pages: 5000,
                ns: 50_000,
            });
        }
        let steady = pace.steady();
        assert!(steady.pages >= 30_000 && steady.ns == 10 * steady.pages);
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        assert_eq!(Pace::over(0).steady(), Progress { pages: 0, ns: 0 });
    }
}
