//! Compaction: when the pages of objects take more memory than they may, small objects that were not used lately are kept in
//! a store that holds their bytes alone, and their pages are given up. Who touches one waits until it is back.
//!
//! ```text
//!   heap: made, leave --> counts: over the limit? -- doorbell --> compactor (a thread of ours, once needed)
//!   a touch of a missing page ---------- userfaultfd ---------->     |-> restore: one page
//!                                                                    '-> evict: a chunk's objects -> store
//! ```
//!
//! Only the compactor changes what is where. It says at which chunk it is before it looks at a slot's state, and who gives an
//! object back changes the state before looking where the compactor is: so one of the two sees the other, and waits or leaves
//! the slot alone. Nothing here takes a lock that the compactor could wait for.

mod chunk;
mod compactor;
#[cfg(test)]
mod model;
mod pinned;
mod schedule;
mod store;
mod tally;
mod thread;
mod watch;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use pagewise_interpose::let_others;

use crate::arena::Arena;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::heap::Seen;
use crate::paths;
use crate::settings;
use crate::slot::Facts;

pub(crate) use self::compactor::place_of_thread;
pub(crate) use self::compactor::status;
pub(crate) use self::store::bytes as store_bytes;
pub(crate) use self::store::place as place_of_store;
pub(crate) use self::tally::told;

/// The chunk at which the compactor is, plus 1; 0: at none.
static AT: AtomicU32 = AtomicU32::new(0);
/// The thread for which nothing is to change but what it touches itself; 0: none.
static HELD_BY: AtomicU32 = AtomicU32::new(0);

/// Looks up what is asked for later, while that may take a lock.
pub(crate) fn prepare() {
    if settings::memory().is_some() {
        pinned::prepare();
        schedule::prepare();
    }
}

fn chunk_of(number: Number) -> usize {
    number as usize / SLOTS
}

/// Waits until the compactor is at another chunk. What it does there is short, and waits for nobody.
fn wait_while_at(is_there: impl Fn(u32) -> bool) {
    fence(Ordering::SeqCst);
    while is_there(AT.load(Ordering::SeqCst)) {
        let_others();
    }
}

/// Slots whose pages are about to be opened: if they are missing they are zeros.
pub(crate) fn opens(arena: &Arena, from: Number, to: Number) {
    if settings::memory().is_some() {
        (from..to).for_each(|number| arena.slot(number).announce());
    }
}

/// An object was made, of so many bytes of pages. Over the limit, waits until there is room.
pub(crate) fn made(arena: &Arena, number: Number, bytes: usize) {
    let Some(limit) = settings::memory() else {
        return;
    };
    schedule::note_this_thread();
    if !arena.is_large(number) {
        tally::came(chunk_of(number), bytes);
        if tally::is_over(limit) {
            compactor::ask_for_room(arena);
        }
    }
}

/// An object is given back: its state says so already. Returns whether its bytes were in the store, which they leave; else
/// its pages stay untouched from now on.
pub(crate) fn leaves(arena: &Arena, seen: &Seen, facts: Facts, bytes: usize) -> bool {
    if settings::memory().is_none() || arena.is_large(seen.number) {
        return false;
    }
    let chunk = chunk_of(seen.number);
    wait_while_at(|at| at == chunk as u32 + 1);
    if facts.is_compacted {
        tally::left_store(seen.placed.bytes);
        store::give_back(
            arena.slot(seen.number).link.load(Ordering::Relaxed),
            seen.placed.bytes,
        );
    } else {
        tally::went(chunk, bytes);
    }
    facts.is_compacted
}

/// Nothing changes until [`go_on`] but what this thread touches itself.
pub(crate) fn hold_still() {
    if settings::memory().is_none() {
        return;
    }
    let me = paths::this_thread();
    while let Err(holder) = HELD_BY.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed) {
        if holder == me {
            // Interrupted while it forked.
            return;
        }
        let_others();
    }
    wait_while_at(|at| at != 0);
}

/// After [`hold_still`], by the same thread.
pub(crate) fn go_on() {
    HELD_BY.store(0, Ordering::SeqCst);
}

/// In a forked child, which has the store and the slots, but no compactor: it gets its own, or all objects are brought back.
pub(crate) fn in_child(arena: Option<Arena>) {
    go_on();
    AT.store(0, Ordering::SeqCst);
    schedule::in_child();
    if let Some(arena) = arena {
        compactor::start_in_child(&arena);
    }
}

/// Where the bytes of a compacted object are. To be read while the compactor holds still.
pub(crate) fn place_in_store(arena: &Arena, number: Number, facts: Facts) -> Option<usize> {
    let is_of_store = |place: &usize| store::place().contains(place);
    let place = || store::address(arena.slot(number).link.load(Ordering::Relaxed));
    // Words that were written over may say anything.
    facts.is_compacted.then(place).filter(is_of_store)
}
