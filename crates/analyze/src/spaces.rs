//! All address spaces of a trace, moved forward in time: page -> object.

use std::collections::HashMap;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::EventKind;
use pagewise_trace::Mapping;
use pagewise_trace::Meta;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::address_map::Range;
use crate::apportion::Apportion;
use crate::call_paths::WholePaths;
use crate::code_places::code_places;
use crate::given_names::GivenNames;
use crate::heat::Heat;
use crate::heat::Rates;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::layers::Gone;
use crate::layers::Layers;
use crate::layers::reach;

/// Something that changes what lies where.
enum Change {
    Fork(Space),
    Mapping(Mapping),
    Allocation(Allocation),
    Release(Release),
    Move(Move),
}

impl Change {
    fn time_ns(&self) -> u64 {
        match self {
            Self::Fork(space) => space.begin_ns,
            Self::Mapping(mapping) => mapping.time_ns,
            Self::Allocation(allocation) => allocation.time_ns,
            Self::Release(release) => release.time_ns,
            Self::Move(moved) => moved.time_ns,
        }
    }

    fn space(&self) -> u32 {
        match self {
            Self::Fork(space) => space.space,
            Self::Mapping(mapping) => mapping.space,
            Self::Allocation(allocation) => allocation.space,
            Self::Release(release) => release.space,
            Self::Move(moved) => moved.space,
        }
    }
}

/// An object's size over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    live_bytes: u64,
    /// Most bytes alive at once.
    pub(crate) peak_bytes: u64,
    /// How many allocations, each sample counted for all it stands for.
    pub(crate) allocations: f64,
    /// Whether some of them were sampled.
    pub(crate) sampled: bool,
}

impl Extent {
    pub(crate) fn rounded_allocations(&self) -> u64 {
        self.allocations.round() as u64
    }
}

/// An object's range begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) time_ns: u64,
    pub(crate) space: u32,
    /// Ranges of one layer do not overlap.
    pub(crate) layer: usize,
    pub(crate) range: Range,
    pub(crate) begins: bool,
}

/// Pages that a program gave back to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenBack {
    pub(crate) space: u32,
    /// Page numbers.
    pub(crate) first_page: u64,
    pub(crate) end_page: u64,
}

/// How many layers there are, and the places of each in [`Life::layer`], best known first. Samples have none: of what
/// they stand for, nobody knows where it lies.
pub(crate) const LAYERS: usize = 4;
const BLOCKS: usize = 0;
const MMAPS: usize = 1;
const GLOBALS: usize = 2;
const MAPPINGS: usize = 3;

/// Where something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) object: usize,
    /// Page number within the object: counted from its allocation's start, allocations apart.
    pub(crate) page: u64,
    /// Whether that is counted from the start of what holds it; else it is known by its address only.
    pub(crate) within: bool,
    /// The call path that made the allocation, if it is one and the path was taken.
    pub(crate) stack: Option<u32>,
    /// It is the object's by chance: the page was shared, and not all that is on it is known.
    pub(crate) estimated: bool,
}

pub(crate) struct Spaces {
    pub(crate) page_bytes: u64,
    /// How far samples speak for their surroundings, in bytes.
    reach: u64,
    apportion: Apportion,
    /// Learnt when the trace was gone through before.
    rates: Rates,
    heat: Heat,
    /// Whether some of the allocations were sampled.
    pub(crate) sampled: bool,
    changes: std::iter::Peekable<std::vec::IntoIter<Change>>,
    layers: HashMap<u32, Layers, RandomState>,
    pub(crate) objects: Vec<(Identity, Extent)>,
    by_identity: HashMap<Identity, usize, RandomState>,
    by_stack: HashMap<u32, usize, RandomState>,
    /// One call path of each object that has any.
    pub(crate) stacks: HashMap<usize, u32, RandomState>,
    /// What the program itself calls allocations.
    given_names: GivenNames,
    unknown: usize,
    /// When which range was alive, if someone wants to know.
    lives: Option<Vec<Life>>,
    /// What was given back since it was last asked for, if someone wants to know.
    given_back: Option<Vec<GivenBack>>,
}

/// Allocations are told apart in page numbers by this many bits.
pub(crate) const PAGE_BITS: u32 = 40;

/// What a page number counts; a meta file may say anything.
fn page_bytes(meta: &Meta) -> u64 {
    let stated = meta.host.page_bytes;
    stated
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(4096)
}

