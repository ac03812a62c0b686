//! All address spaces of a trace, moved forward in time: page -> object.

use std::collections::HashMap;

use pagewise_trace::Allocation;
use pagewise_trace::Mapping;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::address_map::AddressMap;
use crate::address_map::Range;
use crate::identity::Identity;
use crate::identity::ObjectKind;

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

/// What lies where, by how well it is known: an allocation says more than the mapping it is in.
#[derive(Clone, Default)]
struct Layers {
    allocations: AddressMap,
    globals: AddressMap,
    mappings: AddressMap,
    heap_start: Option<u64>,
}

/// An object's size over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    live_bytes: u64,
    /// Most bytes alive at once.
    pub(crate) peak_bytes: u64,
    /// How many allocations.
    pub(crate) allocations: u64,
}

/// Where something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) object: usize,
    /// Page number within the object: counted from its allocation's start, allocations apart.
    pub(crate) page: u64,
}

pub(crate) struct Spaces {
    page_bytes: u64,
    changes: std::iter::Peekable<std::vec::IntoIter<Change>>,
    layers: HashMap<u32, Layers>,
    pub(crate) objects: Vec<(Identity, Extent)>,
    by_identity: HashMap<Identity, usize>,
    by_stack: HashMap<u32, usize>,
    unknown: usize,
}

/// How far the `brk` heap may have grown since its mapping was last listed: nothing else is mapped that near.
const HEAP_REACH: u64 = 64 << 30;

/// Allocations are told apart in page numbers by this many bits.
const PAGE_BITS: u32 = 40;

impl Spaces {
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
        for allocation in trace.allocations()? {
            changes.push(Change::Allocation(allocation?));
        }
        for release in trace.releases()? {
            changes.push(Change::Release(release?));
        }
        changes.extend(trace.moves()?.into_iter().map(Change::Move));
        // Stable: of one moment, in the order above.
        changes.sort_by_key(Change::time_ns);
        let mut result = Self {
            page_bytes: trace.meta().host.page_bytes.unwrap_or(4096),
            changes: changes.into_iter().peekable(),
            layers: HashMap::new(),
            objects: Vec::new(),
            by_identity: HashMap::new(),
            by_stack: HashMap::new(),
            unknown: 0,
        };
        result.unknown = result.object(Identity::plain(ObjectKind::Unknown));
        for site in trace.sites()? {
            let object = result.object(Identity::of_site(&site));
            result.by_stack.insert(site.stack, object);
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
                origin: global.start,
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
        let space = change.space();
        match change {
            Change::Fork(child) => {
                let parent = child
                    .parent_space
                    .and_then(|parent| self.layers.get(&parent));
                layers = parent.cloned().unwrap_or_default();
            }
            Change::Mapping(mapping) => {
                let identity = Identity::of_mapping(&mapping.path);
                if identity.kind == ObjectKind::Heap {
                    layers.heap_start.get_or_insert(mapping.start);
                }
                let object = self.object(identity);
                let (start, end) = (mapping.start, mapping.end.max(mapping.start));
                let gone = layers.mappings.insert(Range {
                    start,
                    end,
                    object,
                    allocation: 0,
                    origin: start,
                });
                self.shrink(&gone);
                self.grow(object, end - start);
            }
            Change::Allocation(allocation) => {
                let object = allocation
                    .stack
                    .and_then(|stack| self.by_stack.get(&stack).copied());
                let object = object.unwrap_or_else(|| self.nameless(allocation.stack));
                let (start, end) = (
                    allocation.address,
                    allocation.address.saturating_add(allocation.bytes),
                );
                let range = Range {
                    start,
                    end,
                    object,
                    allocation: allocation.allocation,
                    origin: start,
                };
                let gone = layers.allocations.insert(range);
                self.shrink(&gone);
                self.grow(object, allocation.bytes);
                self.objects[object].1.allocations += 1;
            }
            Change::Release(release) => {
                let gone: Vec<Range> = match release.bytes {
                    None => layers
                        .allocations
                        .take(release.address)
                        .into_iter()
                        .collect(),
                    Some(bytes) => layers
                        .allocations
                        .remove(release.address, release.address.saturating_add(bytes)),
                };
                self.shrink(&gone);
            }
            Change::Move(moved) => self.move_range(&mut layers, &moved),
        }
        self.layers.insert(space, layers);
    }

    fn move_range(&mut self, layers: &mut Layers, moved: &Move) {
        let old_end = moved.old_address.saturating_add(moved.old_bytes);
        let gone = layers.allocations.remove(moved.old_address, old_end);
        self.shrink(&gone);
        let Some(first) = gone.first() else { return };
        let end = moved.new_address.saturating_add(moved.new_bytes);
        let origin = moved
            .new_address
            .wrapping_sub(first.start.wrapping_sub(first.origin));
        layers.allocations.insert(Range {
            start: moved.new_address,
            end,
            origin,
            ..*first
        });
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

    fn grow(&mut self, object: usize, bytes: u64) {
        let extent = &mut self.objects[object].1;
        extent.live_bytes = extent.live_bytes.saturating_add(bytes);
        extent.peak_bytes = extent.peak_bytes.max(extent.live_bytes);
    }

    fn shrink(&mut self, gone: &[Range]) {
        for range in gone {
            let extent = &mut self.objects[range.object].1;
            extent.live_bytes = extent.live_bytes.saturating_sub(range.end - range.start);
        }
    }

    /// Whose page this is, now.
    pub(crate) fn find(&self, space: u32, address: u64) -> Place {
        let range = self.layers.get(&space).and_then(|layers| {
            let find = |map: &AddressMap| map.find(address, self.page_bytes).copied();
            find(&layers.allocations)
                .or_else(|| find(&layers.globals))
                .or_else(|| find(&layers.mappings))
        });
        let Some(range) = range else {
            return self.find_beyond(space, address);
        };
        let offset = (address / self.page_bytes).wrapping_sub(range.origin / self.page_bytes);
        let page = range.allocation << PAGE_BITS | (offset & ((1 << PAGE_BITS) - 1));
        Place {
            object: range.object,
            page,
        }
    }

    /// A page of no listed mapping: the heap, grown since, or nobody's.
    fn find_beyond(&self, space: u32, address: u64) -> Place {
        let heap = self.layers.get(&space).and_then(|layers| layers.heap_start);
        let in_heap = heap.is_some_and(|start| address.wrapping_sub(start) < HEAP_REACH);
        let heap_object = in_heap
            .then(|| self.by_identity.get(&Identity::plain(ObjectKind::Heap)))
            .flatten();
        Place {
            object: heap_object.copied().unwrap_or(self.unknown),
            page: address / self.page_bytes,
        }
    }
}
