//! Totals and objects of a trace.

use std::collections::HashMap;
use std::sync::Arc;

use pagewise_trace::Meta;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::access::Accesses;
use crate::access::WorkingSet;
use crate::counts::Counts;
use crate::coverage::Coverage;
use crate::fault_paths::FaultPath;
use crate::frame_paths::FramePaths;
use crate::histogram::Histogram;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::length::observed_ns;
use crate::memory_need::MemoryNeed;
use crate::object::Object;
use crate::observed::Observed;
use crate::pattern;
use crate::residency;
use crate::spaces::Extent;
use crate::spaces::SmallBlocks;
use crate::spaces::Spaces;
use crate::swap_in_sample::SwapInSample;
use crate::tallies::Tallies;
use crate::tallies::Tally;
use crate::waits::Waits;
use crate::write_looks;

/// All that the report says.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The recording's own facts.
    pub meta: Meta,
    /// Sums over all objects.
    pub totals: Counts,
    /// How much shorter the run could have been without its swap-ins, at most, ns: what threads waited at the same time counts once, and
    /// not as often as there were threads.
    pub waited_ns: u64,
    /// Of the swap-ins, those given to an object by what was sampled on their page or near it.
    pub estimated_swap_ins: u64,
    /// Of the swap-ins, those in memory of no recorded object: of the heap or unknown.
    pub unattributed_swap_ins: u64,
    /// Pages that were seen to leave memory without being written; `None` if that was not observed.
    pub dropped_without_write: Option<u64>,
    /// Pages of shared memory that were seen to leave memory, perhaps to swap; `None` if that was not observed.
    pub shared_pages_gone: Option<u64>,
    /// Objects with at least one event or allocation, most stall first.
    pub objects: Vec<Object>,
    /// Swap-in latencies, ns.
    pub latency: Histogram,
    /// Where in the code the faults were, most stall first; empty if call paths were not recorded.
    pub fault_paths: Vec<FaultPath>,
    /// Which of these each call path of the trace is, by its number there.
    pub fault_path_of_stack: HashMap<u32, usize>,
    /// Latencies of writes to a slow swap device, ns, by page.
    pub write_latency: Histogram,
    /// Waiting outside swap-in faults, and what the kernel says.
    pub waits: Waits,
    /// Accessed memory over time; empty if not recorded.
    pub working_set: Vec<WorkingSet>,
    /// Huge pages and accesses by 2 MiB of each process; empty if not recorded.
    pub coverage: Vec<Coverage>,
    /// Events that were counted by region, since the recording had reached its size: they are in all counts and stall
    /// times, but not in latencies, patterns and distinct pages.
    pub counted_events: u64,
    /// How much memory would have avoided the swap-ins.
    pub memory_need: MemoryNeed,
    /// Swap-ins to draw a picture of.
    pub sample: SwapInSample,
}

impl Findings {
    /// The size of a page in bytes.
    pub fn page_bytes(&self) -> u64 {
        let stated = self.meta.host.page_bytes;
        stated
            .filter(|bytes| bytes.is_power_of_two())
            .unwrap_or(4096)
    }

    /// Whether pages of zeros could be told from written ones.
    pub fn zeros_observed(&self) -> bool {
        Observed::of(&self.meta).zeros
    }

    /// The share of the pages of what was so counted that the program writes while they are in memory, 0 to 1 ([`Counts::write_share`]);
    /// `None`: too few were seen, or nobody looked.
    pub fn write_share(&self, counts: &Counts) -> Option<f64> {
        let share = counts.write_share(self.swap_is_memory());
        share.filter(|_| self.faults_observed())
    }

    /// Whether swap is memory: reading a page back is then work, not waiting.
    pub fn swap_is_memory(&self) -> bool {
        self.meta.swap.is_memory()
    }

    /// Whether anyone looked for faults and evictions: if not, there is no telling that there were none.
    pub fn faults_observed(&self) -> bool {
        Observed::of(&self.meta).faults
    }

    /// Whether swap-ins were seen at least in part: major faults in user mode, without their latency.
    pub fn swap_ins_observed(&self) -> bool {
        Observed::of(&self.meta).swap_ins
    }

    /// Whether anyone looked which pages are in memory.
    pub fn residency_observed(&self) -> bool {
        let state = self.meta.sensors.get("residency");
        state.is_some_and(|state| state == "on")
    }
}

/// Goes through a trace once; twice, if it has samples.
///
/// # Errors
/// If a table cannot be read.
pub fn analyze(trace: &Trace) -> Result<Findings, TraceError> {
    analyze_with(trace, SmallBlocks::BySite)
}

