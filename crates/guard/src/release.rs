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

/// Of all that the C library's `malloc` and plain `new` make on 64-bit processors (`__STDCPP_DEFAULT_NEW_ALIGNMENT__`), bytes.
pub(crate) const USUAL_ALIGNMENT: usize = 16;

/// How an object is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) family: Family,
    /// How long it is said to be.
    pub(crate) bytes: Option<usize>,
    /// What it is said to be aligned to; `None`: it is not looked at.
    pub(crate) alignment: Option<usize>,
}

impl Told {
    /// Nothing is said but the function.
    pub(crate) fn of(family: Family) -> Self {
        Self {
            family,
            bytes: None,
            alignment: None,
        }
    }

    /// Whether it is given back as it was made. Alignments that all objects of C++ have need not be the same.
    fn fits(self, seen: &Seen) -> bool {
        let of = |alignment: usize| alignment.max(USUAL_ALIGNMENT);
        self.family == seen.facts.family
            && self.bytes.is_none_or(|bytes| bytes == seen.placed.bytes)
            && self
                .alignment
                .is_none_or(|alignment| of(alignment) == of(seen.facts.alignment))
    }
}

/// Gives an object back; what is wrong with that is reported.
pub(crate) fn release(address: *mut u8, told: Told, registers: Registers) {
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
            leave(&arena, &seen, told, registers);
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

fn leave(arena: &Arena, seen: &Seen, told: Told, registers: Registers) {
    let slot = arena.slot(seen.number);
    if !told.fits(seen) {
        report::mismatch(seen, told, registers);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placed;
    use crate::slot::Facts;

    #[test]
    fn sizes_and_alignments_fit_those_of_the_object_where_they_are_told() {
        let seen = |bytes: usize, alignment: usize| Seen {
            number: 300,
            facts: Facts {
                state: State::Live,
                family: Family::New,
                alignment,
                bytes,
                is_compacted: false,
            },
            placed: Placed::before(1 << 20, bytes, alignment),
        };
        let told = |bytes: Option<usize>, alignment: usize| Told {
            family: Family::New,
            bytes,
            alignment: Some(alignment),
        };
        for (object, told, fits) in [
            (seen(24, 8), told(None, 0), true),
            (seen(24, 8), told(Some(24), 16), true),
            (seen(24, 8), told(Some(16), 0), false),
            (seen(0, 8), told(Some(1), 0), false),
            (seen(128, 64), told(Some(128), 64), true),
            (seen(128, 64), told(None, 0), false),
            (seen(128, 16), told(None, 64), false),
            (seen(128, 64), told(None, 32), false),
            (seen(128, 64), Told::of(Family::New), true),
            (seen(128, 64), Told::of(Family::NewArray), false),
        ] {
            assert_eq!(told.fits(&object), fits, "{object:?} {told:?}");
        }
    }
}
