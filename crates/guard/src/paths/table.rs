//! Finds the number of a path by its hash. The table is made twice as large whenever it is half full, so that a program with few
//! paths touches few pages for it. Who looks a path up takes no lock; who adds one does.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::Spin;

/// Of how many places it is at first, and at last: 2 to the power of this.
const FIRST_BITS: u32 = 10;
const LAST_BITS: u32 = 20;
/// Places that a path may be at, before it is given up.
const TRIES: usize = 64;
/// Paths it holds, at most.
pub(super) const MOST: usize = 1 << LAST_BITS;

/// A table of each size, that of n places from place n on. A smaller one is left as it was when the next one is there: somebody may still
/// look at it.
static PLACES: [AtomicU32; 2 << LAST_BITS] = [const { AtomicU32::new(0) }; 2 << LAST_BITS];
static BITS: AtomicU32 = AtomicU32::new(FIRST_BITS);
static ENTRIES: AtomicUsize = AtomicUsize::new(0);
static ADDING: Spin<()> = Spin::new(());

/// What is found or added: its hash, whether a number is its, and the hash of any number, for a larger table.
pub(super) struct Wanted<S, H> {
    pub(super) hash: u64,
    pub(super) is_same: S,
    pub(super) hash_of: H,
}

/// Paths in it.
pub(super) fn entries() -> usize {
    ENTRIES.load(Ordering::Relaxed)
}

/// In a forked child: a thread that is not there may have been adding.
pub(super) fn after_fork() {
    ADDING.break_open();
}

fn places(bits: u32) -> &'static [AtomicU32] {
    &PLACES[1 << bits..2 << bits]
}

fn tries(places: &[AtomicU32], hash: u64) -> impl Iterator<Item = &AtomicU32> {
    let first = hash as usize;
    (first..first + TRIES).map(|place| &places[place & (places.len() - 1)])
}

impl<S: Fn(u32) -> bool, H: Fn(u32) -> u64> Wanted<S, H> {
    /// Its number; 0: it is not there.
    pub(super) fn find(&self) -> u32 {
        let bits = BITS.load(Ordering::Acquire);
        tries(places(bits), self.hash)
            .map(|place| place.load(Ordering::Acquire))
            .find(|&number| number == 0 || (self.is_same)(number))
            .unwrap_or(0)
    }

    /// Its number, which `write` makes up if it is not there; 0: there is no room, or the lock is not to be had, as where a
    /// handler interrupted who adds.
    pub(super) fn find_or_add(&self, write: impl FnOnce() -> u32) -> u32 {
        let number = self.find();
        match number {
            0 => self.add(write),
            _ => number,
        }
    }

    #[cold]
    fn add(&self, write: impl FnOnce() -> u32) -> u32 {
        let Some(_held) = ADDING.lock() else {
            return 0;
        };
        // Somebody else may have added it.
        let mut number = self.find();
        if number == 0 {
            self.make_room();
            number = write();
            let places = places(BITS.load(Ordering::Relaxed));
            if number == 0 || !put(places, self.hash, number) {
                return 0;
            }
            ENTRIES.fetch_add(1, Ordering::Relaxed);
        }
        number
    }

    /// Goes on to the next size where the table is half full. By who holds the lock.
    fn make_room(&self) {
        let bits = BITS.load(Ordering::Relaxed);
        if bits == LAST_BITS || entries() < 1 << (bits - 1) {
            return;
        }
        let larger = places(bits + 1);
        for place in places(bits) {
            let number = place.load(Ordering::Relaxed);
            if number != 0 {
                // One for which there is no place is added again when it comes again.
                put(larger, (self.hash_of)(number), number);
            }
        }
        BITS.store(bits + 1, Ordering::Release);
    }
}

/// False: there is no place for it. Twice is as once: a child may have a table that its parent had not finished.
fn put(places: &[AtomicU32], hash: u64, number: u32) -> bool {
    let is_for_it = |place: &&AtomicU32| [0, number].contains(&place.load(Ordering::Relaxed));
    let place = tries(places, hash).find(is_for_it);
    place
        .inspect(|place| place.store(number, Ordering::Release))
        .is_some()
}
