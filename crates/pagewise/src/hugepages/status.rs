//! What the manager says of itself and its processes: schema `pagewise.hugepages/1`.

use std::collections::BTreeMap;

use pagewise_host::huge_pages;
use pagewise_simulate::hugepages::AccessMap;
use pagewise_simulate::hugepages::BUCKETS;
use pagewise_simulate::hugepages::Controller;
use pagewise_simulate::hugepages::Lookups;
use pagewise_simulate::hugepages::MemoryState;
use pagewise_simulate::hugepages::Process;
use pagewise_simulate::hugepages::REGION_PAGES;
use pagewise_simulate::hugepages::Region;
use pagewise_simulate::hugepages::Tlb;
use serde::Deserialize;
use serde::Serialize;

use super::arguments::ManageArguments;
use super::manager::Manager;
use super::target::Done;
use super::target::Target;
use crate::failure::Failure;

const SCHEMA: &str = "pagewise.hugepages/1";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    schema: String,
    /// The manager.
    pub(super) pid: u32,
    pub(super) policy: String,
    pub(super) dry_run: bool,
    pub(super) running_s: f64,
    pub(super) interval_s: f64,
    pub(super) cpu_percent: f64,
    pub(super) cpu_percent_limit: f64,
    pub(super) memory_used_percent: f64,
    pub(super) high_percent: f64,
    pub(super) low_percent: f64,
    /// Memory is short: bloat is taken back, nothing is promoted.
    pub(super) recovering: bool,
    /// Share of free memory in pieces smaller than a huge page; `null`: unknown.
    pub(super) fragmentation: Option<f64>,
    pub(super) promoted: u64,
    pub(super) demoted: u64,
    pub(super) freed_bytes: u64,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) processes: Vec<ProcessStatus>,
    /// Of too many processes, those with little memory.
    pub(super) processes_left_out: usize,
    /// Processes that may not be managed, with the reason.
    pub(super) not_managed: BTreeMap<u32, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProcessStatus {
    pub(super) pid: u32,
    pub(super) comm: String,
    pub(super) looks: u32,
    pub(super) left_alone: Option<String>,
    /// Its folder; `null`: not known.
    pub(super) cgroup: Option<String>,
    /// Memory is short by the limit of its cgroup: bloat is taken back, nothing is promoted.
    pub(super) short: bool,
    pub(super) promoted: u64,
    pub(super) demoted: u64,
    pub(super) freed_bytes: u64,
    /// Huge pages that someone else made again after they had been split.
    pub(super) undone: u64,
    pub(super) refused: BTreeMap<String, u64>,
    /// Page-walk cycles over cycles; `null`: not measured.
    pub(super) overhead: Option<f64>,
    /// The same as a model of the TLB has it, from coverage; `null`: it was not looked at yet, or accessed bits are not cleared.
    #[serde(default)]
    pub(super) overhead_estimate: Option<f64>,
    /// Address translations that its base pages want: the sum of their coverage; `null`: it was not looked at yet, or accessed bits are
    /// not cleared for this policy.
    pub(super) translations: Option<f64>,
    /// Not there until it was looked at.
    #[serde(flatten)]
    pub(super) sizes: Option<Sizes>,
    /// The same, of its heap, its anonymous mappings, and those that have a name.
    pub(super) classes: BTreeMap<String, Sizes>,
}

/// Of regions of 2 MiB that can be huge pages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sizes {
    pub(super) resident_bytes: u64,
    pub(super) huge_bytes: u64,
    /// Huge pages in which pages of zeros were counted.
    #[serde(default)]
    pub(super) zeros_counted_in_bytes: u64,
    /// Pages of zeros in these; `null`: none was counted.
    pub(super) zero_bytes_in_huge: Option<u64>,
    /// Regions of base pages by coverage: 0-49, 50-99, ... base pages; `null`: accessed bits are not cleared for this policy.
    pub(super) coverage_buckets: Option<[u64; BUCKETS]>,
}

