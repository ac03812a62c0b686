//! What the calls of a rule read again stays in the page cache: it is mapped and locked, piece by piece, as far as the rule and the
//! budget of locks go.
//!
//! A piece is kept once one of its pages is read again within a *round*, in which the calls read eight times as much as may be kept:
//! that page and what is cached around it, and what is read again of it later. Nothing is read for it. What was not read in a round is
//! let go at its end. So of a loop that is larger than the budget a fixed part stays, which is the best that can be had of it.
//!
//! One in 256 parts of each file is never kept, too few to show in the 99th percentile: what reads cost there, against what they cost
//! where pieces are kept, tells whether keeping helps. Calls larger than a part are not compared.
//!
//! Threads that read wait for each other here no longer than it takes to look something up: what is mapped, locked, read and let go is so
//! while nobody holds the lock. A piece that is being made has a reserved number; one that is being read in is pinned, and who lets it go leaves
//! that to the last one who has pinned it.
//!
//! A piece belongs to the descriptor by which it was read again, and goes when that is closed: a mapping would hold the room of a file
//! that is deleted.

use std::ops::Range;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_interpose::Spin;
use pagewise_interpose::page_cache;

use super::At;
use super::Call;
use super::hints::Cost;
use super::hints::Hinted;
use super::hints::PAGE;
use super::withdraw;
use crate::plan::loaded::Plan;
use crate::plan::locks;

/// Bytes of a piece.
const PIECE: u64 = 64 << 10;
/// Pieces that are known, whether they are kept or not; two places may hold one.
const PLACES: usize = 1 << 17;
/// A mapping each, of which a process may have 65,530.
const MOST_KEPT: usize = 1 << 14;
/// Of a larger call the rest is not looked at.
const MOST_OF_CALL: u64 = 64 * PIECE;
/// Parts of files that are kept, or not, as a whole.
const PART: u64 = 256 << 10;
/// One part of so many is never kept, and of one the cost is measured.
const PARTS: u64 = 256;
/// A round, in terms of what may be kept.
const ROUND: u64 = 8;
/// Calls of either kind that a comparison takes,
const COMPARED: u64 = 64;
/// and comparisons in a row without use until the rule is withdrawn.
const MOST_IN_VAIN: u32 = 4;
/// The number of a piece that is being made.
const RESERVED: u16 = u16::MAX;
/// Pieces that are looked at, or let go, and places that are cleared, while others wait.
const STEP_KEPT: usize = 512;
const STEP_LET_GO: usize = 32;
const STEP_KNOWN: usize = 4096;

/// What is known of a piece.
#[derive(Clone, Copy)]
struct Known {
    /// Which one it is; 0: none.
    tag: u32,
    /// Pages of it that were read in this round, a bit each.
    pages: u16,
    /// Its number among those that are kept, from 1; 0: it is not.
    kept: u16,
}

/// A piece that is kept.
#[derive(Clone, Copy)]
struct Kept {
    /// Where it is mapped; 0: there is none.
    start: usize,
    bytes: u32,
    /// Where it is known.
    place: u32,
    descriptor: i32,
    rule: u16,
    /// Pages that are held, a bit each; others may be.
    held: u16,
    /// It was read in this round.
    is_used: bool,
    /// Threads that read pages of it in at this moment.
    pins: u16,
    /// It goes as soon as there are none.
    is_doomed: bool,
}

/// What calls cost.
#[derive(Clone, Copy)]
struct Sum {
    calls: u64,
    bytes: u64,
    ns: u64,
    device_bytes: u64,
}

/// A rule's.
#[derive(Clone, Copy)]
struct Trial {
    /// Of reads again, where pieces are kept,
    kept: Sum,
    /// and where none is.
    left: Sum,
    in_vain: u32,
    /// Read in this round.
    round_bytes: u64,
}

struct Keeper {
    known: [Known; PLACES],
    kept: [Kept; MOST_KEPT],
    /// All before it have one.
    first_free: usize,
    /// There is no budget for more, or the kernel has refused it.
    is_full: bool,
    /// How often all was let go: a piece that was begun before is not kept any more.
    clearings: u32,
    trials: [Trial; MOST_RULES],
}

/// A piece that was let go: it is nobody's any more, and is still mapped.
type LetGo = Kept;

