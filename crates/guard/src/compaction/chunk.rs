//! What the compactor does to objects: those of a chunk go to the store, one comes back.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::pinned;
use super::store;
use super::tally;
use crate::arena::Arena;
use crate::arena::CHUNK;
use crate::arena::MOST_CHUNKS;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::checks;
use crate::page;
use crate::placement::Placed;
use crate::plain;
use crate::slot::Slot;
use crate::slot::State;
use crate::system;
use crate::userfault::Userfault;

/// The kind of chunks whose objects are of one page: the first class.
const OF_ONE_PAGE: u8 = 1;
/// Pages of a chunk, at most.
const MOST_PAGES: usize = CHUNK / 4096;

/// Chunks whose missing pages are ours.
static IS_REGISTERED: [AtomicBool; MOST_CHUNKS] = [const { AtomicBool::new(false) }; MOST_CHUNKS];

fn range(arena: &Arena, chunk: usize, chunks: usize) -> (usize, usize) {
    (arena.address_of_chunk(chunk), chunks * CHUNK)
}

/// Visits the ranges that are registered, each as long as it is.
pub(super) fn visit_registered(arena: &Arena, visit: &mut dyn FnMut(usize, usize) -> bool) -> bool {
    let is_in = |chunk: usize| IS_REGISTERED[chunk].load(Ordering::Relaxed);
    let mut chunk = 0;
    while chunk < tally::end() {
        let first = chunk;
        while chunk < tally::end() && is_in(chunk) {
            chunk += 1;
        }
        let (start, bytes) = range(arena, first, chunk - first);
        if bytes > 0 && !visit(start, bytes) {
            return false;
        }
        chunk += usize::from(chunk == first);
    }
    true
}

fn is_registered(arena: &Arena, userfault: &Userfault, chunk: usize) -> bool {
    let (start, bytes) = range(arena, chunk, 1);
    let is_known = IS_REGISTERED[chunk].load(Ordering::Relaxed);
    if !is_known && userfault.register(start, bytes, true) {
        IS_REGISTERED[chunk].store(true, Ordering::Relaxed);
        return true;
    }
    is_known
}

fn slots(chunk: usize) -> std::ops::Range<Number> {
    let first = (chunk * SLOTS) as Number;
    first..first + Arena::slots_of_class(0) as Number
}

/// The object of a slot, if it may go to the store now.
fn candidate(arena: &Arena, number: Number) -> Option<(&'static Slot, Placed)> {
    let slot = arena.slot(number);
    let facts = slot.facts();
    let is_one = facts.state == State::Live && !facts.is_compacted && pinned::may_go(slot);
    is_one.then(|| (slot, arena.object(number, facts)))
}

/// Pages that are to be given up, a few at a time.
struct Dropped {
    pages: [(usize, usize); system::MOST_RANGES],
    count: usize,
}

impl Dropped {
    fn push(&mut self, page: usize) {
        self.pages[self.count] = (page, page::bytes());
        self.count += 1;
        if self.count == self.pages.len() {
            self.flush();
        }
    }

    /// A page that cannot be given up stays in place of its copy: nobody misses it then.
    fn flush(&mut self) {
        let pages = &self.pages[..std::mem::take(&mut self.count)];
        if !pages.is_empty() && !system::drop_many(pages) {
            for &(start, bytes) in pages {
                system::drop_pages(start, bytes);
            }
        }
    }
}

/// All objects of a chunk go to the store that may. Whoever writes to one meanwhile waits; whoever gives one back waits until
/// the compactor is at another chunk.
pub(super) fn evict(arena: &Arena, userfault: &Userfault, chunk: usize) {
    if arena.kind(chunk) != OF_ONE_PAGE
        || !slots(chunk).any(|number| candidate(arena, number).is_some())
        || !is_registered(arena, userfault, chunk)
    {
        return;
    }
    let (start, bytes) = range(arena, chunk, 1);
    let mut is_there = [0u8; MOST_PAGES];
    if userfault.protect(start, bytes, true) && system::are_resident(start, bytes, &mut is_there) {
        let mut dropped = Dropped {
            pages: [(0, 0); system::MOST_RANGES],
            count: 0,
        };
        for number in slots(chunk) {
            let Some((slot, placed)) = candidate(arena, number) else {
                continue;
            };
            let page = placed.first_page();
            // What the system swapped out takes no memory. What was written around an object is told when it is given back.
            let is_resident = is_there[(page - start) / page::bytes()] & 1 != 0;
            if !is_resident || checks::damage(&placed).is_some() {
                continue;
            }
            // SAFETY: an object that is alive, whose page is there; nobody gives it up while we are at its chunk.
            let Some(entry) = (unsafe { store::keep(placed.start, placed.bytes) }) else {
                break;
            };
            slot.link.store(entry, Ordering::Relaxed);
            if slot.set_compacted(true) {
                tally::went_to_store(chunk, placed.bytes, page::bytes());
                dropped.push(page);
            } else {
                store::give_back(entry, placed.bytes);
            }
        }
        dropped.flush();
    }
    userfault.protect(start, bytes, false);
}

/// Puts an object's bytes where they belong on a page of padding.
pub(super) fn rebuild(slot: &Slot, placed: &Placed, page: *mut u8) {
    let entry = slot.link.load(Ordering::Relaxed);
    let offset = placed.start - placed.first_page();
    // SAFETY: a page to write to; an entry of that many bytes.
    unsafe {
        plain::copy(
            page.add(offset),
            store::address(entry) as *const u8,
            placed.bytes,
        )
    };
}

/// Gives a missing page what belongs there; who waits for it is to be woken then. `scratch`: a page of padding to build it on; `zeros`: one full of them.
pub(super) fn give(
    arena: &Arena,
    userfault: &Userfault,
    page: usize,
    scratch: *mut u8,
    zeros: *const u8,
) {
    let Some(number) = arena.find(page) else {
        return;
    };
    let slot = arena.slot(number);
    let facts = slot.facts();
    let placed = arena.object(number, facts);
    let is_alive = facts.state == State::Live;
    if is_alive && facts.is_compacted && page == placed.first_page() {
        rebuild(slot, &placed, scratch);
        let given = userfault.give(page, scratch);
        checks::fill_again(scratch, placed.start - page, placed.bytes);
        if given.is_there() {
            came_back(slot, &placed, super::chunk_of(number));
        }
    } else if slot.may_be_zeros() {
        userfault.give(page, zeros);
    }
    // Else a guard is there, or will be at once.
}

/// Notes that an object's page is there again. Whoever gives it back at this moment sees to the store.
pub(super) fn came_back(slot: &Slot, placed: &Placed, chunk: usize) {
    let entry = slot.link.load(Ordering::Relaxed);
    if slot.set_compacted(false) {
        store::give_back(entry, placed.bytes);
        tally::came_back(chunk, placed.bytes, page::bytes());
    }
}
