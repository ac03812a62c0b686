//! How long a page stays in memory that is not accessed any more: counted in pages that came in meanwhile, as that is what
//! drives pages out. It changes with how much of memory the program keeps in use.
//!
//! A page passes through two lists before it leaves, each about half of its memory: one that came back through the active
//! and then the inactive one, a new one twice through the inactive one. Its accessed bit is looked at when it leaves a
//! list, and cleared (mm/vmscan.c `shrink_active_list`, `shrink_folio_list`).

use crate::history::History;
use crate::history::What;

/// Evictions that are looked at together.
const BATCH: usize = 1024;
/// Points of the run at which ages are kept.
const GRID: u64 = 4096;

/// The age at eviction of pages that were not accessed.
pub(crate) struct Ages {
    /// When each page came in, in own time.
    arrivals: Vec<u64>,
    /// Ends of batches in own time, and the age in arrivals.
    batches: Vec<(u64, usize)>,
    begin: u64,
    step: u64,
    /// The longest that a page can have stayed from there on, ns.
    longest: Vec<u64>,
}

impl Ages {
    /// Of the evicted pages, `share` in a hundred are taken to have left as early as pages can: of those for which `is_undisturbed`. Pages whose bits
    /// were cleared leave earlier.
    pub(crate) fn new(
        history: &History,
        share: usize,
        is_undisturbed: impl Fn(u64) -> bool,
    ) -> Ages {
        let mut came = vec![None; history.keys.len()];
        let (mut arrivals, mut batches) = (Vec::new(), Vec::new());
        let mut batch = Vec::with_capacity(BATCH);
        for moment in &history.moments {
            let came = &mut came[moment.page as usize];
            match moment.what {
                What::Faulted | What::Touched => {
                    *came = Some(arrivals.len());
                    arrivals.push(moment.at);
                }
                What::Gone => *came = None,
                What::Evicted => {
                    let came = came.take();
                    let counts =
                        came.filter(|_| is_undisturbed(history.keys[moment.page as usize]));
                    batch.extend(
                        counts.map(|came| history.stayed(moment.page, arrivals.len() - came)),
                    );
                }
            }
            if batch.len() == BATCH {
                batch.sort_unstable();
                batches.push((moment.at, batch[BATCH * share / 100]));
                batch.clear();
            }
        }
        let begin = history.moments.first().map_or(0, |moment| moment.at);
        let step = (history.end - begin) / GRID + 1;
        let mut ages = Ages {
            arrivals,
            batches,
            begin,
            step,
            longest: Vec::new(),
        };
        let points = (0..=GRID).map(|point| begin + point * step);
        ages.longest = points
            .map(|at| ages.reaches(at).saturating_sub(at))
            .collect();
        ages
    }

    fn age(&self, at: u64) -> Option<usize> {
        let after = self.batches.partition_point(|&(end, _)| end < at);
        let batch = self.batches.get(after).or(self.batches.last());
        batch.map(|&(_, age)| age)
    }

    /// Until when a page stays that is accessed at `at` and not any more.
    fn reaches(&self, at: u64) -> u64 {
        let Some(age) = self.age(at) else {
            return u64::MAX;
        };
        let arrived = self.arrivals.partition_point(|&other| other < at);
        self.arrivals
            .get(arrived + age)
            .copied()
            .unwrap_or(u64::MAX)
    }

    /// The last two passes through lists of a page that left at `left`.
    pub(crate) fn last_passes(&self, left: u64) -> Option<Passes> {
        let age = self.age(left)?;
        let to = self.arrivals.partition_point(|&other| other < left);
        let before = |arrivals: usize| match to.checked_sub(arrivals) {
            Some(arrived) => self.arrivals.get(arrived).map_or(left, |&at| at.min(left)),
            None => 0,
        };
        let first = before(age);
        Some(Passes {
            first,
            last: before(age / 2),
            // Reclaim is no exact queue: a quarter more may be chance.
            slack: first - before(age + age / 4),
        })
    }

    /// How long at most a page stayed without access from `at` on, ns.
    pub(crate) fn longest(&self, at: u64) -> u64 {
        let point = at.saturating_sub(self.begin) / self.step;
        self.longest[(point as usize).min(self.longest.len() - 1)]
    }
}

/// The last two passes of a page through lists before it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    /// When the first of them began, and the last; in own time.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// By how much the first may have begun earlier.
    pub(crate) slack: u64,
}