impl Sizes {
    pub(super) fn new(tells_coverage: bool) -> Self {
        Self {
            coverage_buckets: tells_coverage.then_some([0; BUCKETS]),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, region: &Region) {
        let page = pagewise_host::page_bytes();
        let resident = u64::from(region.seen.resident) * page;
        self.resident_bytes += resident;
        if region.seen.huge {
            self.huge_bytes += resident;
            if let Some(zero) = region.zero.or(region.sampled_zero) {
                self.zeros_counted_in_bytes += resident;
                *self.zero_bytes_in_huge.get_or_insert_default() += u64::from(zero) * page;
            }
        } else if let (Some(coverage), Some(buckets)) =
            (region.coverage, &mut self.coverage_buckets)
        {
            buckets[AccessMap::bucket_of(coverage)] += 1;
        }
    }
}

impl Status {
    pub(super) fn of(
        manager: &Manager<'_>,
        arguments: &ManageArguments,
        controller: &Controller,
        memory: &MemoryState,
    ) -> Self {
        let mut done = manager.ended.clone();
        manager
            .targets
            .values()
            .for_each(|target| done.add(&target.done));
        let (high, low) = controller.watermarks();
        let processes = manager.targets.values().filter_map(|target| {
            let known = manager.processes.get(target.pid())?;
            let cgroup = known.group().and_then(|group| manager.groups.path(group));
            let cgroup = cgroup.map(|path| path.display().to_string());
            let tells_coverage = manager.goes_by_accesses();
            Some(ProcessStatus::of(target, known, cgroup, tells_coverage))
        });
        Self {
            schema: SCHEMA.to_owned(),
            pid: std::process::id(),
            policy: arguments.policy.to_string(),
            dry_run: arguments.dry_run,
            running_s: manager.budget.elapsed().as_secs_f64(),
            interval_s: manager.interval().as_secs_f64(),
            cpu_percent: manager.budget.used() * 100.0,
            cpu_percent_limit: arguments.cpu.0,
            memory_used_percent: memory.used() * 100.0,
            high_percent: high * 100.0,
            low_percent: low * 100.0,
            recovering: controller.is_recovering(),
            fragmentation: memory.fragmentation,
            promoted: done.promoted,
            demoted: done.demoted,
            freed_bytes: done.freed * pagewise_host::page_bytes(),
            refused: done.refused,
            processes: processes.collect(),
            processes_left_out: manager.left_out,
            not_managed: manager.refused.clone(),
        }
    }

    pub(super) fn render(&self) -> Result<String, Failure> {
        let text =
            serde_json::to_string_pretty(self).map_err(|error| Failure::new(error.to_string()))?;
        Ok(text + "\n")
    }

    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let status: Self = serde_json::from_str(text).map_err(|error| {
            Failure::new(format!("the manager's status is of another version of pagewise: {error}; look with: pagewise hugepages status --json"))
        })?;
        Ok(status)
    }
}

impl ProcessStatus {
    fn of(target: &Target, known: &Process, cgroup: Option<String>, tells_coverage: bool) -> Self {
        let mut sizes = Sizes::new(tells_coverage);
        let mut classes: BTreeMap<String, Sizes> = BTreeMap::new();
        let mut undone = 0;
        let is_known = target.looks > 0;
        for (address, region) in known.regions() {
            sizes.add(region);
            undone += u64::from(region.undone);
            if let Some(area) = target.area_of(*address) {
                match classes.get_mut(&area.name) {
                    Some(class) => class.add(region),
                    None => {
                        let class = classes.entry(area.name.clone());
                        class
                            .or_insert_with(|| Sizes::new(tells_coverage))
                            .add(region);
                    }
                }
            }
        }
        let translations = (is_known && tells_coverage).then(|| known.translations());
        Self {
            pid: target.pid(),
            comm: target.comm.clone(),
            looks: target.looks,
            left_alone: target.left_alone.map(str::to_owned),
            cgroup,
            short: known.is_short(),
            promoted: target.done.promoted,
            demoted: target.done.demoted,
            freed_bytes: target.done.freed * pagewise_host::page_bytes(),
            undone,
            refused: target.done.refused.clone(),
            overhead: known.overhead(),
            overhead_estimate: translations.map(|pages| estimate(pages, sizes.huge_bytes)),
            translations,
            sizes: is_known.then_some(sizes),
            classes,
        }
    }
}

/// The share of cycles in page walks by the TLB's model, with accesses at random: to each base page that was accessed in a second, and as often
/// to all of each huge page, of which it is not known what was accessed.
fn estimate(translations: f64, huge_bytes: u64) -> f64 {
    let tlb = Tlb::default();
    let regions = huge_bytes as f64 / huge_pages::BYTES as f64;
    let of_huge = regions * f64::from(REGION_PAGES);
    let lookups = [
        Lookups {
            pages: translations,
            lookups: translations,
            huge: false,
        },
        Lookups {
            pages: regions,
            lookups: of_huge,
            huge: true,
        },
    ];
    tlb.cost(&lookups, tlb.work * (translations + of_huge))
        .overhead()
}

impl Done {
    /// Both together.
    pub(super) fn add(&mut self, other: &Done) {
        self.promoted += other.promoted;
        self.demoted += other.demoted;
        self.freed += other.freed;
        for (why, count) in &other.refused {
            *self.refused.entry(why.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_falls_as_base_pages_become_huge_ones() {
        // All of the TLB's misses are walks of 36 cycles beside 200: 15 %.
        let base = estimate(1e6, 0);
        assert!((0.14..0.16).contains(&base), "{base}");
        let half = estimate(5e5, (5e5 * 4096.0) as u64);
        let none = estimate(0.0, 1 << 30);
        assert!(none < 0.01 && none < half && half < base, "{none} {half}");
        assert_eq!(estimate(0.0, 0), 0.0);
    }
}