impl Spaces {
    /// All that says what lay where; where allocations were sampled, with what the events tell of the samples' pages.
    pub(crate) fn read_and_learn(trace: &Trace) -> Result<Self, TraceError> {
        let mut spaces = Self::read(trace)?;
        if !spaces.sampled {
            return Ok(spaces);
        }
        for event in trace.events()? {
            let event = event?;
            spaces.advance(event.time_ns);
            spaces.learn(event.space, event.address);
        }
        spaces.read_again(trace)
    }

    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut changes = Vec::new();
        let spaces: Vec<Space> = trace.spaces()?;
        let process_of: HashMap<u32, u32> = spaces
            .iter()
            .map(|space| (space.space, space.pid))
            .collect();
        for space in spaces {
            let parent = space
                .parent_space
                .and_then(|parent| process_of.get(&parent));
            // After exec the process is the same and its memory is not; after fork it is the other way round.
            if parent.is_some_and(|&pid| pid != space.pid) {
                changes.push(Change::Fork(space));
            }
        }
        changes.extend(trace.mappings()?.into_iter().map(Change::Mapping));
        let mut sampled = false;
        // Most call paths may be those of faults; they make no objects.
        let mut made_by: HashSet<u32, RandomState> = HashSet::default();
        for allocation in trace.allocations()? {
            let allocation = allocation?;
            made_by.extend(allocation.stack);
            sampled |= allocation.estimated_bytes.is_some();
            changes.push(Change::Allocation(allocation));
        }
        for release in trace.releases()? {
            changes.push(Change::Release(release?));
        }
        changes.extend(trace.moves()?.into_iter().map(Change::Move));
        // Stable: of one moment, in the order above.
        changes.sort_by_key(Change::time_ns);
        let mut result = Self {
            page_bytes: page_bytes(trace.meta()),
            reach: reach(trace),
            apportion: Apportion::default(),
            rates: Rates::default(),
            heat: Heat::default(),
            sampled,
            changes: changes.into_iter().peekable(),
            layers: HashMap::default(),
            objects: Vec::new(),
            by_identity: HashMap::default(),
            by_stack: HashMap::default(),
            stacks: HashMap::default(),
            given_names: GivenNames::read(trace)?,
            unknown: 0,
            lives: None,
            given_back: None,
        };
        result.unknown = result.object(Identity::plain(ObjectKind::Unknown));
        let paths = WholePaths::read(trace)?;
        let mut sites = trace.sites()?;
        sites.retain(|site| made_by.contains(&site.stack));
        let nameless = sites
            .iter()
            .filter_map(|site| Identity::of_site(site, &paths).stack);
        let codes = code_places(trace, &nameless.collect())?;
        for site in sites {
            let mut identity = Identity::of_site(&site, &paths);
            identity.code = identity.stack.and_then(|stack| codes.get(&stack).cloned());
            let object = result.object(identity);
            result.by_stack.insert(site.stack, object);
            result.stacks.entry(object).or_insert(site.stack);
        }
        result.place_globals(trace)?;
        Ok(result)
    }

    fn place_globals(&mut self, trace: &Trace) -> Result<(), TraceError> {
        for global in trace.globals()? {
            let object = self.object(Identity::of_global(&global));
            let range = Range {
                start: global.start,
                end: global.start.saturating_add(global.bytes),
                object,
                allocation: 0,
                stack: None,
                origin: global.start,
                stands_for: global.bytes,
            };
            self.layers
                .entry(global.space)
                .or_default()
                .globals
                .insert(range);
            let extent = &mut self.objects[object].1;
            extent.peak_bytes = extent.peak_bytes.max(global.bytes);
        }
        Ok(())
    }

    fn object(&mut self, identity: Identity) -> usize {
        *self.by_identity.entry(identity.clone()).or_insert_with(|| {
            self.objects.push((identity, Extent::default()));
            self.objects.len() - 1
        })
    }

    /// When each range of each object was alive, in order of time. A space's end ends what is in it, and is not told.
    pub(crate) fn into_lives(mut self) -> Vec<Life> {
        let globals = self.layers.iter().flat_map(|(&space, layers)| {
            let life = move |range: &Range| Life {
                time_ns: 0,
                space,
                layer: GLOBALS,
                range: *range,
                begins: true,
            };
            layers.globals.ranges().map(life)
        });
        self.lives = Some(globals.collect());
        self.finish();
        self.lives.unwrap_or_default()
    }

    fn note(&mut self, at: (u64, u32), layer: usize, ranges: &[Range], begins: bool) {
        if let Some(lives) = &mut self.lives {
            lives.extend(ranges.iter().map(|&range| Life {
                time_ns: at.0,
                space: at.1,
                layer,
                range,
                begins,
            }));
        }
    }

    /// From now on, [`given_back`](Self::given_back) has something to tell.
    pub(crate) fn tell_of_given_back(&mut self) {
        self.given_back = Some(Vec::new());
    }

    /// What was given back since the last call.
    pub(crate) fn given_back(&mut self) -> Vec<GivenBack> {
        self.given_back
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn give_back(&mut self, space: u32, start: u64, end: u64) {
        if let Some(given_back) = &mut self.given_back {
            given_back.push(GivenBack {
                space,
                first_page: start.div_ceil(self.page_bytes),
                end_page: end / self.page_bytes,
            });
        }
    }

    /// Of freed blocks, those that the C library had mapped for themselves (malloc/malloc.c of glibc 2.36: a header of 16
    /// bytes at the start of a page) go back to the kernel at once.
    fn give_back_mapped(&mut self, space: u32, blocks: &[Range]) {
        const HEADER: u64 = 16;
        const SMALLEST: u64 = 128 << 10;
        for block in blocks {
            let mapped = block.start % self.page_bytes == HEADER;
            if mapped && block.end - block.start >= SMALLEST {
                let end = block.end.next_multiple_of(self.page_bytes);
                self.give_back(space, block.start - HEADER, end);
            }
        }
    }

    /// Applies all changes up to a moment. Moments must not go back by more than the recorder's disorder (ms).
    pub(crate) fn advance(&mut self, time_ns: u64) {
        while let Some(change) = self.changes.next_if(|change| change.time_ns() <= time_ns) {
            self.apply(change);
        }
    }

    /// Applies the rest: objects that saw no event still have a size.
    pub(crate) fn finish(&mut self) {
        self.advance(u64::MAX);
    }

    fn apply(&mut self, change: Change) {
        let mut layers = self.layers.remove(&change.space()).unwrap_or_default();
        let at = (change.time_ns(), change.space());
        match change {
            Change::Fork(child) => {
                let parent = child
                    .parent_space
                    .and_then(|parent| self.layers.get(&parent));
                // Its own globals were placed before all.
                let globals = std::mem::take(&mut layers.globals);
                layers = parent.cloned().unwrap_or_default();
                let mut copied = vec![
                    (BLOCKS, layers.blocks.exact.clone()),
                    (MMAPS, layers.mmaps.clone()),
                    (MAPPINGS, layers.mappings.clone()),
                ];
                if globals.ranges().next().is_some() {
                    layers.globals = globals;
                } else {
                    copied.push((GLOBALS, layers.globals.clone()));
                }
                for (layer, map) in copied {
                    let ranges: Vec<Range> = map.ranges().copied().collect();
                    self.note(at, layer, &ranges, true);
                }
            }
            Change::Mapping(mapping) => {
                let identity = Identity::of_mapping(&mapping.path);
                if identity.kind == ObjectKind::Heap {
                    layers.heap_start.get_or_insert(mapping.start);
                }
                let object = self.object(identity);
                let (start, end) = (mapping.start, mapping.end.max(mapping.start));
                let range = Range {
                    start,
                    end,
                    object,
                    allocation: 0,
                    stack: None,
                    origin: start,
                    stands_for: end - start,
                };
                let gone = layers.mappings.insert(range);
                self.note(at, MAPPINGS, &gone, false);
                self.note(at, MAPPINGS, &[range], true);
                self.shrink(&gone);
                self.grow(object, end - start);
            }
            Change::Allocation(allocation) => self.allocate(&mut layers, &allocation),
            Change::Release(release) => {
                let gone = match release.bytes {
                    None => layers.free(release.address),
                    Some(bytes) => layers.unmap(release.address, bytes),
                };
                match release.bytes {
                    None => self.give_back_mapped(release.space, &gone.blocks),
                    Some(bytes) => {
                        let end = release.address.saturating_add(bytes);
                        self.give_back(release.space, release.address, end);
                    }
                }
                self.forget(at, &gone);
            }
            Change::Move(moved) => self.move_range(&mut layers, &moved),
        }
        self.layers.insert(at.1, layers);
    }

    fn allocate(&mut self, layers: &mut Layers, allocation: &Allocation) {
        let object = allocation
            .stack
            .and_then(|stack| self.by_stack.get(&stack).copied());
        let object = object.unwrap_or_else(|| self.nameless(allocation.stack));
        let object = match self.given_names.of(allocation.allocation) {
            Some(name) => self.renamed(object, name, allocation.stack),
            None => object,
        };
        let (start, bytes) = (allocation.address, allocation.bytes);
        let stands_for = allocation.estimated_bytes.unwrap_or(bytes);
        let range = Range {
            start,
            end: start.saturating_add(bytes),
            object,
            allocation: allocation.allocation,
            stack: allocation.stack,
            origin: start,
            stands_for,
        };
        let at = (allocation.time_ns, allocation.space);
        // What it covers must have been released without our being told.
        let mut gone = Gone {
            blocks: layers.blocks.exact.remove(start, range.end),
            samples: layers.blocks.samples.remove(start, range.end),
            mmaps: Vec::new(),
        };
        match (allocation.kind, allocation.estimated_bytes) {
            (AllocationKind::Mmap | AllocationKind::Brk, _) => {
                gone.mmaps.extend(layers.mmaps.insert(range))
            }
            (_, Some(_)) => gone.samples.extend(layers.blocks.samples.insert(range)),
            (_, None) => gone.blocks.extend(layers.blocks.exact.insert(range)),
        }
        self.forget(at, &gone);
        match (allocation.kind, allocation.estimated_bytes) {
            (AllocationKind::Mmap | AllocationKind::Brk, _) => self.note(at, MMAPS, &[range], true),
            (_, Some(_)) => {}
            (_, None) => self.note(at, BLOCKS, &[range], true),
        }
        if range.is_sample() {
            self.heat
                .change_pages(object, range.pages(self.page_bytes) as f64);
        }
        self.grow(object, stands_for);
        let extent = &mut self.objects[object].1;
        extent.allocations += stands_for as f64 / bytes.max(1) as f64;
        extent.sampled |= allocation.estimated_bytes.is_some();
    }

    fn move_range(&mut self, layers: &mut Layers, moved: &Move) {
        let end = moved.new_address.saturating_add(moved.new_bytes);
        let at = (moved.time_ns, moved.space);
        let gone = layers.unmap(moved.old_address, moved.old_bytes);
        self.forget(at, &gone);
        let old_end = moved.old_address.saturating_add(moved.old_bytes);
        self.give_back(moved.space, moved.old_address, old_end);
        let Some(first) = gone.first() else { return };
        let origin = moved
            .new_address
            .wrapping_sub(first.start.wrapping_sub(first.origin));
        let range = Range {
            start: moved.new_address,
            end,
            origin,
            stands_for: moved.new_bytes,
            ..*first
        };
        let covered = layers.mmaps.insert(range);
        self.note(at, MMAPS, &covered, false);
        self.note(at, MMAPS, &[range], true);
        self.grow(first.object, moved.new_bytes);
    }

    /// An allocation whose call path was not taken, or not named (the recorder died before).
    fn nameless(&mut self, stack: Option<u32>) -> usize {
        let identity = Identity {
            stack,
            ..Identity::plain(ObjectKind::Allocation)
        };
        self.object(identity)
    }

    /// The object that this one is if the program calls it so.
    fn renamed(&mut self, object: usize, name: String, stack: Option<u32>) -> usize {
        let identity = Identity {
            name: Some(name),
            code: None,
            ..self.objects[object].0.clone()
        };
        let object = self.object(identity);
        if let Some(stack) = stack {
            self.stacks.entry(object).or_insert(stack);
        }
        object
    }

    fn grow(&mut self, object: usize, bytes: u64) {
        let extent = &mut self.objects[object].1;
        extent.live_bytes = extent.live_bytes.saturating_add(bytes);
        extent.peak_bytes = extent.peak_bytes.max(extent.live_bytes);
    }

    fn forget(&mut self, at: (u64, u32), gone: &Gone) {
        self.note(at, BLOCKS, &gone.blocks, false);
        self.note(at, MMAPS, &gone.mmaps, false);
        for ranges in [&gone.mmaps, &gone.blocks, &gone.samples] {
            self.shrink(ranges);
        }
    }

    fn shrink(&mut self, gone: &[Range]) {
        for range in gone {
            let extent = &mut self.objects[range.object].1;
            extent.live_bytes = extent.live_bytes.saturating_sub(range.stands_for);
            if range.is_sample() {
                let pages = range.pages(self.page_bytes);
                self.heat.change_pages(range.object, -(pages as f64));
            }
        }
    }

    /// Whose page this is, now, for an event of this kind. A page that several objects share is now the one's, now the
    /// other's.
    pub(crate) fn find(&mut self, space: u32, address: u64, kind: EventKind) -> Place {
        let start = address / self.page_bytes * self.page_bytes;
        let Some(layers) = self.layers.get(&space) else {
            return self.place_of_none(self.unknown, address);
        };
        let around = layers.surroundings(start, self.page_bytes, self.reach);
        let page = layers
            .blocks
            .page(start, self.page_bytes, around, &self.rates);
        if let Some(object) = self.apportion.give(kind, &page.shares) {
            let exact = layers
                .blocks
                .exact
                .overlapping(start, start.saturating_add(self.page_bytes));
            let place = match exact.into_iter().find(|range| range.object == object) {
                Some(range) => self.place(range, address),
                None => self.place_of_none(object, address),
            };
            return Place {
                estimated: page.estimated,
                ..place
            };
        }
        match layers.known_mapping(address, self.page_bytes) {
            Some(range) => self.place(range, address),
            None => self.place_of_none(self.grown_heap(layers, address), address),
        }
    }

    /// The object of memory that nobody told of.
    pub(crate) fn unknown(&self) -> usize {
        self.unknown
    }

    /// Whose the page at this address is, as far as that is known for certain, and up to where the pages after it are
    /// the same object's.
    pub(crate) fn find_run(&self, space: u32, address: u64) -> (usize, u64) {
        let Some(layers) = self.layers.get(&space) else {
            return (self.unknown, u64::MAX);
        };
        let maps = [
            &layers.blocks.exact,
            &layers.mmaps,
            &layers.globals,
            &layers.mappings,
        ];
        let boundaries = maps.map(|map| map.next_boundary(address));
        let boundary = boundaries.into_iter().flatten().min().unwrap_or(u64::MAX);
        // A page that a boundary cuts may be another's.
        let end = (boundary & !(self.page_bytes - 1)).max(address.saturating_add(self.page_bytes));
        let block = layers.blocks.exact.find(address, self.page_bytes);
        let known = block.or_else(|| layers.known_mapping(address, self.page_bytes));
        let object = known.map(|range| range.object);
        (
            object.unwrap_or_else(|| self.grown_heap(layers, address)),
            end,
        )
    }

    /// The same again from the start, with what was learnt of the samples' pages on the first way through.
    fn read_again(self, trace: &Trace) -> Result<Self, TraceError> {
        Ok(Self {
            rates: self.heat.rates(),
            ..Self::read(trace)?
        })
    }

    /// Notes an event, on the way through that only learns.
    fn learn(&mut self, space: u32, address: u64) {
        self.heat.tick();
        let start = address / self.page_bytes * self.page_bytes;
        if let Some(layers) = self.layers.get(&space) {
            layers.blocks.learn(start, self.page_bytes, &mut self.heat);
        }
    }

    fn place(&self, range: &Range, address: u64) -> Place {
        let offset = (address / self.page_bytes).wrapping_sub(range.origin / self.page_bytes);
        Place {
            object: range.object,
            page: range.allocation << PAGE_BITS | (offset & ((1 << PAGE_BITS) - 1)),
            within: true,
            stack: range.stack,
            estimated: false,
        }
    }

    /// A place that is known by its address only.
    fn place_of_none(&self, object: usize, address: u64) -> Place {
        Place {
            object,
            page: address / self.page_bytes,
            within: false,
            stack: self.stacks.get(&object).copied(),
            estimated: false,
        }
    }

    /// What a page of no listed mapping is: the heap, grown since, or nobody's.
    fn grown_heap(&self, layers: &Layers, address: u64) -> usize {
        let heap = layers
            .is_in_heap(address)
            .then(|| self.by_identity.get(&Identity::plain(ObjectKind::Heap)))
            .flatten();
        heap.copied().unwrap_or(self.unknown)
    }
}
