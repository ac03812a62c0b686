//! Pages that change hands: where the kernel moves pages (`UFFDIO_MOVE`, Linux 6.8), that of an object given back becomes that
//! of a slot to be handed out next. Taking one page away and getting another takes 3.1 us, moving it 1.4 us.
//!
//! Chunks of slots of one page are registered with a userfaultfd for which a touch of a missing page is SIGBUS: so a slot
//! whose page was moved away is as good as guarded. That holds for this process alone: a forked child asks for its own. Whoever
//! closes the descriptor ends it, which is noticed at the next move: then a new one is asked for.
//!
//! Pages here are full of padding while they belong to no object.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use libc::c_long;
use pagewise_interpose::process_generation;

use crate::arena::Arena;
use crate::arena::CHUNK;
use crate::arena::MOST_CHUNKS;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::checks;
use crate::ending;
use crate::heap;
use crate::lock::Lock;
use crate::page;
use crate::protect;
use crate::settings;
use crate::system;
use crate::userfault::Given;
use crate::userfault::Userfault;

/// No descriptor.
const NONE: i64 = -1;
/// Descriptors below are the program's, as far as it may have so many; not so high that the kernel's table of them grows much.
const FIRST_DESCRIPTORS: [c_long; 3] = [1000, 200, 50];

static FILE: AtomicI64 = AtomicI64::new(NONE);
/// The process whose pages it moves.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// A page full of padding; 0: none.
static PADDING: AtomicUsize = AtomicUsize::new(0);
/// Chunks that were registered. Their missing pages are guards only while [`is_on`].
static IS_COVERED: [AtomicBool; MOST_CHUNKS] = [const { AtomicBool::new(false) }; MOST_CHUNKS];
/// It ended, and slots whose pages were moved away have no guard.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Held while a lost descriptor is replaced.
static RENEWAL: Lock<()> = Lock::new(());

/// Whether pages are moved in this process.
pub(crate) fn is_on() -> bool {
    FILE.load(Ordering::Acquire) != NONE
        && GENERATION.load(Ordering::Relaxed) == process_generation()
}

/// Whether missing pages of a slot are guards.
pub(crate) fn covers(number: Number) -> bool {
    was_covered(number) && is_on()
}

/// Whether a slot's pages may be full of padding rather than zeros.
pub(crate) fn was_covered(number: Number) -> bool {
    is_chunk_covered(number as usize / SLOTS)
}

fn is_chunk_covered(chunk: usize) -> bool {
    IS_COVERED[chunk].load(Ordering::Relaxed)
}

/// Once, after [`protect::probe`]: not with a compactor, which has its own way with missing pages.
pub(crate) fn begin() {
    if settings::memory().is_some() || !protect::are_all_regions() {
        return;
    }
    let Some(padding) = system::reserve(page::bytes()) else {
        return;
    };
    if system::set_usable(padding, page::bytes(), true) {
        checks::fill_page(padding as *mut u8);
        PADDING.store(padding, Ordering::Relaxed);
        if let Some(file) = ask() {
            adopt(file);
        }
    }
}

/// A descriptor of this process's own.
fn ask() -> Option<Userfault> {
    let low = Userfault::that_moves().ok()?;
    let command = c_long::from(libc::F_DUPFD_CLOEXEC);
    // SAFETY: no pointers.
    let from = |first: c_long| unsafe { libc::syscall(libc::SYS_fcntl, low.0, command, first) };
    let mut all = FIRST_DESCRIPTORS.into_iter().map(from);
    let Some(high) = all.find(|&file| file >= 0) else {
        return Some(low);
    };
    low.close();
    Some(Userfault(high))
}

/// From now on pages are moved by it.
fn adopt(file: Userfault) {
    GENERATION.store(process_generation(), Ordering::Relaxed);
    FILE.store(file.0, Ordering::Release);
}

fn file() -> Option<Userfault> {
    is_on().then(|| Userfault(FILE.load(Ordering::Acquire)))
}

/// Chunks of slots of one page, with a guard on each page. Where it is refused, their guards are as ever.
pub(crate) fn cover(start: usize, first: usize, chunks: usize) {
    if let Some(file) = file()
        && file.register(start, chunks * CHUNK, false)
    {
        IS_COVERED[first..first + chunks]
            .iter()
            .for_each(|chunk| chunk.store(true, Ordering::Relaxed));
    }
}

/// Registers all chunks that were, with a new descriptor.
fn cover_again(arena: &Arena, file: Userfault) -> bool {
    let chunks = heap::bounds().1 / CHUNK;
    let mut chunk = 0;
    while chunk < chunks {
        let first = chunk;
        while chunk < chunks && is_chunk_covered(chunk) {
            chunk += 1;
        }
        let bytes = (chunk - first) * CHUNK;
        if bytes > 0 && !file.register(arena.address_of_chunk(first), bytes, false) {
            return false;
        }
        chunk += usize::from(chunk == first);
    }
    true
}

