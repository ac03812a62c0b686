//! Totals and objects of a trace.

use std::collections::HashMap;

use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::histogram::Histogram;
use crate::identity::Identity;
use crate::pattern::Pattern;
use crate::pattern::PatternWatch;
use crate::spaces::Extent;
use crate::spaces::Spaces;

/// One data object: all allocations of one variable on one line, or a mapping.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it is called.
    pub identity: Identity,
    /// Most bytes alive at once; `None` where there is no telling.
    pub bytes: Option<u64>,
    /// How many allocations it had.
    pub allocations: u64,
    /// Faults that found a swap entry.
    pub swap_ins: u64,
    /// Of these, those whose page was in the swap cache.
    pub swap_cache_hits: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Pages sent to the swap device.
    pub pages_written: u64,
    /// Pages kept without input or output because they are all zero.
    pub zero_filled: u64,
    /// Time spent in its swap-in faults, ns.
    pub stall_ns: u64,
    /// Different pages that came back from swap.
    pub distinct_pages: u64,
    /// In what order they came back.
    pub pattern: Option<Pattern>,
    /// Its call path, innermost first: of its allocations, the path that was named.
    pub site: Vec<ObjectFrame>,
}

/// One frame of an object's call path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFrame {
    /// Function.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Executable or library.
    pub module: Option<String>,
    /// Inlined into the next frame.
    pub inlined: bool,
}

/// Counts over all objects.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Faults that found a swap entry.
    pub swap_ins: u64,
    /// Of these, those whose page was in the swap cache.
    pub swap_cache_hits: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Pages sent to the swap device.
    pub pages_written: u64,
    /// Pages kept without input or output because they are all zero.
    pub zero_filled: u64,
    /// Time spent in swap-in faults, ns, summed over threads.
    pub stall_ns: u64,
}

/// All that the report says.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The recording's own facts.
    pub meta: Meta,
    /// Sums.
    pub totals: Totals,
    /// Objects with at least one event or allocation, most stall first.
    pub objects: Vec<Object>,
    /// Swap-in latencies, ns.
    pub latency: Histogram,
}

impl Findings {
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
}

#[derive(Default)]
struct Tally {
    swap_ins: u64,
    swap_cache_hits: u64,
    evictions: u64,
    pages_written: u64,
    zero_filled: u64,
    stall_ns: u64,
    watch: PatternWatch,
}

/// Goes through a trace once.
///
/// # Errors
/// If a table cannot be read.
pub fn analyze(trace: &Trace) -> Result<Findings, TraceError> {
    let mut spaces = Spaces::read(trace)?;
    let mut tallies: Vec<Tally> = Vec::new();
    let mut latency = Histogram::default();
    for event in trace.events()? {
        let event = event?;
        spaces.advance(event.time_ns);
        let place = spaces.find(event.space, event.address);
        if place.object >= tallies.len() {
            tallies.resize_with(place.object + 1, Tally::default);
        }
        let tally = &mut tallies[place.object];
        match event.kind {
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                tally.swap_ins += 1;
                tally.swap_cache_hits += u64::from(event.kind == EventKind::SwapCacheHit);
                tally.watch.swap_in(event.tid.unwrap_or(0), place.page);
                if let Some(ns) = event.latency_ns {
                    tally.stall_ns += ns;
                    latency.add(ns);
                }
            }
            EventKind::Eviction => tally.evictions += 1,
            EventKind::PageWritten => tally.pages_written += 1,
            EventKind::ZeroFilled => tally.zero_filled += 1,
        }
    }
    spaces.finish();
    tallies.resize_with(spaces.objects.len(), Tally::default);
    let sites = site_frames(trace)?;
    let readahead = readahead_pages(trace.meta());
    let mut objects: Vec<Object> = std::mem::take(&mut spaces.objects)
        .into_iter()
        .zip(tallies)
        .map(|((identity, extent), tally)| object(identity, extent, &tally, &sites, readahead))
        .filter(|object| object.swap_ins + object.evictions + object.allocations > 0)
        .collect();
    objects.sort_by_key(|object| {
        std::cmp::Reverse((object.stall_ns, object.swap_ins, object.evictions))
    });
    Ok(Findings {
        meta: trace.meta().clone(),
        totals: totals(&objects),
        objects,
        latency,
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

fn object(
    identity: Identity,
    extent: Extent,
    tally: &Tally,
    sites: &HashMap<Identity, Vec<ObjectFrame>>,
    readahead: u64,
) -> Object {
    Object {
        bytes: (extent.peak_bytes > 0).then_some(extent.peak_bytes),
        allocations: extent.allocations,
        swap_ins: tally.swap_ins,
        swap_cache_hits: tally.swap_cache_hits,
        evictions: tally.evictions,
        pages_written: tally.pages_written,
        zero_filled: tally.zero_filled,
        stall_ns: tally.stall_ns,
        distinct_pages: tally.watch.distinct_pages() as u64,
        pattern: tally.watch.pattern(readahead),
        site: sites.get(&identity).cloned().unwrap_or_default(),
        identity,
    }
}

fn totals(objects: &[Object]) -> Totals {
    let sum = |field: fn(&Object) -> u64| objects.iter().map(field).sum();
    Totals {
        swap_ins: sum(|object| object.swap_ins),
        swap_cache_hits: sum(|object| object.swap_cache_hits),
        evictions: sum(|object| object.evictions),
        pages_written: sum(|object| object.pages_written),
        zero_filled: sum(|object| object.zero_filled),
        stall_ns: sum(|object| object.stall_ns),
    }
}

/// Each object's call path: the first that was named so.
fn site_frames(trace: &Trace) -> Result<HashMap<Identity, Vec<ObjectFrame>>, TraceError> {
    let mut frames: HashMap<u32, Vec<ObjectFrame>> = HashMap::new();
    for frame in trace.frames()? {
        frames.entry(frame.stack).or_default().push(ObjectFrame {
            function: frame.function,
            file: frame.file,
            line: frame.line,
            module: frame.module,
            inlined: frame.inlined,
        });
    }
    let mut sites = HashMap::new();
    for site in trace.sites()? {
        let path = frames.get(&site.stack).cloned().unwrap_or_default();
        sites.entry(Identity::of_site(&site)).or_insert(path);
    }
    Ok(sites)
}
