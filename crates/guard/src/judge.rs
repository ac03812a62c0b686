//! What a wrong access is, and which object it has to do with.

use pagewise_abi::guard::FaultKind;

use crate::arena;
use crate::heap;
use crate::heap::Seen;
use crate::slot::State;

/// What an access to so many bytes is; `None`: right, as far as is known.
pub(crate) fn judge_range(buffer: usize, bytes: usize) -> Option<(FaultKind, Seen)> {
    if let Some(wrong) = judge(buffer) {
        return Some(wrong);
    }
    let seen = heap::look(buffer).filter(|seen| seen.facts.state == State::Live)?;
    (buffer.saturating_add(bytes) > seen.placed.end()).then_some((FaultKind::Overflow, seen))
}

/// What an access to a guarded address is, and of which object: of its own slot's, or of the one behind if that is nearer.
pub(crate) fn judge(address: usize) -> Option<(FaultKind, Seen)> {
    let here = heap::look(address).filter(|seen| seen.facts.state != State::Fresh);
    let next = next_object(address);
    let distance = |seen: &Seen| {
        let placed = &seen.placed;
        let behind = address.saturating_sub(placed.end());
        behind.max(placed.start.saturating_sub(address))
    };
    let seen = match (here, next) {
        (Some(here), Some(next)) => {
            let own = heap::arena().map(|arena| arena.extent(here.number));
            // On its own pages, what was freed stays the one meant.
            let is_inside = own.is_some_and(|own| (own.begin..own.guard).contains(&address));
            let is_nearer = distance(&next) < distance(&here);
            if is_nearer && !is_inside { next } else { here }
        }
        (here, next) => here.or(next)?,
    };
    let kind = if seen.facts.state != State::Live {
        FaultKind::UseAfterFree
    } else if address >= seen.placed.end() {
        FaultKind::Overflow
    } else if address < seen.placed.start {
        FaultKind::Underflow
    } else {
        // Given back and handed out again meanwhile, or a page that cannot be read for another reason.
        return None;
    };
    Some((kind, seen))
}

/// The live object of the slot behind the one of an address.
fn next_object(address: usize) -> Option<Seen> {
    let arena = heap::arena()?;
    let end = match arena.find(address) {
        Some(number) => arena.extent(number).end,
        None => address.checked_next_multiple_of(arena::CHUNK)?,
    };
    heap::look(end).filter(|seen| seen.facts.state == State::Live)
}
