//! Objects that stay where they are, as somebody might touch them when the compactor cannot help: the C library's own, in a
//! child between its first instruction and the handlers of `pthread_atfork`, and buffers that devices write to.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::visit_modules;

use super::store;
use crate::paths;
use crate::slot::Slot;

/// Smaller ones that the C library makes are the program's strings (`strdup`); its own, such as `FILE`, are longer.
const LEAST_OF_C_LIBRARY: usize = 64;
/// Of objects with such an alignment: buffers that go around the page cache (`O_DIRECT`).
const LEAST_ALIGNMENT: usize = 512;

/// Where the C library and the loader are.
static PLACES: [[AtomicUsize; 2]; 2] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 2];

/// Finds the two.
pub(super) fn prepare() {
    let inside = libc::gnu_get_libc_version as *const () as usize;
    // SAFETY: no preconditions.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) as usize };
    visit_modules(&mut |module| {
        let (start, end) = module.code;
        let which = if (start..end).contains(&inside) {
            0
        } else if loader != 0 && module.bias == loader {
            1
        } else {
            return;
        };
        PLACES[which][0].store(start, Ordering::Relaxed);
        PLACES[which][1].store(end, Ordering::Relaxed);
    });
}

fn is_in(place: &[AtomicUsize; 2], address: usize) -> bool {
    (place[0].load(Ordering::Relaxed)..place[1].load(Ordering::Relaxed)).contains(&address)
}

/// Whether an object may be compacted, by its size and who made it. What is not known may not.
pub(super) fn may_go(slot: &Slot) -> bool {
    let facts = slot.facts();
    // Without bytes it has no page.
    if facts.bytes == 0 || facts.bytes > store::MOST_BYTES || facts.alignment >= LEAST_ALIGNMENT {
        return false;
    }
    paths::caller(slot.made.load(Ordering::Relaxed)).is_some_and(|caller| {
        let is_own = is_in(&PLACES[0], caller) && facts.bytes >= LEAST_OF_C_LIBRARY;
        !is_own && !is_in(&PLACES[1], caller)
    })
}