/// What is to be done about a piece that was read, once others can look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Todo {
    Nothing,
    /// It is to be kept: its number is reserved, since so many clearings.
    Make(u32),
    /// Some pages of it are to be read in, and held: address and bytes. It is pinned until then.
    Hold(u16, usize, usize),
}

/// Takes no memory before it is used, as it is all zeros.
static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);

impl Kept {
    const NONE: Self = Self {
        start: 0,
        bytes: 0,
        place: 0,
        descriptor: 0,
        rule: 0,
        held: 0,
        is_used: false,
        pins: 0,
        is_doomed: false,
    };
}

impl Sum {
    const NONE: Self = Self {
        calls: 0,
        bytes: 0,
        ns: 0,
        device_bytes: 0,
    };

    fn add(&mut self, cost: Cost, bytes: u64) {
        self.calls += 1;
        self.bytes += bytes;
        self.ns += cost.ns;
        self.device_bytes += cost.device_bytes;
    }

    fn ns_a_byte(&self) -> f64 {
        self.ns as f64 / self.bytes.max(1) as f64
    }

    /// Of what it read, how much came from a device.
    fn missed(&self) -> f64 {
        self.device_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// What a comparison says.
struct Comparison {
    /// Time of a byte that is kept by that of one that is not.
    ratio: f64,
    is_in_vain: bool,
}

impl Trial {
    const NONE: Self = Self {
        kept: Sum::NONE,
        left: Sum::NONE,
        in_vain: 0,
        round_bytes: 0,
    };

    /// `None`: too little is known, or all that is read again is cached anyway, so that there is nothing to tell.
    fn compare(&mut self) -> Option<Comparison> {
        if self.kept.calls.min(self.left.calls) < COMPARED {
            return None;
        }
        let (kept, left) = (self.kept, self.left);
        (self.kept, self.left) = (Sum::NONE, Sum::NONE);
        if left.missed() < 0.01 {
            return None;
        }
        let ratio = kept.ns_a_byte() / left.ns_a_byte().max(f64::MIN_POSITIVE);
        let is_in_vain = ratio > 0.97 && kept.missed() > 0.9 * left.missed();
        self.in_vain = if is_in_vain { self.in_vain + 1 } else { 0 };
        Some(Comparison { ratio, is_in_vain })
    }
}

/// A piece of a file, by a hash.
#[derive(Clone, Copy)]
struct Piece {
    hash: u64,
}

impl Piece {
    fn of(identity: (u64, u64), offset: u64) -> Self {
        Self {
            hash: mix(mix(identity.0 ^ identity.1.rotate_left(32)) ^ (offset / PIECE)),
        }
    }

    fn tag(self) -> u32 {
        self.hash as u32 | 1
    }

    fn places(self) -> [usize; 2] {
        let first = (self.hash >> 32) as usize % PLACES;
        [first, first ^ 1]
    }
}

/// splitmix64's finalizer (Steele et al., 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// What is done with a part of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lot {
    /// It is never kept.
    Left,
    /// It is, and what reads cost is measured.
    Measured,
    /// It is.
    Plain,
}

fn lot(identity: (u64, u64), offset: u64) -> Lot {
    match mix(mix(identity.0 ^ identity.1.rotate_left(32)) ^ !(offset / PART)) % PARTS {
        0 => Lot::Left,
        1 => Lot::Measured,
        _ => Lot::Plain,
    }
}

/// Whether the cost of a call at this place is to be measured.
pub(super) fn is_measured(identity: (u64, u64), offset: u64) -> bool {
    lot(identity, offset) != Lot::Plain
}

impl Known {
    /// Pages of the piece at `start` that a read begins in, or passes over. One that goes on where the one before it has ended was in its first page
    /// already.
    fn pages_of(start: u64, read: &Range<u64>, goes_on: bool) -> u16 {
        let first = match goes_on {
            true => read.start.next_multiple_of(PAGE),
            false => read.start / PAGE * PAGE,
        };
        let first = first.max(start);
        let end = read.end.next_multiple_of(PAGE).min(start + PIECE);
        (first..end)
            .step_by(PAGE as usize)
            .fold(0, |bits, page| bits | 1 << ((page - start) / PAGE))
    }
}

impl Keeper {
    const EMPTY: Self = Self {
        known: [Known {
            tag: 0,
            pages: 0,
            kept: 0,
        }; PLACES],
        kept: [Kept::NONE; MOST_KEPT],
        first_free: 0,
        is_full: false,
        clearings: 0,
        trials: [Trial::NONE; MOST_RULES],
    };

