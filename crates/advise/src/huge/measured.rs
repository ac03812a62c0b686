//! What huge pages promise where it was measured what they cost and save: how long a run takes with them, first touches included.
//!
//! With `T` how long the run took, `A` the part of it in which the objects are accessed, `s` how many times as fast that is, and `R`
//! regions that are touched first at `h` in huge pages and `b` in base pages, it takes `T - A (1 - 1/s) + R (h - b)`.

use pagewise_plan::Prediction;
use pagewise_trace::HugePageCosts;

use super::choose::Candidate;
use super::choose::LEAST_WORK;
use super::choose::PerLookup;

const REGION_BYTES: f64 = (2 << 20) as f64;
/// Walks were measured by reads that wait for each other. Of others a processor walks for several at once, and works meanwhile: for the least that is
/// promised so much of a walk counts.
const LEAST_OF_WALK: f64 = 0.5;
/// However fast first touches may be: a run takes some of its time.
const LEAST_TIME: f64 = 0.05;

/// What is known beside coverage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) costs: HugePageCosts,
    /// How long the run took.
    pub(super) wall_ns: f64,
    /// Cycles from one lookup of a page to the next, of all threads that run; `None`: how often pages are accessed is not known.
    pub(super) cycles_of_lookup: Option<f64>,
    /// Pages may be accessed more often than that.
    pub(super) may_be_faster: bool,
    /// The share of cycles in page walks, as counted by the processor.
    pub(super) walk_share: Option<f64>,
}

impl Measured {
    /// What huge pages for these objects promise.
    pub(super) fn predict(&self, huge: &[Candidate], lookup: &PerLookup) -> Prediction {
        let HugePageCosts {
            touch_base_ns: base,
            touch_base_p90_ns: base_p90,
            touch_huge_ns: large,
            touch_huge_p90_ns: large_p90,
            ..
        } = self.costs;
        let likely = self.speedup(huge, self.saved(lookup, 1.0), large - base);
        let low = self.speedup(huge, self.saved(lookup, LEAST_OF_WALK), large_p90 - base);
        let most = match self.may_be_faster {
            true => (lookup.before - lookup.after) / (lookup.before + LEAST_WORK),
            false => self.saved(lookup, 1.0),
        };
        let high = self.speedup(huge, most, large - base_p90);
        Prediction {
            speedup: likely,
            low: low.min(likely),
            high: high.max(likely),
        }
    }

    /// Cycles of other work for each lookup; `None`: how often pages are accessed is not known.
    pub(super) fn work(&self, lookup: &PerLookup) -> Option<f64> {
        let cycles = self.cycles_of_lookup?;
        Some((cycles - lookup.before).max(LEAST_WORK))
    }

    /// What first touches cost more, and when that has paid, for people; empty: they cost no more.
    pub(super) fn words(&self, huge: &[Candidate], lookup: &PerLookup) -> String {
        let touched = regions(huge);
        let more = touched * (self.costs.touch_huge_ns - self.costs.touch_base_ns);
        if more <= 0.0 {
            return String::new();
        }
        let saved = self.saved(lookup, 1.0);
        let pays = match saved > 0.0 {
            true => format!("pays after {:.1} s of such accesses", more / saved / 1e9),
            false => "never pays".to_owned(),
        };
        format!(
            "; first touches of {touched:.0} huge pages take {:.2} s more than of as much in base pages, as measured where it was recorded, which {pays}",
            more / 1e9
        )
    }

    /// The share of the time with accesses that huge pages save, if so much of each page walk is waited for.
    fn saved(&self, lookup: &PerLookup, of_walk: f64) -> f64 {
        let cycles = self.cycles_of_lookup.unwrap_or(lookup.before + lookup.work);
        // What the processor itself counted is what was waited for.
        let of_walk = match self.walk_share {
            Some(share) if lookup.walks > 0.0 => (share * cycles / lookup.walks).min(1.0),
            _ => of_walk,
        };
        let before = lookup.before * of_walk;
        (before - lookup.after * of_walk).max(0.0) / cycles.max(before + LEAST_WORK)
    }

    /// With this share saved, and each first touch of 2 MiB longer by so many ns.
    fn speedup(&self, huge: &[Candidate], saved: f64, longer_ns: f64) -> f64 {
        let touched = regions(huge);
        let accessed_time = huge.iter().map(|one| one.accessed_time).fold(0.0, f64::max);
        let touching = touched * self.costs.touch_base_ns;
        let accessed_ns = (self.wall_ns - touching).max(0.0) * accessed_time;
        let with = self.wall_ns - accessed_ns * saved + touched * longer_ns;
        self.wall_ns / with.max(self.wall_ns * LEAST_TIME)
    }
}

/// Regions of 2 MiB that are touched for the first time.
fn regions(huge: &[Candidate]) -> f64 {
    let of = |one: &Candidate| {
        let resident = one.block_bytes as f64 * one.most_resident_share.unwrap_or(1.0);
        one.allocations * resident / REGION_BYTES
    };
    huge.iter().map(of).sum()
}
