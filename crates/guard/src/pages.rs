//! Which pages of slots can be touched: guards taken away when objects are made, put back when they leave, and what is done where
//! a touch finds a page missing.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::arena::CHUNK;
use crate::arena::Extent;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::compaction;
use crate::heap;
use crate::ledger::Ledger;
use crate::ledger::MOST_AHEAD;
use crate::page;
use crate::placement::Placed;
use crate::protect;
use crate::recycle;
use crate::settings;
use crate::slot::State;
use crate::system;
use crate::userfault::Given;

/// An address that was missing and was there when it was to be given.
static CURED_LAST: AtomicUsize = AtomicUsize::new(0);
/// Guards were taken away so that the program goes on.
static WAS_OPENED: AtomicBool = AtomicBool::new(false);

/// Whether guards were taken away so that the program goes on.
pub(crate) fn was_opened() -> bool {
    WAS_OPENED.load(Ordering::Relaxed)
}

/// Guards the pages from `begin` to `end`. False: the kernel refuses.
pub(crate) fn close(begin: usize, end: usize) -> bool {
    protect::close(begin, end - begin, heap::bounds())
}

/// Guards an object's pages as it leaves: where missing pages are guards, that is cheaper.
pub(crate) fn close_left(number: Number, begin: usize, end: usize) -> bool {
    recycle::covers(number) && system::drop_pages(begin, end - begin) || close(begin, end)
}

/// Guards a slot's pages.
pub(crate) fn close_slot(arena: &Arena, number: Number) {
    let extent = arena.extent(number);
    close(extent.begin, extent.guard);
}

/// The pages of slots of one page, as ranges, and how many there are.
fn pages_of(arena: &Arena, slots: &[Number]) -> ([(usize, usize); MOST_AHEAD], usize) {
    let mut pages = [(0, 0); MOST_AHEAD];
    for (page, &number) in pages.iter_mut().zip(slots) {
        *page = (arena.extent(number).begin, page::bytes());
    }
    (pages, slots.len())
}

/// Makes slots of a page accessible, all at once, and memory where that is no risk.
pub(crate) fn open_ahead(arena: &Arena, slots: &[Number]) -> bool {
    for &number in slots {
        compaction::opens(arena, number, number + 1);
    }
    let (pages, count) = pages_of(arena, slots);
    let pages = &pages[..count];
    let is_covered = |number: &Number| recycle::covers(*number);
    if slots.iter().any(is_covered) {
        return slots.iter().all(is_covered) && open_covered(arena, pages);
    }
    // The ledger is held here: with a compactor, who may be waiting for a thread that waits for the ledger, no page is touched.
    let is_alone = settings::memory().is_none();
    protect::open_many(pages, is_alone)
}

/// Gives covered slots their pages, full of padding, in place of their guards if they have any; all or none.
pub(crate) fn open_covered(arena: &Arena, pages: &[(usize, usize)]) -> bool {
    let is_done = pages
        .iter()
        .all(|&(page, _)| recycle::give_padding(arena, page));
    if !is_done {
        pages.iter().for_each(|&(page, bytes)| {
            close(page, page + bytes);
        });
    }
    is_done
}

/// Readies slots that keep no guards: only where missing pages are guards. The first `fresh` of them have one, which is taken away;
/// of the others hardly any, which shows when a page is to be moved there.
pub(crate) fn unguard(arena: &Arena, slots: &[Number], fresh: usize) -> bool {
    let (pages, _) = pages_of(arena, slots);
    let are_covered = slots.iter().all(|&number| recycle::covers(number));
    let is_done = are_covered && (fresh == 0 || unguard_pages(&pages[..fresh]));
    if is_done {
        slots
            .iter()
            .for_each(|&number| arena.slot(number).announce());
    }
    is_done
}

/// Takes guards away, all at once where the kernel does that.
fn unguard_pages(pages: &[(usize, usize)]) -> bool {
    let one_by_one = |&(page, bytes): &(usize, usize)| protect::open(page, bytes);
    protect::open_many(pages, false) || pages.iter().all(one_by_one)
}

/// Missing pages are no guards any more: all that wait get guards.
#[cold]
pub(crate) fn close_waiting(arena: &Arena, ledger: &Ledger) {
    ledger.visit_waiting(&mut |number| {
        close_slot(arena, number);
    });
}

/// Makes an object's pages accessible. What else there is of a large one's slot is guarded then, too: before it, if its
/// alignment is more than a page, and behind.
pub(crate) fn open(placed: &Placed, large: Option<Extent>) -> bool {
    if !protect::open(placed.first_page(), placed.open_bytes()) {
        return false;
    }
    match large {
        Some(slot) => close(slot.begin, placed.first_page()) && close(placed.guard, slot.end),
        None => true,
    }
}

/// Takes the guard away from the page of an address, so that the program goes on. The page is closed again when its slot's
/// object is given back.
pub(crate) fn let_pass(address: usize) -> bool {
    WAS_OPENED.store(true, Ordering::Relaxed);
    if let (Some(arena), Some(seen)) = (heap::arena(), heap::look(address)) {
        compaction::opens(&arena, seen.number, seen.number + 1);
    }
    let page = page::floor(address);
    if !protect::open(page, page::bytes()) {
        return false;
    }
    match heap::arena().filter(|arena| is_covered(arena, page)) {
        // Who else met it may have written there already.
        Some(arena) => recycle::give_zeros(&arena, page).is_there(),
        None => true,
    }
}

/// Whether an address is in a chunk whose missing pages are guards.
fn is_covered(arena: &Arena, address: usize) -> bool {
    let chunk = address.wrapping_sub(arena.base) / CHUNK;
    chunk < arena.chunks && recycle::covers((chunk * SLOTS) as Number)
}

/// A touch of a missing page was SIGBUS. A page of a live object, whose memory the program gave up by itself (`MADV_DONTNEED`),
/// is zeros again; any other is guarded, so that the fault comes again as one of a guard's. False: nothing
/// was missing.
pub(crate) fn cure_missing(address: usize) -> bool {
    let Some(arena) = heap::arena().filter(|arena| is_covered(arena, address)) else {
        return false;
    };
    let Some(seen) = heap::look(address) else {
        return false;
    };
    let page = page::floor(address);
    if seen.facts.state != State::Live {
        // Under the lock, so that it is not handed out meanwhile; not where a page is on its way.
        return heap::with_ledger(|_| {
            let slot = arena.slot(seen.number);
            slot.facts().state != State::Live
                && !slot.is_announced()
                && close(page, page + page::bytes())
        })
        .unwrap_or(false);
    }
    let is_its = (seen.placed.first_page()..seen.placed.guard).contains(&address);
    if !is_its {
        return false;
    }
    match recycle::give_zeros(&arena, page) {
        Given::Now => CURED_LAST.store(0, Ordering::Relaxed),
        // By another thread meanwhile; the same again is another fault (a device that fails).
        Given::Before if CURED_LAST.swap(address, Ordering::Relaxed) != address => {}
        _ => return false,
    }
    true
}
