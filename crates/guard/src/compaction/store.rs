//! Where compacted objects are: their bytes alone, packed by size.
//!
//! An entry has its object's bytes, rounded up to its class of sizes: a multiple of 4 up to 64, then eight classes for each
//! doubling, up to [`MOST_BYTES`]. It is known by its place in units of 4 bytes, which is the slot's link; size, alignment and
//! call path stay in the slot. Each class has blocks of [`BLOCK`] bytes; entries given back are a list, each holding the number
//! of the next. The compactor alone takes entries; any thread gives them back.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::plain;
use crate::reserve::Reserve;
use crate::system;

/// Objects of more bytes stay where they are: less than half of a page would be won.
pub(crate) const MOST_BYTES: usize = 2048;
const UNIT: usize = 4;
const BLOCK: usize = 64 << 10;
/// As far as numbers of units reach.
const MOST_STORE: usize = 16 << 30;
/// Of what a limit of the address space leaves, one part in so many.
const SHARE_OF_LIMIT: usize = 16;
/// Classes of sizes: 16 up to 64 bytes, 8 for each doubling from there.
const CLASSES: usize = 16 + 5 * 8;
/// No entry: the store's first unit is never used.
const NONE: u32 = 0;

static MEMORY: Reserve = Reserve::new();
/// Bytes handed out to classes, in blocks.
static USED: AtomicUsize = AtomicUsize::new(BLOCK);
/// The newest block's rest, by class: for the compactor only.
static FRESH: [[AtomicUsize; 2]; CLASSES] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; CLASSES];
static FREE: [AtomicU32; CLASSES] = [const { AtomicU32::new(NONE) }; CLASSES];

/// Class of a size, and how long its entries are.
fn class_of(bytes: usize) -> (usize, usize) {
    let units = bytes.max(1).div_ceil(UNIT);
    if units <= 16 {
        return (units - 1, units * UNIT);
    }
    // Eight steps from one power of two to the next.
    let power = (units - 1).ilog2();
    let step = 1 << (power - 3);
    let steps = (units - (1 << power)).div_ceil(step);
    (
        16 + (power as usize - 4) * 8 + steps - 1,
        ((1 << power) + steps * step) * UNIT,
    )
}

/// Reserves addresses. False: there are none.
pub(super) fn prepare() -> bool {
    if MEMORY.start() != 0 {
        return true;
    }
    let bytes = match system::space_left() {
        None => MOST_STORE,
        Some(limit) => (limit / SHARE_OF_LIMIT).next_multiple_of(2 << 20),
    };
    MEMORY.make(bytes.min(MOST_STORE))
}

/// Bytes of memory that it takes.
pub(crate) fn bytes() -> usize {
    match MEMORY.start() {
        0 => 0,
        _ => USED.load(Ordering::Relaxed),
    }
}

/// Its addresses.
pub(crate) fn place() -> std::ops::Range<usize> {
    MEMORY.start()..MEMORY.start() + MEMORY.bytes()
}

/// Where an entry is.
pub(crate) fn address(entry: u32) -> usize {
    MEMORY.start() + entry as usize * UNIT
}

fn next(entry: u32) -> &'static AtomicU32 {
    // SAFETY: of an entry in a block that is memory for ever, at a multiple of its size.
    unsafe { &*(address(entry) as *const AtomicU32) }
}

/// Keeps a copy of so many bytes. For the compactor only. `None`: there is no memory.
///
/// # Safety
/// The bytes must be readable.
pub(super) unsafe fn keep(from: usize, bytes: usize) -> Option<u32> {
    let (class, entry_bytes) = class_of(bytes);
    let entry = take_free(class).or_else(|| take_fresh(class, entry_bytes))?;
    // SAFETY: an entry of at least so many bytes that nobody else knows; the rest by our caller.
    unsafe { plain::copy(address(entry) as *mut u8, from as *const u8, bytes) };
    Some(entry)
}

/// As nobody else takes, what is first stays in the list until it is taken here.
fn take_free(class: usize) -> Option<u32> {
    let mut first = FREE[class].load(Ordering::Acquire);
    while first != NONE {
        let second = next(first).load(Ordering::Relaxed);
        match FREE[class].compare_exchange(first, second, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(first),
            Err(now) => first = now,
        }
    }
    None
}

fn take_fresh(class: usize, entry_bytes: usize) -> Option<u32> {
    let [start, end] = &FRESH[class];
    if start.load(Ordering::Relaxed) + entry_bytes > end.load(Ordering::Relaxed) {
        let block = USED.load(Ordering::Relaxed);
        if !MEMORY.use_up_to(block + BLOCK) {
            return None;
        }
        USED.store(block + BLOCK, Ordering::Relaxed);
        start.store(block, Ordering::Relaxed);
        end.store(block + BLOCK, Ordering::Relaxed);
    }
    let place = start.fetch_add(entry_bytes, Ordering::Relaxed);
    Some((place / UNIT) as u32)
}

/// Gives an entry of an object of so many bytes back.
pub(super) fn give_back(entry: u32, bytes: usize) {
    let (class, _) = class_of(bytes);
    let mut first = FREE[class].load(Ordering::Relaxed);
    loop {
        next(entry).store(first, Ordering::Relaxed);
        match FREE[class].compare_exchange(first, entry, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn classes_hold_their_sizes_with_little_waste_and_in_order() {
        let mut last = class_of(1);
        for bytes in 1..=MOST_BYTES {
            let (class, entry) = class_of(bytes);
            assert!(
                entry >= bytes && class < CLASSES,
                "{bytes}: {class} {entry}"
            );
            assert!(entry - bytes <= 3 + bytes / 8, "{bytes}: {entry}");
            let is_next = class == last.0 + 1 && entry > last.1;
            assert!(
                (class, entry) == last || is_next,
                "{bytes}: {class} {entry}"
            );
            last = (class, entry);
        }
        assert_eq!(class_of(12).1, 12);
    }

    #[test]
    fn entries_keep_their_bytes_while_others_come_and_go_from_any_thread() {
        assert!(prepare());
        let mut kept: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut seed = 7u64;
        for round in 0..20_000u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = (seed >> 33) as usize % 100;
            let contents: Vec<u8> = (0..bytes).map(|at| (at as u32 ^ round) as u8).collect();
            // SAFETY: a vector of that length.
            let entry = unsafe { keep(contents.as_ptr() as usize, bytes) }.expect("memory");
            assert!(kept.insert(entry, contents).is_none(), "handed out twice");
            if kept.len() > 2000 {
                let gone: Vec<u32> = kept.keys().copied().step_by(3).collect();
                std::thread::scope(|scope| {
                    for part in gone.chunks(gone.len().div_ceil(2)) {
                        let kept = &kept;
                        scope.spawn(move || {
                            part.iter()
                                .for_each(|entry| give_back(*entry, kept[entry].len()))
                        });
                    }
                });
                kept.retain(|entry, _| !gone.contains(entry));
            }
        }
        for (entry, contents) in &kept {
            // SAFETY: an entry of that many bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts(address(*entry) as *const u8, contents.len()) };
            assert_eq!(bytes, contents);
        }
    }
}