    /// The place of a piece: where it is known, or can be. `None`: others are kept there.
    fn place_of(&self, piece: Piece) -> Option<usize> {
        let places = piece.places();
        let is =
            |what: &dyn Fn(&Known) -> bool| places.into_iter().find(|&at| what(&self.known[at]));
        is(&|known| known.tag == piece.tag())
            .or_else(|| is(&|known| known.tag == 0))
            .or_else(|| is(&|known| known.kept == 0))
    }

    /// Pages of a piece are read: where it is known, if one was before in this round.
    fn read(&mut self, piece: Piece, pages: u16) -> Option<usize> {
        let at = self.place_of(piece)?;
        let known = &mut self.known[at];
        if known.tag != piece.tag() {
            *known = Known {
                tag: piece.tag(),
                pages,
                kept: 0,
            };
            return None;
        }
        let is_again = known.pages & pages != 0;
        known.pages |= pages;
        if is_again && let Some(number) = self.number_of(at) {
            self.kept[number].is_used = true;
        }
        is_again.then_some(at)
    }

    /// Where the piece of a place is among those that are kept, if it is.
    fn number_of(&self, place: usize) -> Option<usize> {
        let kept = Some(self.known[place].kept).filter(|&kept| kept != RESERVED);
        kept?.checked_sub(1).map(usize::from)
    }

    /// What is to be done about a piece that was read again.
    fn todo(&mut self, place: usize, pages: u16, may_be_kept: bool) -> Todo {
        if self.known[place].kept == 0 && may_be_kept && !self.is_full {
            self.known[place].kept = RESERVED;
            return Todo::Make(self.clearings);
        }
        self.pin(place, pages).unwrap_or(Todo::Nothing)
    }

    /// Pages of a piece that is kept, if it is, are to stay from here on: they were just read.
    fn pin(&mut self, place: usize, pages: u16) -> Option<Todo> {
        let number = self.number_of(place)?;
        let piece = &mut self.kept[number];
        let new = pages & !piece.held;
        if new == 0 || piece.is_doomed {
            return None;
        }
        piece.held |= new;
        piece.pins += 1;
        let first = new.trailing_zeros() as usize;
        let count = new.ilog2() as usize + 1 - first;
        let start = piece.start + first * PAGE as usize;
        Some(Todo::Hold(number as u16, start, count * PAGE as usize))
    }

    /// They are held. The piece, if it was to go meanwhile.
    fn unpin(&mut self, number: u16) -> Option<LetGo> {
        let piece = &mut self.kept[usize::from(number)];
        piece.pins -= 1;
        (piece.is_doomed && piece.pins == 0).then(|| self.take_out(number.into()))
    }

    /// What was reserved is not made.
    fn give_up(&mut self, place: usize) {
        if self.known[place].kept == RESERVED {
            self.known[place].kept = 0;
        }
    }

    /// Makes a reserved piece one that is kept. False: there is no room, or all was let go meanwhile.
    fn put(&mut self, piece: Kept, since: u32) -> bool {
        let is_reserved = self.known[piece.place as usize].kept == RESERVED;
        let free = (self.first_free..MOST_KEPT).find(|&at| self.kept[at].start == 0);
        self.is_full |= free.is_none();
        let free = free.filter(|_| is_reserved && self.clearings == since);
        let Some(free) = free else {
            self.give_up(piece.place as usize);
            return false;
        };
        self.first_free = free + 1;
        self.kept[free] = piece;
        self.known[piece.place as usize].kept = free as u16 + 1;
        true
    }

    fn take_out(&mut self, at: usize) -> LetGo {
        let piece = self.kept[at];
        self.known[piece.place as usize].kept = 0;
        self.kept[at] = Kept::NONE;
        self.first_free = self.first_free.min(at);
        self.is_full = false;
        piece
    }

    /// Takes out pieces that are meant, as many as there is room for, from a number on: how many, and where to go on.
    fn take_out_some(
        &mut self,
        from: usize,
        is_meant: &mut impl FnMut(&mut Kept) -> bool,
        taken: &mut [LetGo; STEP_LET_GO],
    ) -> (usize, usize) {
        let (mut at, mut count) = (from, 0);
        while at < MOST_KEPT.min(from + STEP_KEPT) && count < STEP_LET_GO {
            let piece = &mut self.kept[at];
            if piece.start != 0 && is_meant(piece) {
                if piece.pins > 0 {
                    piece.is_doomed = true;
                } else {
                    taken[count] = self.take_out(at);
                    count += 1;
                }
            }
            at += 1;
        }
        (count, at)
    }

