//! Whose page it is.

use pagewise_trace::Event;
use pagewise_trace::EventKind;

use super::PAGE_BITS;
use super::Place;
use super::Spaces;
use crate::address_map::Range;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::layers::Layers;

/// Which of the [recent](Spaces) blocks an event looks at.
fn kind_of(event: &Event) -> usize {
    usize::from(event.kind == EventKind::SwapIn)
}

impl Spaces {
    /// Whose page this event was on, now, and where there.
    pub(crate) fn place_of(&mut self, event: &Event) -> Place {
        match self.recent_block(event) {
            Some(range) => self.place(range, event.address),
            None => self.look_for(event),
        }
    }

    /// Whose page this event was on, now.
    #[inline]
    pub(crate) fn object_of(&mut self, event: &Event) -> usize {
        match self.recent_block(event) {
            Some(range) => range.object,
            None => self.look_for(event).object,
        }
    }

    #[inline]
    fn recent_block(&self, event: &Event) -> Option<&Range> {
        let (start, end) = self.page_of(event.address);
        match &self.recent[kind_of(event)] {
            Some((space, range)) => {
                let holds = *space == event.space && range.start <= start && end <= range.end;
                holds.then_some(range)
            }
            None => None,
        }
    }

    fn look_for(&mut self, event: &Event) -> Place {
        let (start, end) = self.page_of(event.address);
        let layers = self.layers.get(&event.space);
        if let Some(&range) = layers.and_then(|layers| layers.blocks.exact.holding(start, end)) {
            self.recent[kind_of(event)] = Some((event.space, range));
            return self.place(&range, event.address);
        }
        match self.in_call(event) {
            Some(range) => self.place(&range, event.address),
            None => self.find_shared(event.space, event.address, event.kind),
        }
    }

    #[inline]
    pub(super) fn page_of(&self, address: u64) -> (u64, u64) {
        let start = address & !(self.page_bytes - 1);
        (start, start.saturating_add(self.page_bytes))
    }

    /// Whose page this is, now, for an event of this kind. A page that several objects share is now the one's, now the
    /// other's.
    pub(crate) fn find(&mut self, space: u32, address: u64, kind: EventKind) -> Place {
        let (start, end) = self.page_of(address);
        let layers = self.layers.get(&space);
        // Most pages of most traces, so it is looked for first: one block has all of it.
        match layers.and_then(|layers| layers.blocks.exact.holding(start, end)) {
            Some(range) => self.place(range, address),
            None => self.find_shared(space, address, kind),
        }
    }

    /// Whose page this is, if no block has all of it.
    fn find_shared(&mut self, space: u32, address: u64, kind: EventKind) -> Place {
        let (start, end) = self.page_of(address);
        let Some(layers) = self.layers.get(&space) else {
            return self.place_of_none(self.catalogue.unknown(), address);
        };
        let page = match self.known_pages.get(space, start) {
            Some(page) => page,
            None => {
                let around = layers.surroundings(start, self.page_bytes, self.reach);
                let blocks = &layers.blocks;
                let page = blocks.page(start, self.page_bytes, around, &self.rates);
                self.known_pages.note(space, start, page)
            }
        };
        let given = self.apportion.give(kind, &page.shares);
        let (estimated, has_exact) = (page.estimated, page.has_exact);
        if let Some(object) = given {
            let exact = has_exact.then(|| layers.blocks.exact.overlapping(start, end));
            let mut exact = exact.into_iter().flatten();
            let place = match exact.find(|range| range.object == object) {
                Some(range) => self.place(range, address),
                None => self.place_of_none(object, address),
            };
            return Place { estimated, ..place };
        }
        match layers.known_mapping(address, self.page_bytes) {
            Some(range) => self.place(range, address),
            None => self.beyond_mappings(layers, address),
        }
    }

    /// Whose the page at this address is, as far as that is known for certain, and up to where the pages after it are
    /// the same object's.
    pub(crate) fn find_run(&self, space: u32, address: u64) -> (usize, u64) {
        let Some(layers) = self.layers.get(&space) else {
            return (self.catalogue.unknown(), u64::MAX);
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

    /// Notes an event, on the way through that only learns.
    pub(super) fn learn(&mut self, space: u32, address: u64) {
        self.heat.tick();
        let (start, _) = self.page_of(address);
        if let Some(layers) = self.layers.get(&space) {
            layers.blocks.learn(start, self.page_bytes, &mut self.heat);
        }
    }

    #[inline]
    fn place(&self, range: &Range, address: u64) -> Place {
        let page = |address: u64| address >> self.page_shift;
        let offset = page(address).wrapping_sub(page(range.origin));
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
            page: address >> self.page_shift,
            within: false,
            stack: self.catalogue.stack(object),
            estimated: false,
        }
    }

    /// A page of no listed mapping.
    fn beyond_mappings(&self, layers: &Layers, address: u64) -> Place {
        let object = self.grown_heap(layers, address);
        match layers.heap_start {
            // Counted as it was before the heap grew.
            Some(start) if object != self.catalogue.unknown() => {
                self.place(&Range::whole(start, address, object), address)
            }
            _ => self.place_of_none(object, address),
        }
    }

    /// What a page of no listed mapping is: the heap, grown since, or nobody's.
    fn grown_heap(&self, layers: &Layers, address: u64) -> usize {
        let heap = layers
            .is_in_heap(address)
            .then(|| self.catalogue.find(&Identity::plain(ObjectKind::Heap)))
            .flatten();
        heap.unwrap_or(self.catalogue.unknown())
    }
}
