//! A program in the middle of a replay.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::Cycles;
use super::super::REGION_PAGES;
use super::super::Seen;
use super::super::Tlb;
use super::Bounds;
use super::Look;
use super::PAGE_BYTES;
use super::Program;
use super::State;
use super::Use;

/// What has become of it so far.
pub(super) struct Running<'a> {
    program: &'a Program,
    bounds: &'a [Bounds],
    tlb: &'a Tlb,
    at: Option<usize>,
    next_look: Duration,
    huge: BTreeSet<u64>,
    /// Regions that were not there a look before.
    touched: Vec<u64>,
    /// `None`: something has changed since.
    cost: Option<Cycles>,
    pub(super) promotions: u64,
    pub(super) demotions: u64,
}

impl<'a> Running<'a> {
    pub(super) fn new(program: &'a Program, bounds: &'a [Bounds], tlb: &'a Tlb) -> Self {
        Self {
            program,
            bounds,
            tlb,
            at: None,
            next_look: Duration::ZERO,
            huge: BTreeSet::new(),
            touched: Vec::new(),
            cost: None,
            promotions: 0,
            demotions: 0,
        }
    }

    /// Goes on to this time. Huge pages whose region is no longer there are gone.
    pub(super) fn advance(&mut self, now: Duration) {
        let at = self.program.at(now);
        if at == self.at {
            return;
        }
        let last = self.look();
        self.at = at;
        self.cost = None;
        let before = std::mem::take(&mut self.huge);
        let look = self.look();
        let regions = look.map_or(&[][..], |look| &look.regions);
        let is_new = |region: &&Use| {
            region.may_be_huge() && last.and_then(|last| find(last, region.address)).is_none()
        };
        self.touched = regions
            .iter()
            .filter(is_new)
            .map(|region| region.address)
            .collect();
        self.huge = before
            .into_iter()
            .filter(|address| look.and_then(|look| find(look, *address)).is_some())
            .collect();
    }

    fn look(&self) -> Option<&'a Look> {
        self.program.looks().get(self.at?)
    }

    /// Whether the manager looks at it now.
    pub(super) fn is_looked_at(&mut self, now: Duration, interval: Duration) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + interval;
        }
        is_due
    }

    fn cost(&mut self) -> Option<Cycles> {
        let look = self.look()?;
        let huge = &self.huge;
        let cost = self
            .cost
            .get_or_insert_with(|| look.cost(self.tlb, |region| huge.contains(&region.address)));
        Some(*cost)
    }

    /// What counters of the processor would say.
    pub(super) fn overhead(&mut self) -> Option<f64> {
        self.cost().map(|cost| cost.overhead())
    }

    /// What a manager would see.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let regions = self.look().map_or(&[][..], |look| &look.regions);
        let seen = |region: &Use| match self.huge.contains(&region.address) {
            true => Seen {
                address: region.address,
                resident: REGION_PAGES,
                // It has one bit.
                accessed: if region.accessed > 0 { REGION_PAGES } else { 0 },
                swapped: 0,
                huge: true,
            },
            false => Seen {
                address: region.address,
                resident: region.resident,
                accessed: region.accessed,
                swapped: region.swapped,
                huge: false,
            },
        };
        let regions = regions.iter().filter(|region| !region.left_alone);
        regions.map(seen).collect()
    }

    /// Makes it a huge page; false: it is not there.
    pub(super) fn promote(&mut self, address: u64) -> bool {
        let is_there = self.look().and_then(|look| find(look, address)).is_some();
        if is_there && self.huge.insert(address) {
            self.cost = None;
            self.promotions += 1;
        }
        is_there
    }

    /// What was touched for the first time since the last step has come as huge pages.
    pub(super) fn promote_touched(&mut self) {
        for address in std::mem::take(&mut self.touched) {
            self.promote(address);
        }
    }

    /// Base pages that would not be in memory without the huge page: zeros for sure.
    pub(super) fn never_resident(&self, address: u64) -> u16 {
        let region = self.look().and_then(|look| find(look, address));
        region.map_or(0, |region| REGION_PAGES - region.resident)
    }

    /// Splits it; the base pages that were freed.
    pub(super) fn demote(&mut self, address: u64) -> u16 {
        let freed = self.never_resident(address);
        if self.huge.remove(&address) {
            self.cost = None;
            self.demotions += 1;
        }
        freed
    }

    fn bloat_pages(&self) -> u64 {
        let huge = self.huge.iter();
        huge.map(|address| u64::from(self.never_resident(*address)))
            .sum()
    }

    /// Memory it has now, bloat included.
    pub(super) fn bytes(&self) -> u64 {
        let regions = self.look().map_or(&[][..], |look| &look.regions);
        let resident: u64 = regions
            .iter()
            .map(|region| u64::from(region.resident))
            .sum();
        (resident + self.bloat_pages()) * PAGE_BYTES
    }

    /// For the course. `None`: it does not run.
    pub(super) fn state(&mut self) -> Option<State> {
        let bounds = self.bounds.get(self.at?)?;
        let cost = self.cost()?;
        Some(State {
            overhead: cost.overhead(),
            slow_down: cost.slow_down(),
            slow_down_of_base: bounds.base.slow_down(),
            slow_down_of_huge: bounds.huge.slow_down(),
            huge_pages: self.huge.len() as u64,
            bloat_bytes: self.bloat_pages() * PAGE_BYTES,
        })
    }
}

fn find(look: &Look, address: u64) -> Option<&Use> {
    let at = look
        .regions
        .binary_search_by_key(&address, |region| region.address)
        .ok()?;
    Some(&look.regions[at])
}