/// The same, with small blocks of the heap as is said.
///
/// # Errors
/// If a table cannot be read.
pub fn analyze_with(trace: &Trace, small_blocks: SmallBlocks) -> Result<Findings, TraceError> {
    let mut spaces = Spaces::read_and_learn(trace, small_blocks)?;
    let page_bytes = spaces.page_bytes;
    let mut tallies = Tallies::read(trace, &mut spaces)?;
    let extents = spaces.take_extents();
    let writes_observed = Observed::of(trace.meta()).faults;
    let mut page_states = residency::measure(trace, &mut spaces, writes_observed)?;
    page_states.in_memory.resize(extents.len(), None);
    let accesses = Accesses::read(trace, &mut spaces)?;
    write_looks::count(trace, &mut spaces, &mut tallies)?;
    let order = by_stall(&tallies, &extents);
    let site = |&number: &usize| {
        let stack = spaces.catalogue.stack(number)?;
        Some(spaces.paths.whole(stack))
    };
    let sites: Vec<Option<u32>> = order.iter().map(site).collect();
    let types = order
        .iter()
        .map(|&number| spaces.catalogue.type_name(number));
    let types: Vec<Option<Arc<str>>> = types.collect();
    let mut identities = spaces.into_identities();
    let frames = read_frames(trace, &sites, &tallies)?;
    let sums = std::mem::take(&mut tallies.paths);
    let (fault_paths, path_of_stack) = sums.paths(&frames);
    let worst_paths = sums.worst(&path_of_stack, extents.len());
    drop(sums);
    let readahead = readahead_pages(trace.meta());
    let known = sites.iter().zip(types);
    let objects = order.iter().zip(known).map(|(&number, (site, type_name))| {
        // Taken out, so that nothing of a million objects is there twice.
        let tally = std::mem::take(&mut tallies.objects[number]);
        let nameless = Identity::plain(ObjectKind::Unknown);
        let identity = std::mem::replace(&mut identities[number], nameless);
        let site = site.map_or(&[][..], |stack| frames.numbers(stack));
        Object {
            type_name,
            accessed_share: accesses.share(number),
            resident_share: page_states.in_memory[number].map(|share| share.mean),
            most_resident_share: page_states.in_memory[number].map(|share| share.most),
            extra_bytes: tally.need.extra_bytes(page_bytes),
            worst_path: worst_paths[number],
            site: frames.frames(site),
            ..object(identity, &extents[number], &tally, readahead)
        }
    });
    let objects: Vec<Object> = objects.collect();
    let mut meta = trace.meta().clone();
    if meta.end_monotonic_ns.is_none() {
        meta.wall_ns = observed_ns(trace)?;
    }
    let totals: Counts = objects.iter().map(|object| &object.counts).sum();
    Ok(Findings {
        waited_ns: tallies.waiting.waited_ns(totals.stall_ns),
        totals,
        dropped_without_write: page_states.dropped_without_write,
        shared_pages_gone: page_states.shared_pages_gone,
        estimated_swap_ins: tallies.estimated_swap_ins,
        unattributed_swap_ins: objects.iter().map(Object::unattributed_swap_ins).sum(),
        objects,
        latency: tallies.latency,
        fault_paths,
        fault_path_of_stack: path_of_stack
            .into_iter()
            .filter_map(|(stack, path)| Some((stack?, path)))
            .collect(),
        write_latency: tallies.write_latency,
        waits: Waits::read(trace)?,
        working_set: accesses.working_set,
        coverage: accesses.coverage,
        counted_events: tallies.counted_events,
        memory_need: tallies.need.need(page_bytes, meta.limit.bytes),
        sample: tallies.sampler.finish(&places(&order, extents.len())),
        meta,
    })
}

/// The numbers of the objects that something happened to, most stall first.
fn by_stall(tallies: &Tallies, extents: &[Extent]) -> Vec<usize> {
    let counts = |number: usize| &tallies.objects[number].counts;
    let something = |&number: &usize| {
        let (counts, extent) = (counts(number), &extents[number]);
        counts.swap_ins + counts.evictions + extent.rounded_allocations() > 0
    };
    let mut order: Vec<usize> = (0..extents.len()).filter(something).collect();
    order.sort_by_key(|&number| {
        let counts = counts(number);
        std::cmp::Reverse((counts.stall_ns, counts.swap_ins, counts.evictions))
    });
    order
}

/// Of each object's number, its place in the order.
fn places(order: &[usize], objects: usize) -> Vec<usize> {
    let mut places = vec![0; objects];
    for (place, &number) in order.iter().enumerate() {
        places[number] = place;
    }
    places
}

/// The call paths that made objects, and those of faults.
fn read_frames(
    trace: &Trace,
    sites: &[Option<u32>],
    tallies: &Tallies,
) -> Result<FramePaths, TraceError> {
    let made = sites.iter().flatten().copied();
    FramePaths::read(trace, &made.chain(tallies.paths.stacks()).collect())
}

/// Swap on zram is read page by page; elsewhere the kernel reads clusters (vm.page-cluster is 3 by default).
fn readahead_pages(meta: &Meta) -> u64 {
    if meta.swap.is_memory() { 1 } else { 8 }
}

fn object(identity: Identity, extent: &Extent, tally: &Tally, readahead: u64) -> Object {
    let phases = tally.watch.phases(readahead, &tally.counts);
    let pattern_facts = pattern::leading(&phases).and_then(|phase| phase.facts);
    Object {
        type_name: None,
        bytes: (extent.peak_bytes > 0).then_some(extent.peak_bytes),
        mean_bytes: extent.mean_bytes(),
        allocations: extent.rounded_allocations(),
        most_alive: extent.most_alive(),
        stretches: extent.stretches(),
        sampled: extent.sampled,
        counts: tally.counts,
        distinct_pages: tally.watch.distinct_pages(),
        accessed_share: None,
        resident_share: None,
        most_resident_share: None,
        pattern: pattern_facts.map(|facts| facts.pattern),
        pattern_facts: pattern_facts.map(Box::new),
        phases,
        extra_bytes: None,
        worst_path: None,
        site: Vec::new(),
        identity,
    }
}
