//! Pieces of files, and which of them are kept: each by a hash of file and place.

use super::keeper::PLACES;

/// Bytes of a piece.
pub(super) const PIECE: u64 = 64 << 10;
/// Parts of files that are kept, or not, as a whole.
pub(super) const PART: u64 = 256 << 10;
/// One part of so many is never kept, and of one the cost is measured.
const PARTS: u64 = 256;

/// A piece of a file, by a hash.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    hash: u64,
}

impl Piece {
    pub(super) fn of(identity: (u64, u64), offset: u64) -> Self {
        Self {
            hash: mix(mix(identity.0 ^ identity.1.rotate_left(32)) ^ (offset / PIECE)),
        }
    }

    pub(super) fn tag(self) -> u32 {
        self.hash as u32 | 1
    }

    pub(super) fn places(self) -> [usize; 2] {
        let first = (self.hash >> 32) as usize % PLACES;
        [first, first ^ 1]
    }
}

/// splitmix64's finalizer (Steele et al., 2014).
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// What is done with a part of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lot {
    /// It is never kept.
    Left,
    /// It is, and what reads cost is measured.
    Measured,
    /// It is.
    Plain,
}

pub(super) fn lot(identity: (u64, u64), offset: u64) -> Lot {
    match mix(mix(identity.0 ^ identity.1.rotate_left(32)) ^ !(offset / PART)) % PARTS {
        0 => Lot::Left,
        1 => Lot::Measured,
        _ => Lot::Plain,
    }
}

/// Whether the cost of a call at this place is to be measured.
pub(in crate::plan::io) fn is_measured(identity: (u64, u64), offset: u64) -> bool {
    lot(identity, offset) != Lot::Plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (u64, u64) = (8, 4711);

    #[test]
    fn one_of_many_parts_is_never_kept() {
        let parts = (0..1000 * PARTS).map(|part| lot(FILE, part * PART));
        let left = parts.filter(|lot| *lot == Lot::Left).count();
        assert!((800..1200).contains(&left), "{left}");
        let pieces = (0..PART / PIECE).map(|piece| is_measured(FILE, 5 * PART + piece * PIECE));
        let measured = pieces.filter(|is_measured| *is_measured).count() as u64;
        assert!(measured == 0 || measured == PART / PIECE);
    }
}
