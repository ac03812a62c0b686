//! The C library's heap: a rule may be about it as a whole, as of the small blocks in it nobody follows each. Those of further threads are
//! the rule's too ([`thread_heaps`]).
//!
//! ```text
//!   malloc -> beyond the bar? -> the heap ends further up: what lies between is a piece of the rule's, but for other rules' blocks
//!   free of another rule's block ------------------------------------------> a piece again
//!   helper's look: the heap ends further down ------------------------------> no longer
//! ```
//!
//! Pieces beside each other that are locked alike are one object ([`objects::join`]). Blocks in them are made and released without that
//! mattering: their pages stay the heap's.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::status::OfRule;
use pagewise_interpose::system;

use super::Hook;
use super::Leaving;
use super::act_on;
use super::call_path;
use super::end_objects;
use super::helper;
use super::loaded::Plan;
use super::object::Object;
use super::objects;
use super::thread_heaps;

/// A block that ends so far beyond what is known of it tells that it has grown. No more: who fills it is to be followed page by page.
const STEP: usize = 1;
/// Heaps are not longer than this; mappings lie further above them.
const SPAN: usize = 1 << 40;
/// No address is within [`SPAN`] of it.
const NOWHERE: usize = 1 << 63;
const NONE: usize = usize::MAX;
/// The helper looks so often whether it has shrunk.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// Blocks beyond it say that the heap has grown so far that somebody wants to know; [`NOWHERE`]: nobody does.
static BAR: AtomicUsize = AtomicUsize::new(NOWHERE);
/// The rule that is about the heap of this process.
static RULE: AtomicUsize = AtomicUsize::new(NONE);
/// From here on it is the rule's,
static BEGIN: AtomicUsize = AtomicUsize::new(0);
/// up to here.
static END: AtomicUsize = AtomicUsize::new(0);

/// When the helper last looked whether it has shrunk.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// Whether the heap has grown so far that it is to be looked after, as seen from the end of a block.
#[inline(always)]
pub(super) fn is_grown(block_end: usize) -> bool {
    block_end.wrapping_sub(BAR.load(Ordering::Relaxed)) < SPAN
}

/// Blocks beyond this address are to be told of, if none before it are.
pub(super) fn tell_from(bar: usize) {
    BAR.fetch_min(bar, Ordering::Relaxed);
}

fn rule() -> Option<usize> {
    let rule = RULE.load(Ordering::Relaxed);
    (rule != NONE).then_some(rule)
}

/// When this library is loaded, once it is known where modules are.
pub(super) fn begin(plan: &Plan) {
    let is_here = |&index: &usize| {
        let rule = plan.view.rule(index);
        rule.is_of_heap() && call_path::address_of(rule.module as usize, 0).is_some()
    };
    if let Some(rule) = (0..plan.view.rules()).find(is_here) {
        RULE.store(rule, Ordering::Relaxed);
        watch();
        thread_heaps::watch();
    }
}

fn watch() {
    let end = system::heap_end();
    BEGIN.store(end, Ordering::Relaxed);
    END.store(end, Ordering::Relaxed);
    tell_from(end + STEP);
}

/// In a forked child: what was there before is its parent's.
pub(super) fn forget() {
    if rule().is_some() {
        BAR.store(NOWHERE, Ordering::Relaxed);
        watch();
    }
}

/// All memory is the program's own to lock from here on.
pub(super) fn leave() {
    BAR.store(NOWHERE, Ordering::Relaxed);
    thread_heaps::leave();
    RULE.store(NONE, Ordering::Relaxed);
}

/// A block lies beyond the bar. No allocator's lock is held.
pub(super) fn follow(plan: &'static Plan) {
    BAR.store(NOWHERE, Ordering::Relaxed);
    let Some(rule) = rule() else {
        return;
    };
    let end = system::heap_end();
    // Of two threads, one finds it grown.
    let before = END.fetch_max(end, Ordering::Relaxed);
    tell_from(end + STEP);
    if before < end {
        let is_new = before == BEGIN.load(Ordering::Relaxed);
        grew(plan, rule, before..end, is_new);
    }
}

/// The same, of a block in a thread's heap.
pub(super) fn follow_thread(plan: &'static Plan, block: usize) {
    if let Some(rule) = rule()
        && let Some((more, is_new)) = thread_heaps::grown(block)
    {
        grew(plan, rule, more, is_new);
    }
}

fn grew(plan: &'static Plan, rule: usize, more: Range<usize>, is_new: bool) {
    plan.status
        .add_to_rule(rule, OfRule::Objects, u64::from(is_new));
    plan.status
        .add_to_rule(rule, OfRule::Bytes, more.len() as u64);
    add(plan, rule, more.start, more.end);
    if plan.needs_helper() {
        helper::start_for(plan, Hook::Allocator);
    }
}

