//! Whether an address may be one that an object is released by: asked of each release, and nearly always answered by no.

use std::ops::Range;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

const FILTER: usize = 4096;
/// The same for blocks of joined objects, of which there are many.
const BLOCK_FILTER: usize = 1 << 16;

/// How many objects are released by addresses of this hash.
static OWNERS: [AtomicU8; FILTER] = [const { AtomicU8::new(0) }; FILTER];
/// The same of blocks of joined objects,
static BLOCKS: [AtomicU8; BLOCK_FILTER] = [const { AtomicU8::new(0) }; BLOCK_FILTER];
/// which all lie, and lay, between these addresses.
static JOINED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static JOINED_TO: AtomicUsize = AtomicUsize::new(0);

fn owner(address: usize) -> &'static AtomicU8 {
    let hash = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &OWNERS[(hash >> 52) as usize]
}

fn block(address: usize) -> &'static AtomicU8 {
    let hash = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &BLOCKS[(hash >> 48) as usize]
}

/// One more; a counter that is full stays so.
fn count_up(counter: &AtomicU8) {
    let relaxed = Ordering::Relaxed;
    let _ = counter.fetch_update(relaxed, relaxed, |count| count.checked_add(1));
}

fn count_down(counter: &AtomicU8) {
    let relaxed = Ordering::Relaxed;
    let _ = counter.fetch_update(relaxed, relaxed, |count| {
        (count != u8::MAX).then(|| count.saturating_sub(1))
    });
}

/// Whether an object may be released by this address, or a block of a joined one.
#[inline(always)]
pub(super) fn may_own(address: usize) -> bool {
    owner(address).load(Ordering::Relaxed) != 0 || may_be_block(address)
}

/// Whether a block of a joined object may begin there.
#[inline(always)]
pub(super) fn may_be_block(address: usize) -> bool {
    address >= JOINED_FROM.load(Ordering::Relaxed)
        && address < JOINED_TO.load(Ordering::Relaxed)
        && block(address).load(Ordering::Relaxed) != 0
}

/// An object is released by this address.
pub(super) fn add(address: usize) {
    count_up(owner(address));
}

/// One is no longer.
pub(super) fn remove(address: usize) {
    count_down(owner(address));
}

/// A block of a joined object begins there.
pub(super) fn add_block(address: usize) {
    count_up(block(address));
}

/// It does no longer.
pub(super) fn remove_block(address: usize) {
    count_down(block(address));
}

/// A joined object lies there.
pub(super) fn note_joined(range: &Range<usize>) {
    JOINED_FROM.fetch_min(range.start, Ordering::Relaxed);
    JOINED_TO.fetch_max(range.end, Ordering::Relaxed);
}

/// In a forked child.
pub(super) fn forget() {
    for counter in &OWNERS {
        counter.store(0, Ordering::Relaxed);
    }
    // Of a process that has joined none, these pages were never touched.
    if JOINED_TO.swap(0, Ordering::Relaxed) > 0 {
        JOINED_FROM.store(usize::MAX, Ordering::Relaxed);
        for counter in &BLOCKS {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
