//! Guards: the kernel's own where it has them (Linux 6.13), else `mprotect`, of which a process has as many as it may have
//! mappings.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::page;
use crate::settings;
use crate::system;

static HAS_REGIONS: AtomicBool = AtomicBool::new(false);
/// Somewhere a guard region was refused and protection taken in its place.
static IS_MIXED: AtomicBool = AtomicBool::new(false);

/// Mappings that are left to the program, where each object takes two.
const SPARE_MAPPINGS: u64 = 4096;
/// The kernel's default (`DEFAULT_MAX_MAP_COUNT`, include/linux/mm.h).
const USUAL_MAPPINGS: u64 = 65_530;
static MOST_OBJECTS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Objects that can be guarded at once.
#[inline(always)]
pub(crate) fn most_objects() -> u64 {
    MOST_OBJECTS.load(Ordering::Relaxed)
}

/// Tries guard regions on a page that is readable and writable.
pub(crate) fn probe(start: usize) {
    let works = !settings::wants_mprotect()
        && system::install_guards(start, page::bytes())
        && system::is_closed(start)
        && system::remove_guards(start, page::bytes());
    HAS_REGIONS.store(works, Ordering::Relaxed);
    if !works {
        let mappings = system::most_mappings().unwrap_or(USUAL_MAPPINGS);
        MOST_OBJECTS.store(
            mappings.saturating_sub(SPARE_MAPPINGS) / 2,
            Ordering::Relaxed,
        );
    }
}

/// Whether guards are the kernel's own.
pub(crate) fn has_regions() -> bool {
    HAS_REGIONS.load(Ordering::Relaxed)
}

/// Whether all guards are the kernel's own.
pub(crate) fn are_all_regions() -> bool {
    has_regions() && !IS_MIXED.load(Ordering::Relaxed)
}

/// Makes guarded pages accessible: full of zeros where they were closed before. False: there are too many mappings.
#[inline(always)]
pub(crate) fn open(start: usize, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    if are_all_regions() {
        return system::remove_guards(start, bytes);
    }
    system::set_usable(start, bytes, true)
        && (!has_regions() || system::remove_guards(start, bytes))
}

/// Makes guarded ranges (begin and length) accessible, if the kernel does many at once, and memory, if that `is_wanted`. False:
/// it does not, and nothing is lost.
pub(crate) fn open_many(ranges: &[(usize, usize)], is_wanted: bool) -> bool {
    are_all_regions()
        && system::remove_guards_of_many(ranges)
        && (!is_wanted || system::populate_many(ranges))
}

/// Guards pages, whose contents and memory are given up. `arena`: its begin and length, to be freed from locks in memory
/// (`mlockall`), which guard regions do not go with.
pub(crate) fn close(start: usize, bytes: usize, arena: (usize, usize)) -> bool {
    if bytes == 0 {
        return true;
    }
    if has_regions() {
        if system::install_guards(start, bytes)
            || system::unlock(arena.0, arena.1) && system::install_guards(start, bytes)
        {
            return true;
        }
        IS_MIXED.store(true, Ordering::Relaxed);
    }
    system::drop_pages(start, bytes) && system::set_usable(start, bytes, false)
}