/// What lies there is the rule's from here on, but for what is another rule's.
fn add(plan: &'static Plan, rule: usize, start: usize, end: usize) {
    let mut at = start;
    while at < end {
        let other = objects::first_in(at, end).unwrap_or(end..end);
        if at < other.start {
            add_piece(plan, rule, at, other.start);
        }
        at = other.end;
    }
}

fn add_piece(plan: &'static Plan, rule: usize, start: usize, end: usize) {
    let mut piece = Object {
        may_be_joined: plan.joins(rule),
        of_heap: true,
        ..Object::new(start, end - start, rule)
    };
    if piece.pages().is_empty() {
        return;
    }
    act_on(plan, &mut piece);
    for part in parts_by_lock(piece).into_iter().flatten() {
        super::follow(plan, part);
    }
}

/// What is locked of it, and the rest: each is one with what is beside it that is locked alike.
fn parts_by_lock(piece: Object) -> [Option<Object>; 2] {
    let locked = piece.locked as usize;
    let locked_end = piece.pages().start + locked;
    if locked == 0 || locked_end >= piece.pages().end {
        return [Some(piece), None];
    }
    let lower = Object {
        bytes: locked_end - piece.start,
        beyond: 0,
        ..piece
    };
    let upper = Object {
        start: locked_end,
        owner: locked_end,
        bytes: piece.end() - locked_end,
        locked: 0,
        ..piece
    };
    [Some(lower), Some(upper)]
}

/// Whether a block there is the heap's, for all that other rules know.
pub(super) fn has(address: usize) -> bool {
    around(address).is_some()
        && objects::count(|object| object.of_heap && object.contains(address)) > 0
}

/// What is known of the heap in which an address is.
fn around(address: usize) -> Option<Range<usize>> {
    rule()?;
    let main = BEGIN.load(Ordering::Relaxed)..END.load(Ordering::Relaxed);
    match main.contains(&address) {
        true => Some(main),
        false => thread_heaps::around(address),
    }
}

/// A block of another rule is about to be released: if it lies in the heap, its memory is the heap's again.
pub(super) fn take_back(plan: &'static Plan, start: usize, bytes: usize) {
    if let Some(rule) = rule()
        && let Some(heap) = around(start)
    {
        add(plan, rule, start, (start + bytes).min(heap.end));
    }
}

/// By the helper: what the allocator has given back is no longer the rule's. Looked at now and then, as that waits for whoever reads
/// pages in: the kernel tells the end under the lock of all mappings (`brk`, mm/mmap.c, 6.18).
pub(super) fn look(plan: &Plan, now_ns: u64) {
    let relaxed = Ordering::Relaxed;
    if rule().is_none() || now_ns.saturating_sub(LOOKED_NS.load(relaxed)) < LOOK_EVERY_NS {
        return;
    }
    LOOKED_NS.store(now_ns, relaxed);
    let (known, end) = (END.load(Ordering::Relaxed), system::heap_end());
    if end < known && END.compare_exchange(known, end, relaxed, relaxed).is_ok() {
        end_objects(plan, end, known - end, Leaving::Moved);
        BAR.store(end + STEP, Ordering::Relaxed);
    }
    thread_heaps::look(|gone| {
        end_objects(plan, gone.start, gone.len(), Leaving::Moved);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_piece_that_is_locked_in_part_each_part_is_one() {
        let piece = |locked| Object {
            locked,
            beyond: 5,
            ..Object::new(0x7500_0000_0000, 1 << 20, 3)
        };
        for whole in [0, 1 << 20] {
            let [first, second] = parts_by_lock(piece(whole));
            assert_eq!(first.map(|part| part.bytes), Some(1 << 20));
            assert!(second.is_none());
        }
        let parts = parts_by_lock(piece(8192)).map(|part| {
            let part = part.expect("two");
            (part.start, part.bytes, part.locked, part.beyond)
        });
        let start = 0x7500_0000_0000;
        let upper = (start + 8192, (1 << 20) - 8192, 0, 5);
        assert_eq!(parts, [(start, 8192, 8192, 0), upper]);
    }

    #[test]
    fn a_heap_has_grown_when_blocks_lie_beyond_its_bar() {
        assert!(!is_grown(0x5555_0000_0000) && !is_grown(usize::MAX));
        let bar = system::heap_end() + STEP;
        tell_from(bar);
        tell_from(bar + STEP);
        assert!(is_grown(bar) && !is_grown(bar - 1) && !is_grown(bar + SPAN));
        BAR.store(NOWHERE, Ordering::Relaxed);
    }
}
