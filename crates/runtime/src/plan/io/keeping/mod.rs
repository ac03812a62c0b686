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

mod keeper;
mod piece;
mod trial;

use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_interpose::Spin;
use pagewise_interpose::page_cache;

use self::keeper::Keeper;
use self::keeper::Kept;
use self::keeper::Known;
use self::keeper::LetGo;
use self::keeper::MOST_KEPT;
use self::keeper::PLACES;
use self::keeper::STEP_KNOWN;
use self::keeper::STEP_LET_GO;
use self::keeper::Todo;
use self::piece::Lot;
use self::piece::PART;
use self::piece::PIECE;
use self::piece::Piece;
pub(super) use self::piece::is_measured;
use self::piece::lot;
use self::trial::Trial;
use super::At;
use super::Call;
use super::hints::Cost;
use super::hints::Hinted;
use super::hints::PAGE;
use super::withdraw;
use crate::plan::loaded::Plan;
use crate::plan::locks;

/// Of a larger call the rest is not looked at.
const MOST_OF_CALL: u64 = 64 * PIECE;
/// A round, in terms of what may be kept.
const ROUND: u64 = 8;
/// Comparisons in a row without use until the rule is withdrawn.
const MOST_IN_VAIN: u32 = 4;

/// Takes no memory before it is used, as it is all zeros.
static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);

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
        let (kept, left) = comparison.missed;
        for (word, share) in [(OfIo::KeptMissed, kept), (OfIo::LeftMissed, left)] {
            status.set_of_io(self.rule, word, (1000.0 * share) as u64);
        }
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
