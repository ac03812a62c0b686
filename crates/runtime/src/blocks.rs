//! Which blocks of the allocator are recorded: every large one, and of the small ones a sample.
//!
//! What happens on each call is a few instructions here; all else is out of line.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_interpose as interpose;
use pagewise_interpose::AddressSet;
use pagewise_interpose::Sampler;

use crate::pace;
use crate::settings;
use crate::stream;
use crate::stream::Made;

/// The recorded blocks that are alive.
static RECORDED: AddressSet = AddressSet::new();
/// There was no room for a block among them, or all are recorded: each release is told.
static TELL_ALL: AtomicBool = AtomicBool::new(false);
/// Threads that have allocated, to tell their random numbers apart.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// This process was forked from another that was recorded.
static FORKED: AtomicBool = AtomicBool::new(false);

// Without a destructor: it serves the thread's last destructors too.
thread_local!(static SAMPLER: Sampler = const { Sampler::new() });

/// Run when this library is loaded: later, the allocator may be who called us.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    // SAFETY: the handler is a function of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    SAMPLER.with(Sampler::reset);
}

/// Whether [`made`] wants to hear of this allocation.
#[inline(always)]
pub(crate) fn is_due(bytes: usize) -> bool {
    settings::is_large(bytes) || SAMPLER.with(|sampler| sampler.pass(bytes))
}

/// A block was allocated that is due.
#[cold]
pub(crate) fn made(made: Made) {
    if made.address == 0 {
        return;
    }
    let large = settings::is_large(made.bytes);
    let sample_bytes = if large {
        0
    } else {
        match SAMPLER.with(|sampler| choose(sampler, made.bytes)) {
            Some(mean) => mean,
            None => return,
        }
    };
    if settings::is_full_recording() {
        if !TELL_ALL.swap(true, Ordering::Relaxed) {
            RECORDED.suspect_all();
        }
    } else if !RECORDED.insert(made.address) {
        if !large {
            return; // chance decides which: the address, and not the site
        }
        TELL_ALL.store(true, Ordering::Relaxed);
        RECORDED.suspect_all();
    }
    stream::allocated(made, sample_bytes);
}

/// The mean distance of samples by which this allocation is chosen, if it is.
fn choose(sampler: &Sampler, bytes: usize) -> Option<u32> {
    if !settings::are_known() {
        return None; // too early in the process's life; the next allocation asks again
    }
    if !sampler.is_seeded() {
        sampler.seed(seed(), pace::mean(), bytes);
    }
    sampler.choose(pace::mean())
}

/// The same for the same thread of the same program, but of forked children each has its own.
fn seed() -> u64 {
    let thread = THREADS.fetch_add(1, Ordering::Relaxed);
    let process = if FORKED.load(Ordering::Relaxed) {
        interpose::process_id()
    } else {
        0
    };
    settings::seed() ^ thread << 32 ^ u64::from(process)
}

/// What the program calls the block that this address is in: told if the block may be a recorded one. Arrays of C++ with a
/// destructor begin behind their length; mappings begin at a page.
pub(crate) fn named(address: usize, name: &[u8]) {
    const PAGE: usize = 4096;
    let may_be_recorded = [0, 8, 16]
        .iter()
        .any(|before| RECORDED.may_hold(address.wrapping_sub(*before)));
    if may_be_recorded || address.is_multiple_of(PAGE) {
        stream::named(address, name);
    }
}

/// A block is about to be released. True: it was recorded.
#[inline(always)]
pub(crate) fn releasing(address: usize) -> bool {
    RECORDED.may_hold(address) && tell(address)
}

#[cold]
fn tell(address: usize) -> bool {
    let recorded = RECORDED.remove(address) || TELL_ALL.load(Ordering::Relaxed);
    if recorded {
        stream::releasing(address, 0);
    }
    recorded
}
