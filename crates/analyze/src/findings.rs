//! Totals and objects of a trace.

use std::collections::BTreeMap;
use std::collections::HashMap;

use pagewise_trace::Frame;
use pagewise_trace::Meta;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::access::Accesses;
use crate::access::WorkingSet;
use crate::call_paths::WholePaths;
use crate::counts::Counts;
use crate::fault_paths::FaultPath;
use crate::histogram::Histogram;
use crate::identity::Identity;
use crate::length::observed_ns;
use crate::memory_need::MemoryNeed;
use crate::object::Object;
use crate::object::ObjectFrame;
use crate::object::WorstPath;
use crate::pattern;
use crate::residency;
use crate::spaces::Extent;
use crate::spaces::Spaces;
use crate::swap_in_sample::SwapInSample;
use crate::tallies::Tallies;
use crate::tallies::Tally;
use crate::waits::Waits;

/// All that the report says.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The recording's own facts.
    pub meta: Meta,
    /// Sums over all objects.
    pub totals: Counts,
    /// Of the swap-ins, those given to an object by what was sampled on their page or near it.
    pub estimated_swap_ins: u64,
    /// Of the swap-ins, those in memory of no recorded object: of the heap or unknown.
    pub unattributed_swap_ins: u64,
    /// Pages that were seen to leave memory without being written; `None` if that was not observed.
    pub dropped_without_write: Option<u64>,
    /// Objects with at least one event or allocation, most stall first.
    pub objects: Vec<Object>,
    /// Swap-in latencies, ns.
    pub latency: Histogram,
    /// Where in the code the faults were, most stall first; empty if call paths were not recorded.
    pub fault_paths: Vec<FaultPath>,
    /// Latencies of writes to a slow swap device, ns, by page.
    pub write_latency: Histogram,
    /// Waiting outside swap-in faults, and what the kernel says.
    pub waits: Waits,
    /// Accessed memory over time; empty if not recorded.
    pub working_set: Vec<WorkingSet>,
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
        self.meta
            .sensors
            .get("zero_filled")
            .is_some_and(|state| state == "on")
    }

    /// Whether anyone looked for faults and evictions: if not, there is no telling that there were none.
    pub fn faults_observed(&self) -> bool {
        self.meta
            .sensors
            .get("faults")
            .is_none_or(|state| state == "on")
    }

    /// Whether swap-ins were seen at least in part: major faults in user mode, without their latency.
    pub fn swap_ins_observed(&self) -> bool {
        let majors = self.meta.sensors.get("major_faults");
        self.faults_observed() || majors.is_some_and(|state| state == "on")
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
    let mut spaces = Spaces::read_and_learn(trace)?;
    let page_bytes = spaces.page_bytes;
    let tallies = Tallies::read(trace, &mut spaces)?;
    let known = std::mem::take(&mut spaces.objects);
    let stacks = std::mem::take(&mut spaces.stacks);
    drop(spaces);
    let frames = frames_by_stack(trace)?;
    let paths = WholePaths::read(trace)?;
    let site = |number: usize| {
        let stack = stacks.get(&number).map(|&stack| paths.whole(stack));
        stack.and_then(|stack| frames.get(&stack)).cloned()
    };
    let (fault_paths, path_of_stack) = tallies.paths.finish(&frames);
    let worst_paths = worst_paths(&tallies.paths_of_objects, &path_of_stack);
    let observed = trace.meta().sensors.get("faults");
    let writes_observed = observed.is_none_or(|state| state == "on");
    let mut page_states = residency::measure(trace, writes_observed)?;
    page_states.shares.resize(known.len(), None);
    let readahead = readahead_pages(trace.meta());
    let accesses = Accesses::read(trace)?;
    let mut objects: Vec<(usize, Object)> = known
        .into_iter()
        .zip(tallies.objects)
        .zip(page_states.shares)
        .enumerate()
        .filter(|(_, (((_, extent), tally), _))| {
            let counts = &tally.counts;
            counts.swap_ins + counts.evictions + extent.rounded_allocations() > 0
        })
        .map(|(number, (((identity, extent), tally), resident_share))| {
            let object = Object {
                accessed_share: accesses.share(&identity),
                resident_share,
                extra_bytes: tally.need.extra_bytes(page_bytes),
                worst_path: worst_paths.get(&(number as u32)).copied(),
                site: site(number).unwrap_or_default(),
                ..object(identity, extent, &tally, readahead)
            };
            (number, object)
        })
        .collect();
    objects.sort_by_key(|(_, object)| {
        let counts = &object.counts;
        std::cmp::Reverse((counts.stall_ns, counts.swap_ins, counts.evictions))
    });
    let mut index_of = vec![
        0;
        objects
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0)
    ];
    for (index, (number, _)) in objects.iter().enumerate() {
        index_of[*number] = index;
    }
    let objects: Vec<Object> = objects.into_iter().map(|(_, object)| object).collect();
    let mut meta = trace.meta().clone();
    if meta.end_monotonic_ns.is_none() {
        meta.wall_ns = observed_ns(trace)?;
    }
    let unattributed_swap_ins = objects.iter().map(Object::unattributed_swap_ins).sum();
    Ok(Findings {
        totals: objects.iter().map(|object| &object.counts).sum(),
        dropped_without_write: page_states.dropped_without_write,
        estimated_swap_ins: tallies.estimated_swap_ins,
        unattributed_swap_ins,
        objects,
        latency: tallies.latency,
        fault_paths,
        write_latency: tallies.write_latency,
        waits: Waits::read(trace)?,
        working_set: accesses.working_set,
        counted_events: tallies.counted_events,
        memory_need: tallies.need.need(page_bytes, meta.limit.bytes),
        sample: tallies.sampler.finish(&index_of),
        meta,
    })
}

