//! What each change does to an address space.

use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Mapping;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Space;

use super::SmallBlocks;
use super::Spaces;
use super::changes::Change;
use super::witness::BLOCKS;
use super::witness::GLOBALS;
use super::witness::MAPPINGS;
use super::witness::MMAPS;
use crate::address_map::AddressMap;
use crate::address_map::Range;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::layers::Gone;
use crate::layers::Layers;

impl Spaces {
    pub(super) fn apply(&mut self, change: &Change) {
        let mut layers = self.layers.remove(&change.space()).unwrap_or_default();
        match change {
            Change::Fork(child) => layers = self.fork(child, layers),
            Change::Mapping(mapping) => self.map(&mut layers, mapping),
            Change::Allocation(allocation) => self.allocate(&mut layers, allocation),
            Change::Release(release) => self.release(&mut layers, release),
            Change::Move(moved) => self.move_range(&mut layers, moved),
            // What lies where stays: its last events may come late.
            Change::End(_, space) => self.extents.end(*space),
        }
        self.layers.insert(change.space(), layers);
    }

    /// A child has what its parent has, but its own globals, which were placed before all.
    fn fork(&mut self, child: &Space, own: Layers) -> Layers {
        self.known_pages.forget();
        let parent = child
            .parent_space
            .and_then(|parent| self.layers.get(&parent));
        let mut layers = parent.cloned().unwrap_or_default();
        let mut copied = vec![
            (BLOCKS, layers.blocks.exact.clone()),
            (MMAPS, layers.mmaps.clone()),
            (MAPPINGS, layers.mappings.clone()),
        ];
        if own.globals.ranges().next().is_some() {
            layers.globals = own.globals;
        } else {
            copied.push((GLOBALS, layers.globals.clone()));
        }
        for (layer, map) in copied {
            let ranges: Vec<Range> = map.ranges().copied().collect();
            let at = (child.begin_ns, child.space);
            self.witness.note(at, layer, &ranges, true);
        }
        layers
    }

    fn map(&mut self, layers: &mut Layers, mapping: &Mapping) {
        self.known_pages.forget();
        let identity = Identity::of_mapping(&mapping.path);
        if identity.kind == ObjectKind::Heap {
            let start = *layers.heap_start.get_or_insert(mapping.start);
            self.forget_samples_of_heap(layers, (mapping.time_ns, mapping.space), start);
        }
        let object = self.catalogue.number(identity);
        let (start, end) = (mapping.start, mapping.end.max(mapping.start));
        let range = Range::whole(start, end, object);
        let at = (mapping.time_ns, mapping.space);
        let gone = layers.mappings.insert(range);
        self.witness.note(at, MAPPINGS, &gone, false);
        self.witness.note(at, MAPPINGS, &[range], true);
        self.shrink(mapping.space, &layers.mappings, &gone);
        let beside = layers.mappings.beside(&range, self.page_bytes);
        self.extents.of(object).grow(mapping.space, &range, beside);
    }

    /// Where the heap is one object, samples in it say nothing; those before it was first listed are taken back.
    fn forget_samples_of_heap(&mut self, layers: &mut Layers, at: (u64, u32), start: u64) {
        if self.small_blocks == SmallBlocks::BySite {
            return;
        }
        let heap = self.catalogue.number(Identity::plain(ObjectKind::Heap));
        for (room, used) in layers
            .thread_heaps
            .remove(start, layers.end_of_heap(), heap)
        {
            layers.mappings.remove(room.start, room.end);
            self.witness.note(at, MAPPINGS, &[used], false);
            self.extents.of(heap).shrink(at.1, &used, 0);
        }
        let gone = Gone {
            samples: layers.blocks.samples.remove(start, layers.end_of_heap()),
            ..Gone::default()
        };
        self.forget(at, layers, &gone);
    }

    fn allocate(&mut self, layers: &mut Layers, allocation: &Allocation) {
        let known = self.catalogue.of_allocation(allocation);
        let object = known.unwrap_or_else(|| self.catalogue.nameless(allocation.stack));
        let range = range_of(allocation, object);
        let at = (allocation.time_ns, allocation.space);
        // What it covers must have been released without our being told.
        let mut gone = Gone {
            blocks: layers.blocks.exact.remove(range.start, range.end),
            samples: layers.blocks.samples.remove(range.start, range.end),
            mmaps: Vec::new(),
        };
        let is_sampled = allocation.estimated_bytes.is_some();
        if is_sampled
            && self.small_blocks == SmallBlocks::OneHeap
            && self.is_in_a_heap(layers, at, &range)
        {
            return self.forget(at, layers, &gone);
        }
        let layer = match (allocation.kind, is_sampled) {
            (AllocationKind::Mmap | AllocationKind::Brk, _) => {
                gone.mmaps.extend(layers.mmaps.insert(range));
                self.known_pages.forget();
                Some(MMAPS)
            }
            (_, true) => {
                gone.samples.extend(layers.blocks.samples.insert(range));
                None
            }
            (_, false) => {
                gone.blocks.extend(layers.blocks.exact.insert(range));
                Some(BLOCKS)
            }
        };
        self.forget(at, layers, &gone);
        self.known_pages
            .change(allocation.space, range.start, range.end);
        if let Some(layer) = layer {
            self.witness.note(at, layer, &[range], true);
        }
        if range.is_sample() {
            let pages = range.pages(self.page_bytes) as f64;
            self.heat.change_pages(object, pages);
        }
        let beside = match layer {
            Some(MMAPS) => &layers.mmaps,
            Some(_) => &layers.blocks.exact,
            None => &layers.blocks.samples,
        }
        .beside(&range, self.page_bytes);
        let extent = self.extents.of(object);
        extent.grow(allocation.space, &range, beside);
        extent.allocations += range.allocations();
        extent.sampled |= is_sampled;
    }

