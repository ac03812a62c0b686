//! What is resized keeps its locks as far as may be. To end the lock of a page that is in memory, and to make it anew, takes half a
//! microsecond: of a vector that grows by small steps, far more than all else that is done to it.
//!
//! - At its place, only what it grew by is locked.
//! - A mapping that is moved takes its locks along (mm/mremap.c), but only if all of it is locked: else it is several mappings to
//!   the kernel, which moves one only (`EFAULT`; the C library then copies). The C library's large blocks are such mappings.
//! - A block that was copied to another place leaves its locks behind, and is locked [`later`](super::later).
//!
//! So it is in the table of objects while it is resized, and what is there when that is done decides.

use super::HEADER;
use super::Inherited;
use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::object::PAGE;
use super::objects;
use super::prezero;

/// What the C library may round up a large block by, beside whole pages.
const ROUNDING: usize = 32;

/// An object with locks, which are not ended although it is resized.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    number: usize,
    start: usize,
    locked: u64,
    /// When it would have been locked, if that was put off.
    due_ns: u64,
    /// The kernel moves it, if it is moved.
    is_mapping: bool,
    /// Taken of the budget for what it grows by.
    reserved: usize,
}

/// The mapping that a large block of the C library is, with the words before it; `None`: it is none, or by another allocator. The
/// ends of other blocks are never those of pages.
pub(super) fn mapping_of(address: usize) -> Option<(usize, usize)> {
    if !prezero::is_c_librarys_allocator() || address % PAGE != HEADER {
        return None;
    }
    let bytes = crate::allocator::usable_bytes(address);
    let end = address.checked_add(bytes)?;
    (bytes > 0 && end.is_multiple_of(PAGE)).then(|| (address - HEADER, bytes + HEADER))
}

/// A block is about to be resized: its locks are kept. `None`: it has none, or they cannot be. Of the C library's allocator only:
/// others may give up the old memory's contents at once, which is refused where there are locks.
pub(super) fn keep_block(plan: &Plan, address: usize, bytes: usize) -> Option<Inherited> {
    if !prezero::is_c_librarys_allocator() {
        return None;
    }
    let object = objects::suspend(address)?;
    let mapping = mapping_of(address);
    let grown = match mapping {
        Some((_, mapped)) => {
            let most = bytes.checked_add(HEADER + ROUNDING)?;
            most.checked_next_multiple_of(PAGE)?.checked_sub(mapped)?
        }
        None => bytes.checked_sub(object.bytes)?,
    };
    keep(plan, &object, mapping.is_some(), grown)
}

/// The same of a mapping of the program's own, whole pages.
pub(super) fn keep_mapping(
    plan: &Plan,
    start: usize,
    bytes: usize,
    new_bytes: usize,
) -> Option<Inherited> {
    let object = objects::suspend(start)?;
    let is_whole = object.start == start && object.bytes == bytes;
    let are_pages = [start, bytes, new_bytes]
        .iter()
        .all(|at| at.is_multiple_of(PAGE));
    let grown = new_bytes.checked_sub(bytes)?;
    if !is_whole || !are_pages || object.locked != bytes as u64 {
        return None;
    }
    keep(plan, &object, true, grown)
}

fn keep(plan: &Plan, object: &Object, is_mapping: bool, grown: usize) -> Option<Inherited> {
    // Of what the program asked for itself, or cut into pieces, each part has its own way.
    let is_alone = objects::overlapping(object.start, object.bytes) == 1;
    let locked = object.locked as usize;
    if !is_alone || !plan.keeps(object.rule) || locked == 0 && object.due_ns == 0 {
        return None;
    }
    let rule = plan.view.rule(object.rule);
    let is_whole = locked == object.pages().len() && object.pages().len() == object.bytes;
    let reserved = if is_mapping && locked > 0 {
        if !is_whole || !locks::reserve_growth(plan, &rule, object, grown) {
            return None;
        }
        grown
    } else {
        0
    };
    let mut inherited = Inherited::default();
    inherited.note(object, object.owner);
    inherited.kept = Some(Kept {
        number: object.number,
        start: object.start,
        locked: object.locked,
        due_ns: object.due_ns,
        is_mapping,
        reserved,
    });
    Some(inherited)
}

/// A kept object was resized and is `now`, without number and locks. True: its locks are as they should be; else it has none
/// any more, and is like a new one.
pub(super) fn settle(plan: &Plan, kept: &Kept, now: &mut Object) -> bool {
    let has_moved = now.start != kept.start;
    if has_moved && !kept.is_mapping {
        let_go(plan, kept, now);
        return false;
    }
    let Some(object) = objects::remove(|object| object.number == kept.number) else {
        // It was taken over, or its memory was handed out again; the kernel may have moved its locks before.
        let_go(plan, kept, now);
        return false;
    };
    (now.locked, now.beyond) = (object.locked, object.beyond);
    now.lock_rests = object.lock_rests;
    if kept.is_mapping && !is_mapping(now) {
        // It was copied after all, and the mapping is gone with its locks.
        locks::cancel_growth(plan, kept.reserved);
        locks::hand_over(plan, &object);
        now.beyond = 0;
        now.locked = 0;
        return false;
    }
    if object.locked < kept.locked {
        // They gave way to the program's own.
        locks::cancel_growth(plan, kept.reserved);
        locks::unlock_uncounted(now);
        return true;
    }
    if kept.is_mapping && object.locked > 0 {
        locks::carry_on(plan, now, kept.reserved);
        return true;
    }
    if kept.due_ns > 0 {
        // At its place, they are made in their time.
        now.due_ns = kept.due_ns;
        return !has_moved;
    }
    let grown = now.pages().len().saturating_sub(object.pages().len());
    let rule = plan.view.rule(now.rule);
    locks::extend(plan, &rule, now, (usize::MAX, grown));
    true
}

/// Whether an object is whole pages from its first byte to its last.
fn is_mapping(object: &Object) -> bool {
    object.pages().len() == object.bytes
}

/// A kept object, whose memory is `now` there, is not kept after all.
pub(super) fn let_go(plan: &Plan, kept: &Kept, now: &Object) {
    locks::cancel_growth(plan, kept.reserved);
    if kept.is_mapping {
        locks::unlock_uncounted(now);
    }
    objects::remove_after(
        |object| object.number == kept.number,
        |object| locks::release(plan, object),
    );
}