    /// What is known of pieces that are not kept is forgotten.
    fn forget_known(&mut self, places: Range<usize>) {
        for known in &mut self.known[places] {
            if known.kept == 0 {
                known.tag = 0;
            }
        }
        self.is_full = false;
    }
}

/// Lets go of all pieces that are meant, a few at a time. `None`: others never let us look.
fn let_go_all(plan: &Plan, mut is_meant: impl FnMut(&mut Kept) -> bool) -> Option<()> {
    let mut next = 0;
    while next < MOST_KEPT {
        let mut taken = [Kept::NONE; STEP_LET_GO];
        let (count, end) = KEEPER
            .lock()?
            .take_out_some(next, &mut is_meant, &mut taken);
        taken[..count].iter().for_each(|piece| unmap(plan, piece));
        next = end;
    }
    Some(())
}

fn unmap(plan: &Plan, piece: &LetGo) {
    page_cache::let_go(piece.start, piece.bytes as usize);
    locks::account_for_less(plan, piece.rule.into(), piece.bytes.into());
}

/// A round of a rule ends: what was not read again in it goes, and all begin anew.
fn end_round(plan: &Plan, rule: usize) -> Option<()> {
    let_go_all(plan, |piece| {
        let is_own = usize::from(piece.rule) == rule;
        is_own && !std::mem::take(&mut piece.is_used)
    })?;
    for start in (0..PLACES).step_by(STEP_KNOWN) {
        KEEPER.lock()?.forget_known(start..start + STEP_KNOWN);
    }
    Some(())
}

impl Hinted<'_> {
    /// A call of a rule that keeps has read; what it cost, if that was measured. `None`: the descriptor means another file.
    pub(super) fn keep_read(
        &mut self,
        rule: &PlanRule,
        call: &Call,
        bytes: u64,
        cost: Option<Cost>,
    ) -> Option<()> {
        let Some(start) = call.offset.filter(|_| bytes > 0) else {
            return Some(());
        };
        let descriptor = call.request.descriptor;
        let end = match call.request.at {
            // The C library has filled its buffer.
            At::Buffer => page_cache::position(descriptor)?.max(start),
            At::Offset(_) | At::Cursor => start.saturating_add(bytes),
        };
        let goes_on = self.file.bursts.goes_on_at(start);
        self.count_round(rule, end - start);
        let looked_at = start..end.min(start.saturating_add(MOST_OF_CALL));
        let mut is_again = false;
        let mut at = looked_at.start / PIECE * PIECE;
        while at < looked_at.end {
            let pages = Known::pages_of(at, &looked_at, goes_on);
            is_again |= self.keep_piece(rule, (at, pages), descriptor)?;
            at += PIECE;
        }
        if let Some(cost) = cost.filter(|_| is_again && start / PART == (end - 1) / PART) {
            self.compare((start, end - start), cost);
        }
        Some(())
    }

    fn count_round(&self, rule: &PlanRule, bytes: u64) {
        let most = match rule.keep_bytes {
            0 => locks::budget(),
            most => most,
        };
        let round = most.max(PART).saturating_mul(ROUND);
        let is_over = KEEPER.lock().is_some_and(|mut keeper| {
            let read = &mut keeper.trials[self.rule].round_bytes;
            *read += bytes;
            *read >= round && std::mem::take(read) > 0
        });
        if is_over {
            // Who does not get to look leaves it to the next round.
            let _ = end_round(self.plan, self.rule);
        }
    }

    /// Pages of the piece that begins there were read: whether again. Where others do not let us look, nothing is done.
    fn keep_piece(
        &mut self,
        rule: &PlanRule,
        (start, pages): (u64, u16),
        descriptor: i32,
    ) -> Option<bool> {
        let identity = self.file.identity;
        let piece = Piece::of(identity, start);
        let looked_up = KEEPER.lock().and_then(|mut keeper| {
            let place = keeper.read(piece, pages)?;
            let may_be_kept = lot(identity, start) != Lot::Left;
            Some((place, keeper.todo(place, pages, may_be_kept)))
        });
        let Some((place, mut todo)) = looked_up else {
            return Some(false);
        };
        if let Todo::Make(since) = todo {
            let is_made = self.make(rule, (place, start), descriptor, since);
            if is_made != Some(true) {
                return is_made.map(|_| true);
            }
            let pinned = KEEPER.lock().and_then(|mut keeper| {
                // Another may be known there by now.
                let is_same = keeper.known[place].tag == piece.tag();
                keeper.pin(place, pages).filter(|_| is_same)
            });
            todo = pinned.unwrap_or(Todo::Nothing);
        }
        if let Todo::Hold(number, address, bytes) = todo {
            self.hold(number, address, bytes);
        }
        Some(true)
    }

