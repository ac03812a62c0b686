//! Faults inside calls that allocate. A block is told of when the call has made it; by then `calloc` has written its zeros
//! and `realloc` has copied what the old block held, which was released before.
//!
//! What proves that a call is under way is the fault's call path: it goes through the preloaded library. Which call it is,
//! the next allocation says of which the same thread tells, if it was called from the same place; by its address it
//! also says whether the page is its own. Small calls in between may not be told of, as they are sampled: they are made from
//! elsewhere, or their pages are not in that block, or the site is the same, and then so is the object.

use pagewise_trace::AllocationKind;
use pagewise_trace::Event;

use super::Spaces;
use super::replay::range_of;
use crate::address_map::Range;
use crate::layers::Layers;

impl Spaces {
    /// The block that is being made, or copied from, in this fault; `None`: it is in no such call, or which is unknown.
    pub(super) fn in_call(&self, event: &Event) -> Option<Range> {
        let (stack, tid) = (event.stack?, event.tid?);
        if !self.paths.is_in_call(stack) {
            return None;
        }
        let (start, end) = self.page_of(event.address);
        let layers = self.layers.get(&event.space);
        let in_use = |layers: &Layers| layers.blocks.exact.overlapping(start, end).next().is_some();
        if layers.is_some_and(in_use) {
            return None;
        }
        let made = self.changes.next_of_thread(event.space, tid)?;
        if !self.paths.is_same_call(stack, made.stack?) {
            return None;
        }
        let range = range_of(made, self.catalogue.of_allocation(made)?);
        if range.start < end && range.end > start {
            return Some(range);
        }
        match made.kind {
            AllocationKind::Realloc => copied_from(layers?, start, end),
            _ => None,
        }
    }
}

/// Of the blocks freed last, the last on the page.
fn copied_from(layers: &Layers, start: u64, end: u64) -> Option<Range> {
    let mut freed = layers.freed.iter().rev();
    let on_page = |range: &&Range| range.start < end && range.end > start;
    freed.find(on_page).copied()
}
