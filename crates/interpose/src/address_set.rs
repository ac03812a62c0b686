//! The addresses of recorded allocations that are alive, so that `free` knows which of the many to tell of.
//!
//! A small filter answers nearly every question with one byte: zero means no. Behind it are tables of exact addresses,
//! one larger than the other; the next is used where the one before is full, so a program with few recorded
//! allocations touches few pages of them. All are zero memory of this library, without start-up, locks or allocation,
//! and a forked child has its copy.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

const FILTER_BITS: u32 = 16;
const SLOTS: usize = 8;
const SMALL_BITS: u32 = 10;
const MIDDLE_BITS: u32 = 13;
const LARGE_BITS: u32 = 16;
/// A counter that got this far no longer counts.
const STUCK: u8 = u8::MAX;

/// One cache line of addresses; 0 is a free slot.
#[repr(align(64))]
struct Bucket([AtomicU64; SLOTS]);

impl Bucket {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|slot| {
            slot.load(Ordering::Relaxed) == from
                && slot
                    .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
        })
    }
}

/// A set of up to half a million addresses. Any thread may use it at any time; who inserts or removes an address must
/// own the allocation there.
pub struct AddressSet {
    filter: [AtomicU8; 1 << FILTER_BITS],
    small: [Bucket; 1 << SMALL_BITS],
    middle: [Bucket; 1 << MIDDLE_BITS],
    large: [Bucket; 1 << LARGE_BITS],
}

impl AddressSet {
    /// An empty set.
    pub const fn new() -> Self {
        Self {
            filter: [const { AtomicU8::new(0) }; 1 << FILTER_BITS],
            small: [const { Bucket::new() }; 1 << SMALL_BITS],
            middle: [const { Bucket::new() }; 1 << MIDDLE_BITS],
            large: [const { Bucket::new() }; 1 << LARGE_BITS],
        }
    }

    fn counter(&self, address: usize) -> &AtomicU8 {
        &self.filter[(hash(address) >> (u64::BITS - FILTER_BITS)) as usize]
    }

    /// False: certainly not in the set.
    #[inline(always)]
    pub fn may_hold(&self, address: usize) -> bool {
        self.counter(address).load(Ordering::Relaxed) != 0
    }

    /// From now on [`AddressSet::may_hold`] is true of every address.
    pub fn suspect_all(&self) {
        for counter in &self.filter {
            counter.store(STUCK, Ordering::Relaxed);
        }
    }

    /// False: no room.
    pub fn insert(&self, address: usize) -> bool {
        let key = address as u64;
        // Released without our being told, and handed out again.
        if self.may_hold(address) && self.find(key, key) {
            return true;
        }
        let _ = self
            .counter(address)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count != STUCK).then(|| count + 1)
            });
        let inserted = self.find(0, key);
        if !inserted {
            self.uncount(address);
        }
        inserted
    }

    /// Whether it was in the set.
    pub fn remove(&self, address: usize) -> bool {
        let removed = self.find_for(address, address as u64, 0);
        if removed {
            self.uncount(address);
        }
        removed
    }

    fn uncount(&self, address: usize) {
        let _ = self
            .counter(address)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count != STUCK && count != 0).then(|| count - 1)
            });
    }

    /// Replaces a slot's `from` by `to` in the buckets of the address `to`.
    fn find(&self, from: u64, to: u64) -> bool {
        self.find_for(to as usize, from, to)
    }

    fn find_for(&self, address: usize, from: u64, to: u64) -> bool {
        let hash = hash(address);
        // Two places to be in each table: they fill up evenly.
        let places = [hash, hash.rotate_left(32)];
        let tables: [&[Bucket]; 3] = [&self.small, &self.middle, &self.large];
        tables.iter().any(|table| {
            places
                .iter()
                .any(|place| table[*place as usize >> 8 & (table.len() - 1)].replace(from, to))
        })
    }
}

impl Default for AddressSet {
    fn default() -> Self {
        Self::new()
    }
}

/// Addresses are multiples of 16 at least, and near each other.
#[inline(always)]
fn hash(address: usize) -> u64 {
    (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x5555_5555_0000;

    #[test]
    fn holds_what_was_inserted_and_nothing_else() {
        static SET: AddressSet = AddressSet::new();
        for index in 0..100_000 {
            assert!(SET.insert(BASE + index * 48));
        }
        for index in 0..100_000 {
            assert!(SET.may_hold(BASE + index * 48));
            assert!(!SET.remove(BASE + index * 48 + 16));
            assert!(SET.remove(BASE + index * 48));
            assert!(!SET.remove(BASE + index * 48));
        }
    }

    #[test]
    fn a_set_emptied_again_says_no_at_once() {
        static SET: AddressSet = AddressSet::new();
        for index in 0..5000 {
            assert!(SET.insert(BASE + index * 64));
        }
        for index in 0..5000 {
            assert!(SET.remove(BASE + index * 64));
        }
        assert!((0..5000).all(|index| !SET.may_hold(BASE + index * 64)));
    }

    #[test]
    fn a_full_set_says_so() {
        static SET: AddressSet = AddressSet::new();
        let room = SLOTS << LARGE_BITS;
        let held = (0..2 * room)
            .filter(|index| SET.insert(BASE + index * 16))
            .count();
        assert!(held > room / 2 && held < 2 * room, "{held}");
    }

    #[test]
    fn threads_do_not_lose_each_others_addresses() {
        static SET: AddressSet = AddressSet::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..50 {
                        let own =
                            |index: usize| BASE + (thread * 1_000_000 + index * 7 + round) * 16;
                        assert!((0..500).all(|index| SET.insert(own(index))));
                        assert!((0..500).all(|index| SET.remove(own(index))));
                    }
                });
            }
        });
    }
}
