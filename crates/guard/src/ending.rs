//! The end of a process: what is still alive is looked at, and a summary told.

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::guard::Compaction;
use pagewise_abi::guard::HISTOGRAM;
use pagewise_abi::guard::Summary;
use pagewise_interpose::Registers;
use pagewise_interpose::Symbol;
use pagewise_interpose::capture;
use pagewise_interpose::process_id;

use crate::checks;
use crate::compaction;
use crate::heap;
use crate::leaks;
use crate::paths;
use crate::protect;
use crate::report;
use crate::sandbox;
use crate::settings;
use crate::signals;
use crate::unguarded;

type Exit = unsafe extern "C" fn(c_int) -> !;

// SAFETY: the C library's type for the function of this name.
static EXIT: Symbol<Exit> = unsafe { Symbol::new(c"_exit") };

// SAFETY: as above.
static QUICK_EXIT: Symbol<Exit> = unsafe { Symbol::new(c"quick_exit") };

/// The process that this memory belongs to: a child of `vfork` only borrows it.
static OWNER: AtomicU32 = AtomicU32::new(0);
static WAS_LOOKED_AT: AtomicBool = AtomicBool::new(false);

/// Forks on the way from the first process to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// After how many forks this process is.
#[inline(always)]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Whether this process has the memory for itself: a child by `vfork` only borrows it.
pub(crate) fn is_of_this_process() -> bool {
    OWNER.load(Ordering::Relaxed) == sandbox::process()
}

pub(crate) fn prepare() {
    EXIT.look_up();
    OWNER.store(process_id(), Ordering::Relaxed);
}

pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    OWNER.store(process_id(), Ordering::Relaxed);
}

/// Looks at what is alive, once, and tells the summary. `leaks`: where there is time for them.
fn look(registers: Registers, leaks: bool) {
    if !is_of_this_process() || WAS_LOOKED_AT.swap(true, Ordering::Relaxed) {
        return;
    }
    heap::visit_live(&mut |arena, seen| {
        // What is in the store was looked at when it went there. Other threads still run: what they give back is no more read.
        if !seen.facts.is_compacted
            && let Some(address) = checks::damage_if_there(&seen.placed)
            && arena.slot(seen.number).facts() == seen.facts
        {
            report::damage_at_end(&seen, address, registers);
        }
    });
    if leaks && settings::wants_leaks() {
        leaks::look();
    }
    summarize();
}

/// Run by `exit`, after the program's own handlers.
#[cfg_attr(test, expect(dead_code, reason = "tests are not preloaded"))]
pub(crate) extern "C" fn at_end() {
    look(capture(), true);
}

/// Run by a handler, wherever the program was interrupted.
pub(crate) fn at_signal() {
    look(capture(), false);
}

/// Tells what was done so far.
pub(crate) fn summarize() {
    // A program that allocates nothing has no heap.
    let counts = heap::counts().map(|(counts, _)| counts).unwrap_or_default();
    let Some(ring) = report::ring_at_hand() else {
        return;
    };
    let (mut sizes, mut compacted_sizes) = ([0; HISTOGRAM], [0; HISTOGRAM]);
    heap::visit_live(&mut |_, seen| {
        let class = class_of(seen.placed.bytes);
        sizes[class] += 1;
        compacted_sizes[class] += u64::from(seen.facts.is_compacted);
    });
    let (compaction, refused) = match (settings::memory(), compaction::status()) {
        (None, _) => (Compaction::NotWanted, 0),
        (_, None) => (Compaction::NotNeeded, 0),
        (_, Some(Ok(()))) => (Compaction::Done, 0),
        (_, Some(Err(why))) => (Compaction::Refused, why),
    };
    let told = compaction::told();
    let summary = Summary {
        pid: sandbox::process(),
        has_guard_regions: protect::has_regions(),
        allocations: counts.allocations,
        unguarded: unguarded::COUNT.load(Ordering::Relaxed),
        peak_objects: counts.peak,
        peak_bytes: counts.peak_bytes,
        live_objects: counts.live,
        live_bytes: counts.live_bytes,
        own_bytes: (heap::own_bytes() + paths::bytes()) as u64,
        repaired: signals::REPAIRED.load(Ordering::Relaxed),
        cut_paths: paths::CUT.load(Ordering::Relaxed),
        paths: paths::WALKED.load(Ordering::Relaxed),
        left_out: unguarded::LEFT_OUT.load(Ordering::Relaxed),
        reused_early: counts.reused_early,
        sizes,
        compaction,
        compaction_errno: refused as u32,
        compacted_objects: told.objects,
        compacted_bytes: told.bytes,
        store_bytes: compaction::store_bytes() as u64,
        compactions: told.compactions,
        restores: told.restores,
        resident_bytes: told.resident,
        compacted_sizes,
    };
    ring.write(Summary::WIRE_BYTES, |place| summary.encode(place));
}

/// The smallest power of two that is at least the size, or the last class.
fn class_of(bytes: usize) -> usize {
    let power = bytes.max(1).next_power_of_two().trailing_zeros() as usize;
    power.min(HISTOGRAM - 1)
}

fn exit_at_once(code: c_int, registers: Registers) -> ! {
    look(registers, true);
    if let Some(real) = EXIT.known() {
        // SAFETY: the same call as our caller's.
        unsafe { real(code) }
    }
    // SAFETY: ends the process.
    unsafe { libc::syscall(libc::SYS_exit_group, libc::c_long::from(code)) };
    unreachable!("the process has ended")
}

/// # Safety
/// As _exit(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _exit(code: c_int) -> ! {
    exit_at_once(code, capture())
}

/// # Safety
/// As _Exit(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, expect(non_snake_case, reason = "the C library's name"))]
pub unsafe extern "C" fn _Exit(code: c_int) -> ! {
    exit_at_once(code, capture())
}

/// # Safety
/// As quick_exit(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn quick_exit(code: c_int) -> ! {
    look(capture(), true);
    if let Some(real) = QUICK_EXIT.look_up() {
        // SAFETY: the same call as our caller's.
        unsafe { real(code) }
    }
    exit_at_once(code, capture())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_classes() {
        for (bytes, class) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (12, 4),
            (16, 4),
            (17, 5),
            (32768, 15),
            (40000, 16),
            (1 << 30, 16),
        ] {
            assert_eq!(class_of(bytes), class, "{bytes}");
        }
    }
}