    fn hold(&self, number: u16, address: usize, bytes: usize) {
        // What was cut off of the file meanwhile is not there to be held.
        let _ = page_cache::hold(address, bytes);
        let doomed = KEEPER.lock().and_then(|mut keeper| keeper.unpin(number));
        if let Some(piece) = doomed {
            unmap(self.plan, &piece);
        }
    }

    /// Keeps the piece that begins there, whose number is reserved: whether it does. `None`: the descriptor means another file.
    fn make(
        &mut self,
        rule: &PlanRule,
        (place, start): (usize, u64),
        descriptor: i32,
        since: u32,
    ) -> Option<bool> {
        let mapped = self.map(rule, (place, start), descriptor);
        let Some(Some(piece)) = mapped else {
            if let Some(mut keeper) = KEEPER.lock() {
                keeper.give_up(place);
            }
            return mapped.map(|_| false);
        };
        let is_put = KEEPER
            .lock()
            .is_some_and(|mut keeper| keeper.put(piece, since));
        if is_put {
            self.file.has_kept = true;
            self.plan.status.add_to_io(self.rule, OfIo::Hints, 1);
        } else {
            unmap(self.plan, &piece);
        }
        Some(is_put)
    }

    /// Maps and locks it, within the budget. The inner `None`: there is nothing, or no room.
    fn map(
        &self,
        rule: &PlanRule,
        (place, start): (usize, u64),
        descriptor: i32,
    ) -> Option<Option<Kept>> {
        let length = self.file.length_if_still(descriptor)?;
        let end = (start + PIECE).min(length.next_multiple_of(PAGE));
        let bytes = end.saturating_sub(start) as usize;
        if bytes == 0 {
            return Some(None);
        }
        if !locks::take_whole(self.plan, rule, self.rule, bytes) {
            note_full();
            return Some(None);
        }
        let mapped = match page_cache::keep(descriptor, start..end) {
            Ok(mapped) => mapped,
            Err(errno) => {
                locks::give_back(self.plan, bytes);
                self.plan.status.refused_io(self.rule, errno);
                note_full();
                return Some(None);
            }
        };
        locks::note_taken(self.plan, self.rule, bytes);
        Some(Some(Kept {
            start: mapped,
            bytes: bytes as u32,
            place: place as u32,
            descriptor,
            rule: self.rule as u16,
            is_used: true,
            ..Kept::NONE
        }))
    }

    fn compare(&self, (start, bytes): (u64, u64), cost: Cost) {
        let compared = KEEPER.lock().and_then(|mut keeper| {
            let trial = &mut keeper.trials[self.rule];
            match lot(self.file.identity, start) {
                Lot::Left => trial.left.add(cost, bytes),
                Lot::Measured => trial.kept.add(cost, bytes),
                Lot::Plain => {}
            }
            Some((trial.compare()?, trial.in_vain))
        });
        let Some((comparison, in_vain)) = compared else {
            return;
        };
        let thousandths = (comparison.ratio * 1000.0).clamp(1.0, 1e9) as u64;
        let status = &self.plan.status;
        status.set_of_io(self.rule, OfIo::Ratio, thousandths);
        if comparison.is_in_vain && in_vain >= MOST_IN_VAIN {
            withdraw(self.plan, self.rule, WhyWithdrawn::NoGain);
            clear(self.plan, |piece| usize::from(piece.rule) == self.rule);
        }
    }
}

/// There is no budget for more, or the kernel has refused it.
fn note_full() {
    if let Some(mut keeper) = KEEPER.lock() {
        keeper.is_full = true;
    }
}

