//! Pages by number, in order of first appearance.

use pagewise_simulate::MAX_PAGES;

/// An open-addressing hash table from keys to numbers.
///
/// Keys that differ only in their lowest three bits lie in one cache line, because the pages of a trace come in runs: eight
/// slots make a group, the upper bits choose the group, the lower bits the slot in it, and a slot that is taken sends the
/// key to the same slot of the next group. A slot is half number and half hash; the key itself is read only to confirm.
///
/// Memory: 8 bytes a page for keys, and 13 to 27 for slots.
pub(crate) struct Interner {
    /// Upper half: the hash's lower half. Lower half: the number plus one, 0 if the slot is free.
    slots: Vec<u64>,
    /// By number.
    keys: Vec<u64>,
    /// How far the hash is shifted to give a group.
    shift: u32,
}

const GROUP: usize = 8;
/// 128 KiB of slots.
const FIRST_GROUPS: usize = 1 << 11;

/// Slots up to which a table grows fourfold: 1 MiB.
const FAST_GROWTH: usize = 1 << 17;

/// Slots from which on a table does not fit into a second-level cache beside the rest: 512 KiB.
const LARGE: usize = 1 << 16;

/// Numbers are all used up.
#[derive(Debug)]
pub(crate) struct Full;

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![0; FIRST_GROUPS * GROUP],
            keys: Vec::new(),
            shift: u64::BITS - FIRST_GROUPS.ilog2(),
        }
    }

    /// Pages seen.
    pub(crate) fn len(&self) -> u32 {
        self.keys.len() as u32
    }

    /// The key that has this number.
    pub(crate) fn key(&self, number: u32) -> Option<u64> {
        self.keys.get(number as usize).copied()
    }

    /// The page's number.
    #[inline]
    pub(crate) fn number(&mut self, key: u64) -> Result<u32, Full> {
        let hash = hash(key);
        let mut slot = self.first_slot(key, hash);
        let mask = self.slots.len() - 1;
        loop {
            let found = self.slots[slot & mask];
            if found as u32 == 0 {
                return self.insert(key, hash, slot & mask);
            }
            if found >> 32 == hash & u64::from(u32::MAX) {
                let number = found as u32 - 1;
                if self.keys[number as usize] == key {
                    return Ok(number);
                }
            }
            slot += GROUP;
        }
    }

    /// Loads where these keys will be looked for: one after the other, but without waiting for any, so that lookups find
    /// a large table's lines in the cache. (Prefetch instructions would be `unsafe`.)
    pub(crate) fn warm(&self, keys: impl Iterator<Item = u64>) {
        if self.slots.len() < LARGE {
            return;
        }
        let mask = self.slots.len() - 1;
        let loaded = keys.fold(0, |all, key| {
            let found = self.slots[self.first_slot(key, hash(key)) & mask];
            let number = (found as u32).wrapping_sub(1);
            all ^ self.keys.get(number as usize).copied().unwrap_or(0)
        });
        std::hint::black_box(loaded);
    }

    #[inline]
    fn first_slot(&self, key: u64, hash: u64) -> usize {
        let within = (key ^ hash) as usize % GROUP;
        (hash >> self.shift) as usize * GROUP + within
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, key: u64, hash: u64, slot: usize) -> Result<u32, Full> {
        let number = self.len();
        if number == MAX_PAGES {
            return Err(Full);
        }
        self.keys.push(key);
        self.slots[slot] = pack(hash, number);
        // At most 5/8 full: beyond, searches for what is not there become long.
        if self.keys.len() * 8 > self.slots.len() * 5 {
            self.grow();
        }
        Ok(number)
    }

    fn grow(&mut self) {
        // Small tables grow faster: memory that is new to the process costs more than moving the keys.
        let doublings = if self.slots.len() < FAST_GROWTH { 2 } else { 1 };
        let slots = self.slots.len() << doublings;
        self.slots = Vec::new();
        self.slots = vec![0; slots];
        self.shift -= doublings;
        let mask = slots - 1;
        for (number, &key) in (0..).zip(&self.keys) {
            let hash = hash(key);
            let mut slot = self.first_slot(key, hash);
            while self.slots[slot & mask] as u32 != 0 {
                slot += GROUP;
            }
            self.slots[slot & mask] = pack(hash, number);
        }
    }
}

fn pack(hash: u64, number: u32) -> u64 {
    hash << 32 | u64::from(number + 1)
}

/// Of the key's group: the same for keys that share a cache line. Folded multiplication by an odd constant.
#[inline]
fn hash(key: u64) -> u64 {
    let group = key / GROUP as u64;
    let mixed = group ^ group >> 32;
    let product = u128::from(mixed ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_map(
            keys in prop::collection::vec(prop_oneof![0..5000_u64, any::<u64>(), (0..99_u64).prop_map(|k| k << 55)], 0..9000),
            stride in 0..20_u32,
        ) {
            let mut interner = Interner::new();
            let mut map = HashMap::new();
            for key in keys.into_iter().map(|key| key.rotate_left(stride)) {
                let next = map.len() as u32;
                let expected = *map.entry(key).or_insert(next);
                prop_assert_eq!(interner.number(key).unwrap(), expected);
            }
            prop_assert_eq!(interner.len() as usize, map.len());
        }
    }

    #[test]
    fn aligned_keys_do_not_crowd() {
        for shift in 0..=47 {
            let mut interner = Interner::new();
            for key in 0..80_000_u64 {
                interner.number(key << shift).unwrap();
            }
            let mask = interner.slots.len() - 1;
            let probes: usize = (0..80_000_u64)
                .map(|key| {
                    let key = key << shift;
                    let mut slot = interner.first_slot(key, hash(key));
                    let mut probes = 1;
                    let wanted = pack(hash(key), interner.number(key).unwrap());
                    while interner.slots[slot & mask] != wanted {
                        slot += GROUP;
                        probes += 1;
                    }
                    probes
                })
                .sum();
            assert!(probes < 240_000, "shift {shift}: {probes} probes");
        }
    }
}
