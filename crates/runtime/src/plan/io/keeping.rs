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
    trials: [Trial; MOST_RULES],
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
        if is_again && let Some(kept) = known.kept.checked_sub(1) {
            self.kept[kept as usize].is_used = true;
        }
        is_again.then_some(at)
    }

    /// Pages of a piece that is kept, if it is, stay from here on: they were just read.
    fn hold(&mut self, place: usize, pages: u16) {
        let Some(number) = self.known[place].kept.checked_sub(1) else {
            return;
        };
        let piece = &mut self.kept[number as usize];
        let new = pages & !piece.held;
        if new == 0 {
            return;
        }
        piece.held |= new;
        let first = new.trailing_zeros() as usize;
        let count = new.ilog2() as usize + 1 - first;
        let start = piece.start + first * PAGE as usize;
        // What was cut off of the file meanwhile is not there to be held.
        let _ = page_cache::hold(start, count * PAGE as usize);
    }

    fn put(&mut self, piece: Kept) -> bool {
        let free = (self.first_free..MOST_KEPT).find(|&at| self.kept[at].start == 0);
        let Some(free) = free else {
            self.is_full = true;
            return false;
        };
        self.first_free = free + 1;
        self.kept[free] = piece;
        self.known[piece.place as usize].kept = free as u16 + 1;
        true
    }

    /// Lets go of all pieces that are meant.
    fn let_go(&mut self, plan: &Plan, is_meant: impl Fn(&Kept) -> bool) {
        for at in 0..MOST_KEPT {
            let piece = self.kept[at];
            if piece.start == 0 || !is_meant(&piece) {
                continue;
            }
            page_cache::let_go(piece.start, piece.bytes as usize);
            locks::account_for_less(plan, piece.rule.into(), piece.bytes.into());
            self.known[piece.place as usize].kept = 0;
            self.kept[at] = Kept::NONE;
            self.first_free = self.first_free.min(at);
            self.is_full = false;
        }
    }

    /// A round of a rule ends: what was not read again in it goes, and all begin anew.
    fn end_round(&mut self, plan: &Plan, rule: usize) {
        self.let_go(plan, |piece| {
            usize::from(piece.rule) == rule && !piece.is_used
        });
        let pieces = self.kept.iter_mut();
        for piece in pieces.filter(|piece| usize::from(piece.rule) == rule) {
            piece.is_used = false;
        }
        for known in self.known.iter_mut().filter(|known| known.kept == 0) {
            known.tag = 0;
        }
        self.is_full = false;
    }
}

impl Hinted<'_> {
    /// A call of a rule that keeps has read; what it cost, if that was measured.
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
        let mut keeper = KEEPER.lock()?;
        let trial = &mut keeper.trials[self.rule];
        trial.round_bytes += end - start;
        let most = match rule.keep_bytes {
            0 => locks::budget(),
            most => most,
        };
        if trial.round_bytes >= most.max(PART).saturating_mul(ROUND) {
            trial.round_bytes = 0;
            keeper.end_round(self.plan, self.rule);
        }
        let looked_at = start..end.min(start.saturating_add(MOST_OF_CALL));
        let mut is_again = false;
        let mut at = looked_at.start / PIECE * PIECE;
        while at < looked_at.end {
            let piece = Piece::of(self.file.identity, at);
            let pages = Known::pages_of(at, &looked_at, goes_on);
            let place = keeper.read(piece, pages);
            is_again |= place.is_some();
            if let Some(place) = place
                && keeper.known[place].kept == 0
                && !keeper.is_full
                && lot(self.file.identity, at) != Lot::Left
            {
                self.keep(rule, &mut keeper, (place, at), descriptor)?;
            }
            if let Some(place) = place {
                keeper.hold(place, pages);
            }
            at += PIECE;
        }
        if let Some(cost) = cost.filter(|_| is_again && start / PART == (end - 1) / PART) {
            self.compare(&mut keeper, (start, end - start), cost);
        }
        Some(())
    }

    /// Keeps the piece that begins there. `None`: the descriptor means another file.
    fn keep(
        &mut self,
        rule: &PlanRule,
        keeper: &mut Keeper,
        (place, start): (usize, u64),
        descriptor: i32,
    ) -> Option<()> {
        let length = self.file.length_if_still(descriptor)?;
        let end = (start + PIECE).min(length.next_multiple_of(PAGE));
        let bytes = end.saturating_sub(start) as usize;
        if bytes == 0 {
            return Some(());
        }
        if !locks::take_whole(self.plan, rule, self.rule, bytes) {
            keeper.is_full = true;
            return Some(());
        }
        match page_cache::keep(descriptor, start..end) {
            Ok(mapped) => {
                let piece = Kept {
                    start: mapped,
                    bytes: bytes as u32,
                    place: place as u32,
                    descriptor,
                    rule: self.rule as u16,
                    held: 0,
                    is_used: true,
                };
                locks::note_taken(self.plan, self.rule, bytes);
                if keeper.put(piece) {
                    self.file.has_kept = true;
                    self.plan.status.add_to_io(self.rule, OfIo::Hints, 1);
                } else {
                    page_cache::let_go(mapped, bytes);
                    locks::account_for_less(self.plan, self.rule, bytes as u64);
                }
            }
            Err(errno) => {
                locks::give_back(self.plan, bytes);
                self.plan.status.refused_io(self.rule, errno);
                keeper.is_full = true;
            }
        }
        Some(())
    }

    fn compare(&self, keeper: &mut Keeper, (start, bytes): (u64, u64), cost: Cost) {
        let trial = &mut keeper.trials[self.rule];
        match lot(self.file.identity, start) {
            Lot::Left => trial.left.add(cost, bytes),
            Lot::Measured => trial.kept.add(cost, bytes),
            Lot::Plain => {}
        }
        let Some(comparison) = trial.compare() else {
            return;
        };
        let thousandths = (comparison.ratio * 1000.0).clamp(1.0, 1e9) as u64;
        let status = &self.plan.status;
        status.set_of_io(self.rule, OfIo::Ratio, thousandths);
        if comparison.is_in_vain && trial.in_vain >= MOST_IN_VAIN {
            keeper.let_go(self.plan, |piece| usize::from(piece.rule) == self.rule);
            withdraw(self.plan, self.rule, WhyWithdrawn::NoGain);
        }
    }
}

/// A descriptor is closed, or the program has dropped what is cached of its file itself.
pub(super) fn let_go_of(plan: &Plan, descriptor: i32) {
    if let Some(mut keeper) = KEEPER.lock() {
        keeper.let_go(plan, |piece| piece.descriptor == descriptor);
    }
}

/// What is locked is the program's own to say, or it wants to lock more than it may beside ours. False: nothing was kept.
pub(super) fn let_go_of_all(plan: &Plan) -> bool {
    let Some(mut keeper) = KEEPER.lock() else {
        return false;
    };
    let is_any = keeper.kept.iter().any(|piece| piece.start != 0);
    if is_any {
        keeper.let_go(plan, |_| true);
        // Not at once again.
        keeper.is_full = true;
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
        assert!(keeper.put(kept));
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
