//! What is known of a process's regions from one look to the next.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use super::AccessMap;
use super::MOST_SWAPPED;
use super::REGION_PAGES;
use super::Seen;
use super::back_off;

/// Weight of what was known before, against 0.4 of the new sample (HawkEye, section 3.3).
const OLD: f64 = 0.6;
/// A region that was demoted is left alone for so long, twice as long the next time.
const BACK_OFF: Duration = Duration::from_secs(120);
/// And that is known for so long after that time, where nothing of it is in memory.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// A region of 2 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Region {
    /// As it was last seen.
    pub seen: Seen,
    /// Moving average of the base pages accessed in a sample. `None`: not seen yet as base pages.
    pub coverage: Option<f64>,
    /// Base pages of zeros in this huge page, when they were last counted.
    pub zero: Option<u16>,
    /// The same by a look for people only, which no policy goes by.
    pub sampled_zero: Option<u16>,
    /// How often it was demoted.
    pub demotions: u32,
    /// Someone else (khugepaged) made it a huge page again after it was demoted, so many times.
    pub undone: u32,
    refusals: u32,
    left_alone_until: Duration,
    counted_at: Duration,
    demoted: bool,
}

/// A process that is managed.
#[derive(Clone, Debug)]
pub struct Process {
    id: u32,
    regions: BTreeMap<u64, Region>,
    /// Demoted ones of which nothing is in memory now, as all of their pages were zeros: they may come back.
    absent: BTreeMap<u64, Region>,
    candidates: BTreeSet<u64>,
    map: AccessMap,
    huge: usize,
    overhead: Option<f64>,
    group: Option<u32>,
    left_alone: bool,
    short: bool,
    /// Promotions of others since its last one, while it had candidates.
    pub(crate) passed_over: u32,
}

impl Process {
    pub(crate) fn new(id: u32) -> Self {
        Self {
            id,
            regions: BTreeMap::new(),
            absent: BTreeMap::new(),
            candidates: BTreeSet::new(),
            map: AccessMap::default(),
            huge: 0,
            overhead: None,
            group: None,
            left_alone: false,
            short: false,
            passed_over: 0,
        }
    }

    /// The number it was entered by.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// All its regions, by address.
    pub fn regions(&self) -> &BTreeMap<u64, Region> {
        &self.regions
    }

    /// The cgroup it belongs to, by any number that tells them apart. `None`: to none that is told.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// Sets its cgroup.
    pub fn set_group(&mut self, group: Option<u32>) {
        self.group = group;
    }

    /// Regions that may become huge pages now.
    pub fn candidates(&self) -> &BTreeSet<u64> {
        &self.candidates
    }

    /// The candidates with any access at all, by coverage.
    pub fn map(&self) -> &AccessMap {
        &self.map
    }

    /// Huge pages it has, those under way included.
    pub fn huge(&self) -> usize {
        self.huge
    }

    /// Page-walk cycles over cycles, as counters of the processor say it. `None`: not measured.
    pub fn overhead(&self) -> Option<f64> {
        self.overhead
    }

    /// Sets what the counters of the processor say.
    pub fn set_overhead(&mut self, overhead: Option<f64>) {
        self.overhead = overhead;
    }

    /// Nothing is done to it as a whole, or no longer so; what may be promoted is known again with the next look.
    pub fn leave_alone(&mut self, left_alone: bool) {
        self.left_alone = left_alone;
        if left_alone {
            self.candidates.clear();
            self.map = AccessMap::default();
        }
    }

    /// Whether nothing is done to it.
    pub fn is_left_alone(&self) -> bool {
        self.left_alone
    }

    /// Whether memory is short around this process alone, as by the limit of its cgroup: then nothing is promoted, and its bloat is
    /// recovered. What may be promoted afterwards is known with the next look.
    pub fn set_short(&mut self, short: bool) {
        if short && !self.short {
            self.candidates.clear();
            self.map = AccessMap::default();
            self.forget_zeros();
        }
        self.short = short;
    }

    /// Whether memory is short around it.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// Address translations that its base pages want: the sum of their coverage. What stands for the overhead of translation
    /// where that is not measured.
    pub fn translations(&self) -> f64 {
        let base = self.regions.values().filter(|region| !region.seen.huge);
        base.filter_map(|region| region.coverage).sum()
    }