/// Lets go of all pieces that are meant, those that are being made included.
fn clear(plan: &Plan, is_meant: impl Fn(&Kept) -> bool) {
    if let Some(mut keeper) = KEEPER.lock() {
        keeper.clearings = keeper.clearings.wrapping_add(1);
    }
    // What was not reached by then goes with its round, or its descriptor.
    let _ = let_go_all(plan, |piece| is_meant(piece));
}

/// A descriptor is closed, or the program has dropped what is cached of its file itself.
pub(super) fn let_go_of(plan: &Plan, descriptor: i32) {
    clear(plan, |piece| piece.descriptor == descriptor);
}

/// What is locked is the program's own to say, or it wants to lock more than it may beside ours. False: nothing was kept.
pub(super) fn let_go_of_all(plan: &Plan) -> bool {
    let is_any = KEEPER
        .lock()
        .is_some_and(|keeper| keeper.kept.iter().any(|piece| piece.start != 0));
    if is_any {
        clear(plan, |_| true);
        // Not at once again.
        note_full();
    }
    is_any
}

/// A forked child has none of its parent's mappings.
pub(super) fn forget() {
    KEEPER.break_open();
    if let Some(mut keeper) = KEEPER.lock() {
        let is_any = keeper.trials.iter().any(|trial| trial.round_bytes > 0);
        if is_any {
            keeper.kept.fill(Kept::NONE);
            keeper.known.iter_mut().for_each(|known| known.tag = 0);
            keeper.trials.fill(Trial::NONE);
            keeper.first_free = 0;
        }
        keeper.is_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (u64, u64) = (8, 4711);

    #[test]
    fn what_is_read_again_is_found_by_pages_and_not_by_calls() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        let mut keeper = KEEPER.lock().expect("nobody else's");
        let mut read = |range: Range<u64>, goes_on| {
            let start = range.start / PIECE * PIECE;
            let pages = Known::pages_of(start, &range, goes_on);
            keeper.read(Piece::of(FILE, start), pages).is_some()
        };
        // Small calls one after the other, then all again.
        assert!(!read(0..1000, false));
        for call in 1..60 {
            assert!(!read(call * 1000..(call + 1) * 1000, true), "{call}");
        }
        assert!(read(0..1000, false));
        // A record elsewhere in a page that was read.
        assert!(read(9000..9100, false));
        assert!(!read(PIECE..PIECE + PAGE, false));
        assert!(!read(PIECE + PAGE..PIECE + 2 * PAGE, false));
        assert!(read(PIECE + 10..PIECE + PAGE, false));
    }

    #[test]
    fn pages_of_a_call_are_those_of_the_piece() {
        let pages = Known::pages_of(PIECE, &(0..10 * PIECE), false);
        assert_eq!(pages, u16::MAX);
        assert_eq!(Known::pages_of(0, &(PAGE + 1..PAGE + 2), false), 2);
        assert_eq!(Known::pages_of(0, &(PAGE + 1..PAGE + 2), true), 0);
        assert_eq!(Known::pages_of(0, &(PAGE..2 * PAGE + 1), true), 6);
    }

    #[test]
    fn a_kept_piece_keeps_its_place_among_others() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        let mut keeper = KEEPER.lock().expect("nobody else's");
        let piece = Piece::of(FILE, 0);
        assert!(keeper.read(piece, 1).is_none());
        let place = keeper.read(piece, 1).expect("again");
        let kept = Kept {
            start: 4096,
            place: place as u32,
            ..Kept::NONE
        };
        assert_eq!(keeper.todo(place, 1, true), Todo::Make(0));
        assert_eq!(
            keeper.todo(place, 1, true),
            Todo::Nothing,
            "it is being made"
        );
        assert!(keeper.put(kept, 0));
        for number in 1..4 * PLACES as u64 {
            keeper.read(Piece::of(FILE, number * PIECE), 1);
        }
        assert_eq!(keeper.read(piece, 1), Some(place));
        assert!(keeper.kept[0].is_used);
    }

    #[test]
    fn one_of_many_parts_is_never_kept() {
        let parts = (0..1000 * PARTS).map(|part| lot(FILE, part * PART));
        let left = parts.filter(|lot| *lot == Lot::Left).count();
        assert!((800..1200).contains(&left), "{left}");
        let pieces = (0..PART / PIECE).map(|piece| is_measured(FILE, 5 * PART + piece * PIECE));
        let measured = pieces.filter(|is_measured| *is_measured).count() as u64;
        assert!(measured == 0 || measured == PART / PIECE);
    }

    #[test]
    fn what_was_begun_before_all_was_let_go_is_not_kept() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        let mut keeper = KEEPER.lock().expect("nobody else's");
        let piece = Piece::of(FILE, 0);
        assert!(keeper.read(piece, 1).is_none());
        let place = keeper.read(piece, 1).expect("again");
        let kept = Kept {
            start: 4096,
            place: place as u32,
            ..Kept::NONE
        };
        assert_eq!(keeper.todo(place, 1, true), Todo::Make(0));
        keeper.clearings += 1;
        assert!(!keeper.put(kept, 0));
        assert_eq!(
            keeper.todo(place, 1, true),
            Todo::Make(1),
            "and may be then"
        );
    }

    /// Mappings that there are, by address, as threads believe.
    type Mapped = std::sync::Mutex<std::collections::HashSet<usize>>;

    /// Reads of a thread at random places, as [`Hinted::keep_piece`] does them, with others' letting go between.
    fn read_and_let_go(keeper: &Spin<Keeper>, mapped: &Mapped, thread: u64) {
        let unmap = |piece: &LetGo| {
            let was_there = mapped.lock().expect("held").remove(&piece.start);
            assert!(was_there, "let go twice");
        };
        let held = || keeper.lock().expect("free soon");
        for step in 0..20_000 {
            let chance = mix(thread << 32 | step);
            let piece = Piece::of(FILE, chance % 64 * PIECE);
            let pages = 1 << (chance >> 8 & 15);
            let todo = {
                let mut keeper = held();
                let place = keeper.read(piece, pages);
                place.map(|place| (place, keeper.todo(place, pages, true)))
            };
            match todo {
                Some((place, Todo::Make(since))) => {
                    let start = ((thread << 32 | step) + 1) as usize * PAGE as usize;
                    assert!(mapped.lock().expect("held").insert(start));
                    let kept = Kept {
                        start,
                        place: place as u32,
                        ..Kept::NONE
                    };
                    if !held().put(kept, since) {
                        unmap(&kept);
                    }
                }
                Some((_, Todo::Hold(number, address, _))) => {
                    std::thread::yield_now();
                    let start = held().kept[usize::from(number)].start;
                    let is_there = mapped.lock().expect("held").contains(&start);
                    assert!(is_there && address >= start, "read in after it was let go");
                    let doomed = held().unpin(number);
                    doomed.iter().for_each(unmap);
                }
                _ => {}
            }
            if chance >> 16 & 15 == 0 {
                let mut taken = [Kept::NONE; STEP_LET_GO];
                let is_meant = &mut |piece: &mut Kept| piece.place as u64 & 3 == chance >> 24 & 3;
                let (count, _) = held().take_out_some(0, is_meant, &mut taken);
                taken[..count].iter().for_each(unmap);
            }
        }
    }

    #[test]
    fn threads_never_read_in_what_another_has_let_go_and_each_piece_goes_once() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        static MAPPED: std::sync::LazyLock<Mapped> = std::sync::LazyLock::new(Mapped::default);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || read_and_let_go(&KEEPER, &MAPPED, thread));
            }
        });
        let keeper = KEEPER.lock().expect("free");
        let kept = keeper.kept.iter().filter(|piece| piece.start != 0);
        let kept: std::collections::HashSet<usize> = kept.map(|piece| piece.start).collect();
        assert_eq!(kept, *MAPPED.lock().expect("held"));
        assert!(keeper.kept.iter().all(|piece| piece.pins == 0));
        assert!(keeper.known.iter().all(|known| known.kept != RESERVED));
    }

    #[test]
    fn keeping_is_in_vain_only_where_it_could_help_and_does_not() {
        let sum = |ns, device_bytes| Sum {
            calls: COMPARED,
            bytes: 1 << 20,
            ns,
            device_bytes,
        };
        let compare = |kept, left| {
            let mut trial = Trial {
                kept,
                left,
                ..Trial::NONE
            };
            trial.compare().map(|comparison| comparison.is_in_vain)
        };
        let cached = sum(1000, 0);
        let missed = sum(100_000, 1 << 19);
        assert_eq!(compare(cached, missed), Some(false));
        assert_eq!(compare(missed, missed), Some(true));
        assert_eq!(compare(sum(100_000, 1 << 17), missed), Some(false));
        assert_eq!(compare(cached, cached), None, "nothing leaves");
    }
}
