//! Objects given back, each step in the order that a fault at any moment can be told from.

use std::sync::atomic::Ordering;

use pagewise_abi::guard::Family;
use pagewise_interpose::Registers;
use pagewise_interpose::keeping_errno;

use crate::arena::Arena;
use crate::arena::Number;
use crate::checks;
use crate::compaction;
use crate::heap;
use crate::heap::Seen;
use crate::page;
use crate::pages;
use crate::paths;
use crate::protect;
use crate::recycle;
use crate::report;
use crate::slot::Event;
use crate::slot::State;
use crate::unguarded;

/// Gives an object back; what is wrong with that is reported.
pub(crate) fn release(address: *mut u8, family: Family, registers: Registers) {
    if address.is_null() {
        return;
    }
    keeping_errno(|| {
        let Some(seen) = heap::look(address as usize) else {
            if !unguarded::release(address as usize) {
                report::invalid_free(address as usize, None, registers);
            }
            return;
        };
        if let Some(arena) = heap::arena()
            && is_begin(address as usize, &seen, registers)
        {
            leave(&arena, &seen, family, registers);
        }
    });
}

/// Whether it is the begin of an object that may be given back.
pub(crate) fn is_begin(address: usize, seen: &Seen, registers: Registers) -> bool {
    match seen.facts.state {
        State::Fresh => report::invalid_free(address, None, registers),
        _ if address != seen.placed.start => report::invalid_free(address, Some(seen), registers),
        State::Live => return true,
        State::Leaving | State::Freed => report::double_free(seen, registers),
    }
    false
}

fn leave(arena: &Arena, seen: &Seen, family: Family, registers: Registers) {
    let slot = arena.slot(seen.number);
    if seen.facts.family != family {
        report::mismatch(seen, family, registers);
    }
    let Some(facts) = slot.step(Event::Leaves) else {
        report::double_free(seen, registers);
        return;
    };
    // What is in the store was looked at when it went there.
    let is_there = !compaction::leaves(arena, seen, facts, seen.placed.open_bytes());
    if is_there {
        checks::fetch(&seen.placed);
    }
    let path = paths::number_of_callers(registers);
    let damage = is_there.then(|| checks::damage(&seen.placed)).flatten();
    if let Some(address) = damage {
        report::damage(seen, address, registers);
    }
    slot.freed.store(path, Ordering::Relaxed);
    // Padding that was written over would be the next object's.
    let next = match damage {
        None => pass_page_on(arena, seen),
        Some(_) => None,
    };
    if next.is_none() {
        close(arena, seen);
    }
    slot.step(Event::Left);
    heap::enqueue(seen.number, seen.placed.bytes, next);
}

fn close(arena: &Arena, seen: &Seen) {
    let extent = arena.extent(seen.number);
    if pages::was_opened() {
        pages::close(extent.begin, extent.end);
    } else {
        pages::close_left(seen.number, seen.placed.first_page(), seen.placed.guard);
    }
}

/// Moves an object's page to a slot that is to be handed out next, which is returned; `None`: it is still there.
fn pass_page_on(arena: &Arena, seen: &Seen) -> Option<Number> {
    let is_movable = seen.placed.open_bytes() == page::bytes()
        && recycle::covers(seen.number)
        && protect::are_all_regions()
        && !pages::was_opened();
    let next = if is_movable {
        heap::take_bare()?
    } else {
        return None;
    };
    checks::fill_object(&seen.placed);
    let is_moved = recycle::carry(arena, seen.placed.first_page(), arena.extent(next).begin);
    if !is_moved {
        heap::give_bare_back(next);
    }
    is_moved.then_some(next)
}