    /// Takes in a look at all its regions. What is not in it is gone, but for how long what was demoted is left alone.
    pub fn observe(&mut self, seen: &[Seen], now: Duration) {
        let mut before = std::mem::take(&mut self.regions);
        before.append(&mut self.absent);
        self.candidates.clear();
        let mut gone = std::mem::take(&mut self.map);
        self.huge = 0;
        for seen in seen {
            let mut region = before.remove(&seen.address).unwrap_or_default();
            region.look(seen);
            self.huge += usize::from(seen.huge);
            if !self.short && region.is_candidate(now) {
                self.candidates.insert(seen.address);
                match region.coverage {
                    // Where nothing is accessed nothing is gained.
                    Some(coverage) if coverage >= 1.0 => gone.place(seen.address, coverage),
                    _ => gone.remove(seen.address),
                }
            } else {
                gone.remove(seen.address);
            }
            self.regions.insert(seen.address, region);
        }
        for address in before.keys() {
            gone.remove(*address);
        }
        before
            .retain(|_, region| region.demotions > 0 && now < region.left_alone_until + REMEMBERED);
        self.absent = before;
        self.map = gone;
    }

    /// It is going to be made a huge page: no candidate any more.
    pub(crate) fn take(&mut self, address: u64) {
        if self.candidates.remove(&address) {
            self.huge += 1;
        }
        self.map.remove(address);
    }

    /// It has become a huge page.
    pub fn promoted(&mut self, address: u64) {
        if let Some(region) = self.regions.get_mut(&address) {
            region.seen.huge = true;
            region.seen.resident = REGION_PAGES;
            region.seen.swapped = 0;
            region.refusals = 0;
            region.demoted = false;
            region.zero = None;
            region.sampled_zero = None;
        }
    }

    /// It has not, and is left alone for `first`, or longer if that happened before.
    pub fn refused(&mut self, address: u64, now: Duration, first: Duration) {
        self.huge = self.huge.saturating_sub(1);
        self.leave_region_alone(address, now, first);
    }

    /// It has not, for a reason that is not its own, as that no huge page is free: it is left alone for so long.
    pub fn put_off(&mut self, address: u64, now: Duration, pause: Duration) {
        self.huge = self.huge.saturating_sub(1);
        if let Some(region) = self.regions.get_mut(&address) {
            region.left_alone_until = now + pause;
        }
    }

    /// Splitting it did nothing: it is left alone.
    pub fn not_demoted(&mut self, address: u64, now: Duration, first: Duration) {
        self.leave_region_alone(address, now, first);
    }

    fn leave_region_alone(&mut self, address: u64, now: Duration, first: Duration) {
        if let Some(region) = self.regions.get_mut(&address) {
            region.left_alone_until = now + back_off(first, region.refusals);
            region.refusals += 1;
        }
    }

    /// So many base pages of the huge page are zero at this time.
    pub fn counted(&mut self, address: u64, zero: u16, now: Duration) {
        if let Some(region) = self.regions.get_mut(&address) {
            region.zero = Some(zero);
            region.counted_at = now;
        }
    }

    /// So many base pages of the huge page are zero, as somebody wanted to know.
    pub fn sampled(&mut self, address: u64, zero: u16) {
        if let Some(region) = self.regions.get_mut(&address) {
            region.sampled_zero = Some(zero);
        }
    }

    /// It is no huge page any more; so many of its pages were freed.
    pub fn demoted(&mut self, address: u64, freed: u16, now: Duration) {
        if let Some(region) = self.regions.get_mut(&address) {
            region.seen.huge = false;
            region.seen.resident = region.seen.resident.saturating_sub(freed);
            region.zero = None;
            region.sampled_zero = None;
            region.coverage = None;
            region.demoted = true;
            region.left_alone_until = now + back_off(BACK_OFF, region.demotions);
            region.demotions += 1;
            self.huge = self.huge.saturating_sub(1);
        }
    }

    /// Forgets how many zeros the huge pages have: they are to be counted anew.
    pub(crate) fn forget_zeros(&mut self) {
        for region in self.regions.values_mut() {
            region.zero = None;
        }
    }
}

impl Region {
    /// Whether it may be demoted: a huge page that is not left alone.
    pub(crate) fn may_be_demoted(&self, now: Duration) -> bool {
        self.seen.huge && now >= self.left_alone_until
    }

    /// When its zeros were counted last; it says nothing unless `zero` is there.
    pub(crate) fn counted_at(&self) -> Duration {
        self.counted_at
    }

    fn look(&mut self, seen: &Seen) {
        if seen.huge {
            if self.demoted {
                self.undone += 1;
                self.demoted = false;
            }
            // One bit says nothing of its base pages: what was known of them is kept.
        } else {
            let accessed = f64::from(seen.accessed);
            self.coverage = Some(
                self.coverage
                    .map_or(accessed, |old| OLD * old + (1.0 - OLD) * accessed),
            );
            self.zero = None;
            self.sampled_zero = None;
        }
        self.seen = *seen;
    }

    fn is_candidate(&self, now: Duration) -> bool {
        let Seen {
            huge,
            resident,
            swapped,
            ..
        } = self.seen;
        !huge && resident > 0 && swapped <= MOST_SWAPPED && now >= self.left_alone_until
    }
}