    /// Whether a small block lies in the heap, or in one of a thread's, which is the same object from here on.
    fn is_in_a_heap(&mut self, layers: &mut Layers, at: (u64, u32), block: &Range) -> bool {
        if layers.is_in_heap(block.start) {
            return true;
        }
        let is_known = layers.thread_heaps.is_known(block.start);
        if !is_known && !layers.may_be_thread_heap(block.start) {
            return false;
        }
        let heap = self.catalogue.number(Identity::plain(ObjectKind::Heap));
        if !is_known {
            let room = layers.thread_heaps.add(block.start, heap);
            layers.mappings.insert(room);
            self.known_pages.forget();
        }
        if let Some((piece, beside)) = layers.thread_heaps.grow(block, heap) {
            self.witness.note(at, MAPPINGS, &[piece], true);
            self.extents.of(heap).grow(at.1, &piece, beside);
        }
        true
    }

    fn release(&mut self, layers: &mut Layers, release: &Release) {
        let at = (release.time_ns, release.space);
        let gone = match release.bytes {
            None => {
                let gone = layers.free(release.address);
                self.witness
                    .give_back_mapped(release.space, &gone.blocks, self.page_bytes);
                gone
            }
            Some(bytes) => {
                let end = release.address.saturating_add(bytes);
                self.give_back(release.space, release.address, end);
                layers.unmap(release.address, bytes)
            }
        };
        self.forget(at, layers, &gone);
    }

    fn move_range(&mut self, layers: &mut Layers, moved: &Move) {
        let end = moved.new_address.saturating_add(moved.new_bytes);
        let at = (moved.time_ns, moved.space);
        let gone = layers.unmap(moved.old_address, moved.old_bytes);
        self.forget(at, layers, &gone);
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
            whole_bytes: moved.new_bytes,
            ..*first
        };
        let covered = layers.mmaps.insert(range);
        self.known_pages.forget();
        self.witness.note(at, MMAPS, &covered, false);
        self.witness.note(at, MMAPS, &[range], true);
        let beside = layers.mmaps.beside(&range, self.page_bytes);
        self.extents
            .of(first.object)
            .grow(moved.space, &range, beside);
    }

    fn give_back(&mut self, space: u32, start: u64, end: u64) {
        self.witness.give_back(space, (start, end), self.page_bytes);
    }

    fn forget(&mut self, at: (u64, u32), layers: &Layers, gone: &Gone) {
        if !gone.mmaps.is_empty() {
            self.known_pages.forget();
        }
        for range in gone.blocks.iter().chain(&gone.samples) {
            self.known_pages.change(at.1, range.start, range.end);
        }
        self.witness.note(at, BLOCKS, &gone.blocks, false);
        self.witness.note(at, MMAPS, &gone.mmaps, false);
        for (map, ranges) in [
            (&layers.mmaps, &gone.mmaps),
            (&layers.blocks.exact, &gone.blocks),
            (&layers.blocks.samples, &gone.samples),
        ] {
            self.shrink(at.1, map, ranges);
        }
    }

    /// What has gone out of a map, by address.
    fn shrink(&mut self, space: u32, map: &AddressMap, gone: &[Range]) {
        for (index, range) in gone.iter().enumerate() {
            // One after the other: the next one is still there.
            let next = gone.get(index + 1);
            let has_next = next.is_some_and(|next| range.is_right_below(next, self.page_bytes));
            let beside = map.beside(range, self.page_bytes) + usize::from(has_next);
            self.extents.of(range.object).shrink(space, range, beside);
            if range.is_sample() {
                let pages = range.pages(self.page_bytes);
                self.heat.change_pages(range.object, -(pages as f64));
            }
        }
    }
}

/// Where an allocation lies, as one of that object.
pub(super) fn range_of(allocation: &Allocation, object: usize) -> Range {
    let (start, bytes) = (allocation.address, allocation.bytes);
    Range {
        start,
        end: start.saturating_add(bytes),
        object,
        allocation: allocation.allocation,
        stack: allocation.stack,
        origin: start,
        stands_for: allocation.estimated_bytes.unwrap_or(bytes),
        whole_bytes: bytes,
    }
}
