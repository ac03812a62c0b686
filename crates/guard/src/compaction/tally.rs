//! How much is where, counted as it comes and goes.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicIsize;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::arena::MOST_CHUNKS;

/// Bytes of the pages of objects of up to 16 pages that are not in the store. Below 0 where some were made before the limit
/// was known, and given back since.
static RESIDENT: AtomicIsize = AtomicIsize::new(0);
/// So many bytes more than the limit: nothing more was found to be compacted.
static BEYOND: AtomicUsize = AtomicUsize::new(0);
/// Objects of each chunk that are not in the store.
static IN_CHUNK: [AtomicU16; MOST_CHUNKS] = [const { AtomicU16::new(0) }; MOST_CHUNKS];
/// In which something was made or brought back since they were last looked at.
static IS_RECENT: [AtomicBool; MOST_CHUNKS] = [const { AtomicBool::new(false) }; MOST_CHUNKS];
/// Chunks from here on never had an object.
static END: AtomicUsize = AtomicUsize::new(0);
static COMPACTED: AtomicU64 = AtomicU64::new(0);
static COMPACTED_BYTES: AtomicU64 = AtomicU64::new(0);
static COMPACTIONS: AtomicU64 = AtomicU64::new(0);
static RESTORES: AtomicU64 = AtomicU64::new(0);

/// For the summary.
pub(crate) struct Told {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) compactions: u64,
    pub(crate) restores: u64,
    pub(crate) resident: u64,
}

/// What was counted so far.
pub(crate) fn told() -> Told {
    Told {
        objects: COMPACTED.load(Ordering::Relaxed),
        bytes: COMPACTED_BYTES.load(Ordering::Relaxed),
        compactions: COMPACTIONS.load(Ordering::Relaxed),
        restores: RESTORES.load(Ordering::Relaxed),
        resident: resident() as u64,
    }
}

pub(super) fn came(chunk: usize, bytes: usize) {
    RESIDENT.fetch_add(bytes as isize, Ordering::Relaxed);
    IN_CHUNK[chunk].fetch_add(1, Ordering::Relaxed);
    IS_RECENT[chunk].store(true, Ordering::Relaxed);
    if chunk >= END.load(Ordering::Relaxed) {
        END.fetch_max(chunk + 1, Ordering::Relaxed);
    }
}

/// Chunks from here on never had an object.
pub(super) fn end() -> usize {
    END.load(Ordering::Relaxed)
}

pub(super) fn went(chunk: usize, bytes: usize) {
    RESIDENT.fetch_sub(bytes as isize, Ordering::Relaxed);
    IN_CHUNK[chunk].fetch_sub(1, Ordering::Relaxed);
}

/// An object of a page was brought back.
pub(super) fn came_back(chunk: usize, bytes: usize, page_bytes: usize) {
    RESTORES.fetch_add(1, Ordering::Relaxed);
    left_store(bytes);
    came(chunk, page_bytes);
}

/// An object of a page went to the store.
pub(super) fn went_to_store(chunk: usize, bytes: usize, page_bytes: usize) {
    COMPACTIONS.fetch_add(1, Ordering::Relaxed);
    COMPACTED.fetch_add(1, Ordering::Relaxed);
    COMPACTED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    went(chunk, page_bytes);
}

pub(super) fn left_store(bytes: usize) {
    COMPACTED.fetch_sub(1, Ordering::Relaxed);
    COMPACTED_BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}

pub(super) fn compacted() -> u64 {
    COMPACTED.load(Ordering::Relaxed)
}

pub(super) fn resident() -> usize {
    RESIDENT.load(Ordering::Relaxed).max(0) as usize
}

/// Whether there is more than may be, and more than could not be helped.
pub(super) fn is_over(limit: usize) -> bool {
    resident() > limit.saturating_add(BEYOND.load(Ordering::Relaxed))
}

/// Says how much more than the limit cannot be helped for now.
pub(super) fn set_beyond(bytes: usize) {
    BEYOND.store(bytes, Ordering::Relaxed);
}

pub(super) fn in_chunk(chunk: usize) -> u16 {
    IN_CHUNK[chunk].load(Ordering::Relaxed)
}

/// Whether something came since it was last asked.
pub(super) fn was_recent(chunk: usize) -> bool {
    IS_RECENT[chunk].swap(false, Ordering::Relaxed)
}
