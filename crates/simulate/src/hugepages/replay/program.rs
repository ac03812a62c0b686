//! How a program used its memory, look by look.

use std::time::Duration;

use super::super::Cycles;
use super::super::Lookups;
use super::super::MOST_SWAPPED;
use super::super::Tlb;

/// Halvings of the interval in which the share of work is sought.
const HALVINGS: u32 = 100;
/// The share of work is sought up to so many times of what it was, and down to as small a part.
const WIDEST: f64 = 1e9;

/// What was seen of a region of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// First byte.
    pub address: u64,
    /// Base pages in memory, of 512.
    pub resident: u16,
    /// Of these, accessed.
    pub accessed: u16,
    /// Base pages in swap.
    pub swapped: u16,
    /// How often the processor needs a translation while these are base pages, in any unit that all regions of a look share.
    pub page_lookups: f64,
    /// The same if it is a huge page: less, where accesses to neighbours follow each other.
    pub region_lookups: f64,
    /// A manager leaves it alone: a file, a stack.
    pub left_alone: bool,
}

impl Use {
    /// A region of which only is known how many pages were accessed: each once, independently of the others.
    pub fn of_coverage(address: u64, resident: u16, accessed: u16, swapped: u16) -> Self {
        Self {
            address,
            resident,
            accessed,
            swapped,
            page_lookups: accessed.into(),
            region_lookups: accessed.into(),
            left_alone: false,
        }
    }

    /// Whether a manager that makes all huge pages it can would make it one.
    pub fn may_be_huge(&self) -> bool {
        !self.left_alone && self.resident > 0 && self.swapped <= MOST_SWAPPED
    }
}

/// One look at all regions of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// When, from the beginning of the replay.
    pub time: Duration,
    /// By address, each once.
    pub regions: Vec<Use>,
    /// Cycles of work beside these lookups.
    pub work: f64,
}

impl Look {
    /// A look that tells coverage only: so many cycles of work for each lookup of a base page.
    pub fn of_coverage(time: Duration, regions: Vec<Use>, work_of_lookup: f64) -> Self {
        let lookups: f64 = regions.iter().map(|region| region.page_lookups).sum();
        Self {
            time,
            regions,
            work: lookups * work_of_lookup,
        }
    }

    /// What it costs if these regions are huge pages.
    pub(crate) fn cost(&self, tlb: &Tlb, is_huge: impl Fn(&Use) -> bool) -> Cycles {
        let lookups = self.regions.iter().filter(|region| region.accessed > 0);
        let lookups = lookups.map(|region| match is_huge(region) {
            true => Lookups {
                pages: 1.0,
                lookups: region.region_lookups,
                huge: true,
            },
            false => Lookups {
                pages: region.accessed.into(),
                lookups: region.page_lookups,
                huge: false,
            },
        });
        tlb.cost(&lookups.collect::<Vec<_>>(), self.work)
    }
}

/// A program, from its first look on.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    looks: Vec<Look>,
    end: Option<Duration>,
}

impl Program {
    /// With looks in any order, which ended at that time; `None`: it ran on.
    pub fn new(mut looks: Vec<Look>, end: Option<Duration>) -> Self {
        looks.sort_by_key(|look| look.time);
        for look in &mut looks {
            look.regions.sort_by_key(|region| region.address);
        }
        Self { looks, end }
    }

    /// By time.
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// The index of the look that tells how it is at that time; `None`: it does not run.
    pub(crate) fn at(&self, time: Duration) -> Option<usize> {
        if self.end.is_some_and(|end| time >= end) {
            return None;
        }
        self.looks
            .partition_point(|look| look.time <= time)
            .checked_sub(1)
    }

    /// The looks with how long each counts, s, in a replay of that length.
    fn weighted(&self, duration: Duration) -> Vec<(&Look, f64)> {
        let end = self.end.unwrap_or(duration).min(duration);
        let next = self.looks[1.min(self.looks.len())..]
            .iter()
            .map(|look| look.time.min(end))
            .chain([end]);
        let looks = self.looks.iter().zip(next);
        looks
            .map(|(look, until)| (look, until.saturating_sub(look.time).as_secs_f64()))
            .collect()
    }

    /// Page-walk cycles over cycles without any huge page, over a replay of that length. `None`: it does not run in it.
    pub fn base_overhead(&self, tlb: &Tlb, duration: Duration) -> Option<f64> {
        overhead(&self.base_costs(tlb, duration), 1.0)
    }

    fn base_costs(&self, tlb: &Tlb, duration: Duration) -> Vec<(Cycles, f64)> {
        let weighted = self.weighted(duration).into_iter();
        weighted
            .map(|(look, seconds)| (look.cost(tlb, |_| false), seconds))
            .collect()
    }

    /// Changes how much work there is beside its lookups, so that the overhead without huge pages is what counters of the
    /// processor said, 0 to 1. False: no work makes it that, as the model finds no walks, or too few.
    #[must_use]
    pub fn calibrate(&mut self, tlb: &Tlb, duration: Duration, measured: f64) -> bool {
        let costs = self.base_costs(tlb, duration);
        let with = |factor: f64| overhead(&costs, factor).unwrap_or(0.0);
        let (mut least, mut most) = (1.0 / WIDEST, WIDEST);
        // More work is less overhead.
        if with(least) < measured {
            return false;
        }
        for _ in 0..HALVINGS {
            let middle = (least * most).sqrt();
            if with(middle) > measured {
                least = middle;
            } else {
                most = middle;
            }
        }
        for look in &mut self.looks {
            look.work *= most;
        }
        true
    }
}

/// The mean over time, with so many times the work.
fn overhead(costs: &[(Cycles, f64)], factor: f64) -> Option<f64> {
    let all: f64 = costs.iter().map(|(_, seconds)| seconds).sum();
    let of = |(cost, seconds): &(Cycles, f64)| {
        let cost = Cycles {
            work: cost.work * factor,
            ..*cost
        };
        cost.overhead() * seconds
    };
    (all > 0.0).then(|| costs.iter().map(of).sum::<f64>() / all)
}