/// A descriptor in place of one that is lost, or of a parent's. Without one nothing moves from now on.
fn renew(arena: &Arena, lost: Option<Userfault>) -> Option<Userfault> {
    let _held = RENEWAL.lock()?;
    let now = file();
    if lost.is_some() && now != lost {
        // Another thread was first.
        return now;
    }
    let Some(new) = ask() else {
        end(now);
        return None;
    };
    if cover_again(arena, new) {
        adopt(new);
        return Some(new);
    }
    new.close();
    // Where the old one lives on elsewhere (a thread with descriptors of its own, a child that did not exec), its guards do, too.
    if lost.is_none() {
        end(None);
    }
    None
}

/// Nothing moves any more. Of those who find so, one closes the descriptor if it still is one.
fn end(file: Option<Userfault>) {
    let number = file.map_or(NONE, |file| file.0);
    let is_first = FILE.compare_exchange(number, NONE, Ordering::AcqRel, Ordering::Relaxed);
    if is_first.is_ok() {
        IS_OVER.store(true, Ordering::Relaxed);
        if let Some(file) = file.filter(Userfault::is_one) {
            file.close();
        }
    }
}

/// Nothing moves from now on: the system call for it may be forbidden.
pub(crate) fn give_up() {
    if let Some(file) = file() {
        end(Some(file));
    }
}

/// True once after the end, and in a child of a bare `clone`, where missing pages are zeros: what has no page and no guard is to
/// be guarded.
pub(crate) fn has_just_ended() -> bool {
    if FILE.load(Ordering::Relaxed) != NONE && !is_on() {
        FILE.store(NONE, Ordering::Relaxed);
        return true;
    }
    IS_OVER.load(Ordering::Relaxed) && IS_OVER.swap(false, Ordering::Relaxed)
}

/// Does something with the descriptor; once more if it was lost.
fn with_file(arena: &Arena, act: &dyn Fn(Userfault) -> Given) -> Given {
    let Some(file) = file() else {
        return Given::Failed;
    };
    let given = act(file);
    // A child of `vfork` has its parent's memory, but closes descriptors of its own, and what it opened its parent has not.
    let is_its_own = ending::is_of_this_process;
    match given {
        Given::Lost if is_its_own() => renew(arena, Some(file)).map_or(Given::Failed, act),
        Given::Refused if is_its_own() => {
            end(Some(file));
            Given::Failed
        }
        _ => given,
    }
}

/// Moves the page of one covered slot to another's, which has none. A guard that it has all the same is taken away.
pub(crate) fn carry(arena: &Arena, from: usize, to: usize) -> bool {
    let act = |file: Userfault| file.carry(from, to);
    match with_file(arena, &act) {
        Given::Now => true,
        Given::Before => protect::open(to, page::bytes()) && with_file(arena, &act) == Given::Now,
        _ => false,
    }
}

/// Gives a covered page memory, full of padding, in place of a guard if it has one (`UFFDIO_COPY` writes over them).
pub(crate) fn give_padding(arena: &Arena, page: usize) -> bool {
    let padding = PADDING.load(Ordering::Relaxed) as *const u8;
    let given = with_file(arena, &|file| file.give(page, padding));
    match given {
        Given::Now => true,
        // Something that a guard was taken from earlier, or a kernel that keeps guards.
        Given::Before => {
            protect::open(page, page::bytes())
                && system::drop_pages(page, page::bytes())
                && with_file(arena, &|file| file.give(page, padding)) == Given::Now
        }
        _ => false,
    }
}

/// Gives a covered page without memory zeros.
pub(crate) fn give_zeros(arena: &Arena, page: usize) -> Given {
    with_file(arena, &|file| file.give_zeros(page))
}

/// Once, before there is another thread.
pub(crate) fn prepare_lock() {
    RENEWAL.prepare();
}

/// Run by `fork` in the process that forks.
pub(crate) fn before_fork() {
    RENEWAL.hold_for_fork();
}

/// Run by `fork` on both sides.
pub(crate) fn after_fork() {
    RENEWAL.release_after_fork();
}

/// Run by `fork` in the child, whose missing pages are zeros for whoever touches them.
pub(crate) fn in_child(arena: &Arena) {
    let parents = FILE.swap(NONE, Ordering::Relaxed);
    if parents == NONE {
        return;
    }
    let parents = Userfault(parents);
    if parents.is_one() {
        parents.close();
    }
    // Else the parent is a child of a bare `clone`, and moved none.
    let was_on = GENERATION.load(Ordering::Relaxed).wrapping_add(1) == process_generation();
    if !was_on || renew(arena, None).is_none() {
        IS_OVER.store(true, Ordering::Relaxed);
    }
}