/// Swap on zram is read page by page; elsewhere the kernel reads clusters (vm.page-cluster is 3 by default).
fn readahead_pages(meta: &Meta) -> u64 {
    if meta.swap.kind.as_deref() == Some("zram") {
        1
    } else {
        8
    }
}

fn object(identity: Identity, extent: Extent, tally: &Tally, readahead: u64) -> Object {
    let phases = tally.watch.phases(readahead);
    let pattern_facts = pattern::leading(&phases).and_then(|phase| phase.facts);
    Object {
        bytes: (extent.peak_bytes > 0).then_some(extent.peak_bytes),
        allocations: extent.rounded_allocations(),
        sampled: extent.sampled,
        counts: tally.counts,
        distinct_pages: tally.watch.distinct_pages(),
        accessed_share: None,
        resident_share: None,
        pattern: pattern_facts.map(|facts| facts.pattern),
        pattern_facts,
        phases,
        extra_bytes: None,
        worst_path: None,
        site: Vec::new(),
        identity,
    }
}

/// Of each object's number, the call path of its longest stall.
fn worst_paths<S>(
    stalls: &HashMap<(u32, Option<u32>), u64, S>,
    path_of_stack: &HashMap<Option<u32>, usize>,
) -> HashMap<u32, WorstPath> {
    let mut sums: BTreeMap<(u32, usize), u64> = BTreeMap::new();
    for ((object, stack), stall_ns) in stalls {
        if let Some(&path) = path_of_stack.get(stack) {
            *sums.entry((*object, path)).or_default() += stall_ns;
        }
    }
    let mut worst: HashMap<u32, WorstPath> = HashMap::new();
    for ((object, fault_path), stall_ns) in sums {
        let found = WorstPath {
            fault_path,
            stall_ns,
        };
        let of_object = worst.entry(object).or_insert(found);
        if of_object.stall_ns < stall_ns {
            *of_object = found;
        }
    }
    worst
}

/// The frames of each call path, by its number in the trace, innermost first.
///
/// # Errors
/// If a table cannot be read.
pub fn frames_by_stack(trace: &Trace) -> Result<HashMap<u32, Vec<ObjectFrame>>, TraceError> {
    frames_of(trace, |_| true)
}

/// The same of some of them.
pub(crate) fn frames_of(
    trace: &Trace,
    wanted: impl Fn(u32) -> bool,
) -> Result<HashMap<u32, Vec<ObjectFrame>>, TraceError> {
    let mut offsets: HashMap<(u32, u16), u64> = HashMap::new();
    for frame in trace.rows::<StackFrame>()? {
        let frame = frame?;
        if let Some(offset) = frame.module_offset
            && wanted(frame.stack)
        {
            offsets.insert((frame.stack, frame.depth), offset);
        }
    }
    let mut frames: HashMap<u32, Vec<ObjectFrame>> = HashMap::new();
    for frame in trace.rows::<Frame>()? {
        let frame = frame?;
        if !wanted(frame.stack) {
            continue;
        }
        let offset = offsets.get(&(frame.stack, frame.depth)).copied();
        frames.entry(frame.stack).or_default().push(ObjectFrame {
            function: frame.function,
            file: frame.file,
            line: frame.line,
            module: frame.module,
            module_offset: offset.filter(|_| frame.line.is_none()),
            inlined: frame.inlined,
        });
    }
    Ok(frames)
}
