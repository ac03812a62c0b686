//! Which pieces are known and which are kept. Arithmetic without system calls: what is to be mapped, read in or let go, others do once nobody waits
//! for the lock any more.

use std::ops::Range;

use pagewise_abi::plan::MOST_RULES;

use super::piece::PIECE;
use super::piece::Piece;
use super::trial::Trial;
use crate::plan::io::hints::PAGE;

/// Pieces that are known, whether they are kept or not; two places may hold one.
pub(super) const PLACES: usize = 1 << 17;
/// A mapping each, of which a process may have 65,530.
pub(super) const MOST_KEPT: usize = 1 << 14;
/// The number of a piece that is being made.
const RESERVED: u16 = u16::MAX;
/// Pieces that are looked at, or let go, and places that are cleared, while others wait.
const STEP_KEPT: usize = 512;
pub(super) const STEP_LET_GO: usize = 32;
pub(super) const STEP_KNOWN: usize = 4096;

/// What is known of a piece.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Which one it is; 0: none.
    pub(super) tag: u32,
    /// Pages of it that were read in this round, a bit each.
    pub(super) pages: u16,
    /// Its number among those that are kept, from 1; 0: it is not.
    pub(super) kept: u16,
}

/// A piece that is kept.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Where it is mapped; 0: there is none.
    pub(super) start: usize,
    pub(super) bytes: u32,
    /// Where it is known.
    pub(super) place: u32,
    pub(super) descriptor: i32,
    pub(super) rule: u16,
    /// Pages that are held, a bit each; others may be.
    pub(super) held: u16,
    /// It was read in this round.
    pub(super) is_used: bool,
    /// Threads that read pages of it in at this moment.
    pub(super) pins: u16,
    /// It goes as soon as there are none.
    pub(super) is_doomed: bool,
}

pub(super) struct Keeper {
    pub(super) known: [Known; PLACES],
    pub(super) kept: [Kept; MOST_KEPT],
    /// All before it have one.
    pub(super) first_free: usize,
    /// There is no budget for more, or the kernel has refused it.
    pub(super) is_full: bool,
    /// How often all was let go: a piece that was begun before is not kept any more.
    pub(super) clearings: u32,
    pub(super) trials: [Trial; MOST_RULES],
}

/// A piece that was let go: it is nobody's any more, and is still mapped.
pub(super) type LetGo = Kept;

/// What is to be done about a piece that was read, once others can look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    Nothing,
    /// It is to be kept: its number is reserved, since so many clearings.
    Make(u32),
    /// Some pages of it are to be read in, and held: address and bytes. It is pinned until then.
    Hold(u16, usize, usize),
}

impl Kept {
    pub(super) const NONE: Self = Self {
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

impl Known {
    /// Pages of the piece at `start` that a read begins in, or passes over. One that goes on where the one before it has ended was in its first page
    /// already.
    pub(super) fn pages_of(start: u64, read: &Range<u64>, goes_on: bool) -> u16 {
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
    pub(super) const EMPTY: Self = Self {
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
    pub(super) fn read(&mut self, piece: Piece, pages: u16) -> Option<usize> {
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
    pub(super) fn todo(&mut self, place: usize, pages: u16, may_be_kept: bool) -> Todo {
        if self.known[place].kept == 0 && may_be_kept && !self.is_full {
            self.known[place].kept = RESERVED;
            return Todo::Make(self.clearings);
        }
        self.pin(place, pages).unwrap_or(Todo::Nothing)
    }

    /// Pages of a piece that is kept, if it is, are to stay from here on: they were just read.
    pub(super) fn pin(&mut self, place: usize, pages: u16) -> Option<Todo> {
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
    pub(super) fn unpin(&mut self, number: u16) -> Option<LetGo> {
        let piece = &mut self.kept[usize::from(number)];
        piece.pins -= 1;
        (piece.is_doomed && piece.pins == 0).then(|| self.take_out(number.into()))
    }

    /// What was reserved is not made.
    pub(super) fn give_up(&mut self, place: usize) {
        if self.known[place].kept == RESERVED {
            self.known[place].kept = 0;
        }
    }

    /// Makes a reserved piece one that is kept. False: there is no room, or all was let go meanwhile.
    pub(super) fn put(&mut self, piece: Kept, since: u32) -> bool {
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
    pub(super) fn take_out_some(
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
    pub(super) fn forget_known(&mut self, places: Range<usize>) {
        for known in &mut self.known[places] {
            if known.kept == 0 {
                known.tag = 0;
            }
        }
        self.is_full = false;
    }
}

#[cfg(test)]
mod tests {
    use pagewise_interpose::Spin;

    use super::super::piece::mix;
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

    /// A piece that was read again, and is to be made.
    fn read_again(keeper: &mut Keeper) -> (Piece, Kept) {
        let piece = Piece::of(FILE, 0);
        assert!(keeper.read(piece, 1).is_none());
        let place = keeper.read(piece, 1).expect("again");
        assert_eq!(keeper.todo(place, 1, true), Todo::Make(0));
        let kept = Kept {
            start: 4096,
            place: place as u32,
            ..Kept::NONE
        };
        (piece, kept)
    }

    #[test]
    fn a_kept_piece_keeps_its_place_among_others() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        let mut keeper = KEEPER.lock().expect("nobody else's");
        let (piece, kept) = read_again(&mut keeper);
        let place = kept.place as usize;
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
    fn what_was_begun_before_all_was_let_go_is_not_kept() {
        static KEEPER: Spin<Keeper> = Spin::new(Keeper::EMPTY);
        let mut keeper = KEEPER.lock().expect("nobody else's");
        let (_, kept) = read_again(&mut keeper);
        let place = kept.place as usize;
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
}
