//! All address spaces of a trace, moved forward in time: page -> object.
//!
//! ```text
//!   Changes (in time) --replay--> Layers of each space --find--> Place
//!   Catalogue: names of objects -------------------------/
//! ```

mod catalogue;
mod changes;
mod extent;
mod find;
mod in_call;
mod known_pages;
mod replay;
mod witness;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pagewise_trace::Meta;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::address_map::Range;
use crate::apportion::Apportion;
use crate::call_paths::CallPaths;
use crate::heat::Heat;
use crate::heat::Rates;
use crate::identity::Identity;
use crate::layers::Layers;
use crate::layers::reach;
use catalogue::Catalogue;
use changes::Changes;
use extent::Extents;
use known_pages::KnownPages;
use witness::GLOBALS;
use witness::Witness;

pub(crate) use extent::Extent;
pub(crate) use witness::GivenBack;
pub(crate) use witness::LAYERS;
pub(crate) use witness::Life;

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
    small_blocks: SmallBlocks,
    pub(crate) page_bytes: u64,
    page_shift: u32,
    /// Blocks that held a page of which all is theirs, with their space: of swap-ins, and of other events. Most events are near the
    /// last of their kind. None after a change.
    recent: [Option<(u32, Range)>; 2],
    /// Pages that several objects share.
    known_pages: KnownPages,
    /// How far samples speak for their surroundings, in bytes.
    reach: u64,
    apportion: Apportion,
    /// Learnt when the trace was gone through before.
    rates: Rates,
    heat: Heat,
    /// Whether some of the allocations were sampled.
    pub(crate) sampled: bool,
    changes: Changes,
    /// Space and range of each.
    globals: Vec<(u32, Range)>,
    layers: HashMap<u32, Layers, RandomState>,
    pub(crate) catalogue: Catalogue,
    pub(crate) paths: CallPaths,
    extents: Extents,
    witness: Witness,
}

/// Whose the small blocks on the pages of the C library's heap (`brk`) are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallBlocks {
    /// Those of the lines that allocate them, by the samples that lie there.
    BySite,
    /// The heap's: it is one object, but for blocks large enough to be recorded each.
    OneHeap,
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
    pub(crate) fn read_and_learn(
        trace: &Trace,
        small_blocks: SmallBlocks,
    ) -> Result<Self, TraceError> {
        let mut spaces = Self::read(trace, small_blocks)?;
        if !spaces.sampled {
            return Ok(spaces);
        }
        for event in trace.events()? {
            let event = event?;
            spaces.advance(event.time_ns);
            spaces.learn(event.space, event.address);
        }
        spaces.rates = std::mem::take(&mut spaces.heat).rates();
        spaces.rewind();
        Ok(spaces)
    }

    fn read(trace: &Trace, small_blocks: SmallBlocks) -> Result<Self, TraceError> {
        let (mut changes, allocated) = Changes::read(trace)?;
        let paths = CallPaths::read(trace)?;
        if paths.any_in_call() {
            changes.index_threads();
        }
        let page_bytes = page_bytes(trace.meta());
        let mut spaces = Self {
            small_blocks,
            page_bytes,
            page_shift: page_bytes.trailing_zeros(),
            recent: [None; 2],
            known_pages: KnownPages::default(),
            reach: reach(trace),
            apportion: Apportion::default(),
            rates: Rates::default(),
            heat: Heat::default(),
            sampled: allocated.sampled,
            changes,
            globals: Vec::new(),
            layers: HashMap::default(),
            catalogue: Catalogue::read(trace, &allocated.stacks, &paths)?,
            paths,
            extents: Extents::default(),
            witness: Witness::default(),
        };
        spaces.read_globals(trace)?;
        spaces.place_globals();
        Ok(spaces)
    }

    fn read_globals(&mut self, trace: &Trace) -> Result<(), TraceError> {
        for global in trace.globals()? {
            let object = self.catalogue.number(Identity::of_global(&global));
            let type_name = global.type_name.as_deref().map(Arc::from);
            self.catalogue.note_type(object, type_name);
            let end = global.start.saturating_add(global.bytes);
            let range = Range::whole(global.start, end, object);
            self.globals.push((global.space, range));
        }
        Ok(())
    }

    fn place_globals(&mut self) {
        for &(space, range) in &self.globals {
            let layers = self.layers.entry(space).or_default();
            layers.globals.insert(range);
            let extent = self.extents.of(range.object);
            extent.is_there(&range);
        }
    }

    /// Back to the beginning. Objects keep their numbers.
    pub(crate) fn rewind(&mut self) {
        self.changes.rewind();
        self.recent = [None; 2];
        self.known_pages.forget();
        self.layers.clear();
        self.apportion = Apportion::default();
        self.extents = Extents::default();
        self.witness = Witness::default();
        self.place_globals();
    }

    /// Something swaps in: what is alive now counts once in each object's mean size.
    pub(crate) fn note_swap_in(&mut self) {
        self.extents.note_swap_in();
    }

    /// The size of each object, as far as it was gone through.
    pub(crate) fn take_extents(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.extents).into_all(self.catalogue.len())
    }

    /// What each object is called; all else is let go.
    pub(crate) fn into_identities(self) -> Vec<Identity> {
        self.catalogue.into_identities()
    }

    /// When each range of each object was alive, in order of time. A space's end ends what is in it, and is not told.
    pub(crate) fn lives(&mut self) -> Vec<Life> {
        self.rewind();
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
        self.witness.lives = Some(globals.collect());
        self.finish();
        self.witness.lives.take().unwrap_or_default()
    }

    /// From now on, [`given_back`](Self::given_back) has something to tell.
    pub(crate) fn tell_of_given_back(&mut self) {
        self.witness.given_back = Some(Vec::new());
    }

    /// What was given back since the last call.
    pub(crate) fn given_back(&mut self) -> Vec<GivenBack> {
        let given_back = self.witness.given_back.as_mut();
        given_back.map(std::mem::take).unwrap_or_default()
    }

    /// Applies all changes up to a moment. Moments must not go back by more than the recorder's disorder (ms).
    #[inline]
    pub(crate) fn advance(&mut self, time_ns: u64) {
        if self.changes.is_due(time_ns) {
            self.change(time_ns);
        }
    }

    fn change(&mut self, time_ns: u64) {
        self.recent = [None; 2];
        // Lent out: a change touches all else.
        let mut changes = std::mem::take(&mut self.changes);
        while let Some(change) = changes.next_until(time_ns) {
            self.apply(change);
        }
        self.changes = changes;
    }

    /// Applies the rest: objects that saw no event still have a size.
    pub(crate) fn finish(&mut self) {
        self.advance(u64::MAX);
    }
}
