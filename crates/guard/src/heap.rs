//! The heap: objects made and looked at, each step in the order that a fault at any moment can be told from.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use pagewise_abi::guard::Family;
use pagewise_interpose::Registers;
use pagewise_interpose::keeping_errno;

use crate::arena::Arena;
use crate::arena::CHUNK;
use crate::arena::FIRST_CHUNK;
use crate::arena::LARGE_PAGES;
use crate::arena::MOST_CHUNKS;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::checks;
use crate::compaction;
use crate::ending;
use crate::ledger::Counts;
use crate::ledger::Ledger;
use crate::lock::Held;
use crate::lock::Lock;
use crate::page;
use crate::pages;
use crate::paths;
use crate::placement;
use crate::placement::Placed;
use crate::plain;
use crate::protect;
use crate::queue;
use crate::recycle;
use crate::release::Told;
use crate::release::is_begin;
use crate::release::release;
use crate::report;
use crate::reserve::Reserve;
use crate::settings;
use crate::signals;
use crate::slot::Facts;
use crate::slot::SLOT_BYTES;
use crate::slot::State;
use crate::system;
use crate::unguarded;

/// Of what limits of the address space, of data or of all memory leave, one part in so many is for objects.
const SHARE_OF_LIMIT: usize = 2;
/// With less, no object is guarded.
const FEWEST_CHUNKS: usize = 4;

static OBJECTS: Reserve = Reserve::new();
static WORDS: Reserve = Reserve::new();
static KINDS: [AtomicU8; MOST_CHUNKS] = [const { AtomicU8::new(0) }; MOST_CHUNKS];
static LEDGER: Lock<Option<Ledger>> = Lock::new(None);
/// The arena can be looked at.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) bytes: usize,
    /// A power of two; `None`: what the size needs.
    pub(crate) alignment: Option<usize>,
    pub(crate) family: Family,
    /// It is to be full of zeros, whatever is asked for (`--fill`).
    pub(crate) is_zeroed: bool,
    pub(crate) registers: Registers,
}

/// A slot with what is known of it at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) number: Number,
    pub(crate) facts: Facts,
    pub(crate) placed: Placed,
}

/// The arena, once the first object was made.
pub(crate) fn arena() -> Option<Arena> {
    IS_READY.load(Ordering::Acquire).then(|| Arena {
        base: OBJECTS.start(),
        chunks: OBJECTS.bytes() / CHUNK,
        slots: WORDS.start() as *const _,
        kinds: &KINDS,
        side: settings::side(),
    })
}

/// Reserves addresses and finds out how guards are made. `None`: there is no room.
#[cold]
fn begin() -> Option<Ledger> {
    settings::read();
    paths::prepare();
    let mut chunks = match system::space_left() {
        None => MOST_CHUNKS,
        Some(limit) => (limit / SHARE_OF_LIMIT / CHUNK).min(MOST_CHUNKS),
    };
    while chunks >= FEWEST_CHUNKS && !OBJECTS.make(chunks * CHUNK) {
        chunks /= 2;
    }
    let words = (chunks * SLOTS * SLOT_BYTES).next_multiple_of(CHUNK);
    if chunks < FEWEST_CHUNKS || !WORDS.make(words) || !OBJECTS.use_up_to(page::bytes()) {
        return None;
    }
    WORDS.take_small_pages();
    protect::probe(OBJECTS.start());
    protect::close(OBJECTS.start(), CHUNK * FIRST_CHUNK, bounds());
    recycle::begin();
    IS_READY.store(true, Ordering::Release);
    arena().map(Ledger::new)
}

/// Makes chunks ready: their slots' words, and guards on all that is not yet an object.
fn prepare(first: usize, chunks: usize, class: Option<usize>) -> bool {
    let end = first + chunks;
    let start = OBJECTS.start() + first * CHUNK;
    if !WORDS.use_up_to(end * SLOTS * SLOT_BYTES) {
        return false;
    }
    if !protect::has_regions() {
        return true; // reserved addresses are as good as guarded
    }
    if !OBJECTS.use_up_to(end * CHUNK) {
        return false;
    }
    if class == Some(0) {
        // Before there is anything in it: so the kernel makes one mapping of neighbours.
        recycle::cover(start, first, chunks);
    }
    class.is_none() || protect::close(start, chunks * CHUNK, bounds())
}

/// Where the arena's usable part is.
pub(crate) fn bounds() -> (usize, usize) {
    (OBJECTS.start(), OBJECTS.usable())
}

/// Hands the slot of an object that has left to the queue; `next` is the one to which its page was moved. Who interrupted this
/// thread at the ledger leaves it out.
pub(crate) fn enqueue(number: Number, bytes: usize, next: Option<Number>) {
    with_ledger(|ledger| {
        ledger.put(number, bytes);
        ledger.count_gone(bytes);
        if let Some(next) = next {
            ledger.put_ready(next);
        }
    });
}

/// Does something with the ledger. `None`: there is none, or this thread was interrupted while it was at it.
pub(crate) fn with_ledger<T>(act: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
    let mut held = LEDGER.lock()?;
    held.as_mut().map(act)
}

/// Makes the heap if it is not made yet: later, system calls may be forbidden.
pub(crate) fn make_ready() {
    drop(ledger());
}

/// Where pages have just stopped changing hands, what has neither page nor guard gets guards: not only with the next object.
pub(crate) fn settle() {
    with_ledger(|ledger| {
        if recycle::has_just_ended() {
            pages::close_waiting(&ledger.arena(), ledger);
        }
    });
}

/// The ledger, which is made at its first use. `None`: as in [`with_ledger`].
fn ledger() -> Option<Held<'static, Option<Ledger>>> {
    let mut held = LEDGER.lock()?;
    if held.is_none() && OBJECTS.start() == 0 {
        *held = begin();
    }
    held.is_some().then_some(held)
}

/// A new object, full of zeros or of what is asked for, one without a guard of anything unless zeros are asked for; null: out
/// of memory.
pub(crate) fn allocate(request: &Request) -> *mut u8 {
    let least = settings::alignment().of(request.bytes);
    let alignment = request.alignment.unwrap_or(1).max(least);
    let made = keeping_errno(|| {
        if settings::is_choosy() && unguarded::is_ready() && !settings::is_chosen(request.bytes) {
            return unguarded::leave_out(request.bytes, alignment, request.is_zeroed);
        }
        guarded(request, alignment)
            .unwrap_or_else(|| unguarded::allocate(request.bytes, alignment, request.is_zeroed))
    });
    let fill = settings::fill();
    if made.is_null() {
        // SAFETY: this thread's own errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    } else if fill != 0 && !request.is_zeroed {
        // SAFETY: so many bytes were just made.
        unsafe { plain::fill(made, fill, request.bytes) };
    }
    made
}

fn guarded(request: &Request, alignment: usize) -> Option<*mut u8> {
    let pages = match placement::pages(request.bytes, alignment, LARGE_PAGES)? {
        // The program may give such a page's memory up by itself (`MADV_DONTNEED`): not where a missing page is a guard.
        1 if alignment >= page::bytes() => 2,
        pages => pages,
    };
    if alignment > CHUNK {
        return None;
    }
    if !IS_READY.load(Ordering::Acquire) {
        // Call paths are kept from then on.
        ledger()?;
    }
    let path = paths::number_of_callers(request.registers);
    let (number, arena, is_open, was_opened) = {
        let mut held = ledger()?;
        let ledger = held.as_mut()?;
        if ledger.counts.live >= protect::most_objects() {
            return None;
        }
        let arena = ledger.arena();
        if recycle::has_just_ended() {
            pages::close_waiting(&arena, ledger);
        }
        let was_opened = pages::was_opened();
        let taken = ledger.take(pages, &mut prepare)?;
        let is_open = pages == 1
            && protect::are_all_regions()
            && !was_opened
            && ledger.is_open(taken, &mut |slots| pages::open_ahead(&arena, slots));
        ledger.count_made(request.bytes);
        (taken.number, arena, is_open, was_opened)
    };
    let extent = arena.extent(number);
    let placed = arena.place(number, request.bytes, alignment);
    let is_large = arena.is_large(number);
    let is_covered = recycle::covers(number);
    compaction::opens(&arena, number, number + 1);
    if was_opened || placed.open_bytes() == 0 {
        // Something may have been written there since it was given back.
        pages::close(extent.begin, extent.end);
    }
    if !is_open && placed.open_bytes() > 0 {
        let is_there = match is_covered {
            true => pages::open_covered(&arena, &[(placed.first_page(), placed.open_bytes())]),
            false => pages::open(&placed, is_large.then_some(extent)),
        };
        if !is_there {
            give_up(number, request.bytes);
            return None;
        }
    }
    if !is_covered {
        checks::fill(&placed);
    }
    if recycle::was_covered(number) {
        checks::clear(&placed);
    }
    let bytes = if is_large {
        arena.set_large_bytes(number, request.bytes);
        0
    } else {
        request.bytes
    };
    let slot = arena.slot(number);
    let is_held = slot.hold(request.family, alignment, bytes, path, ending::forks());
    compaction::made(&arena, number, placed.open_bytes());
    is_held.then_some(placed.start as *mut u8)
}

/// A slot to which the page of an object that leaves can be moved.
pub(crate) fn take_bare() -> Option<Number> {
    with_ledger(|ledger| {
        let arena = ledger.arena();
        ledger.take_bare(&mut prepare, &mut |slots, fresh| {
            pages::unguard(&arena, slots, fresh)
        })
    })?
}

/// A slot from [`take_bare`] to which no page could be moved.
pub(crate) fn give_bare_back(number: Number) {
    with_ledger(|ledger| {
        let arena = ledger.arena();
        pages::close_slot(&arena, number);
        arena.slot(number).withdraw();
        ledger.put_back(number);
    });
}

/// The slot cannot be used now.
fn give_up(number: Number, bytes: usize) {
    with_ledger(|ledger| {
        let arena = ledger.arena();
        // A fault that was left over may have been served since it was announced.
        pages::close_slot(&arena, number);
        arena.slot(number).withdraw();
        ledger.put_back(number);
        ledger.count_gone(bytes);
        ledger.counts.allocations -= 1;
    });
}

/// Whether an address is in the arena, if there is one, be there a slot or not.
#[inline(always)]
pub(crate) fn is_of_arena(address: usize) -> bool {
    address.wrapping_sub(OBJECTS.start()) < OBJECTS.bytes()
}

/// The slot that holds an address, with what is known of it.
pub(crate) fn look(address: usize) -> Option<Seen> {
    look_here(address)
}

/// As [`look`], where only a part of it is wanted.
#[inline(always)]
fn look_here(address: usize) -> Option<Seen> {
    let arena = arena()?;
    let number = arena.find(address)?;
    let facts = arena.slot(number).facts();
    Some(Seen {
        number,
        facts,
        placed: arena.object(number, facts),
    })
}

/// An object of another size in place of one, with as much of its contents as fits; null: there is no memory, and the old
/// one stays.
pub(crate) fn resize(address: *mut u8, request: &Request) -> *mut u8 {
    let old_bytes = match look(address as usize) {
        Some(seen) if !is_begin(address as usize, &seen, request.registers) => {
            // Reported already. What it held is gone.
            return allocate(request);
        }
        Some(seen) => seen.placed.bytes,
        None => match unguarded::usable_size(address as usize) {
            Some(bytes) => bytes,
            None => {
                report::invalid_free(address as usize, None, request.registers);
                return allocate(request);
            }
        },
    };
    let made = allocate(request);
    if !made.is_null() {
        let bytes = old_bytes.min(request.bytes);
        // SAFETY: two objects that are alive, of at least so many bytes; the program vouches for the old one.
        unsafe { plain::copy(made, address, bytes) };
        release(address, Told::of(request.family), request.registers);
    }
    made
}

/// Bytes of an object; 0: it is none.
pub(crate) fn usable_size(address: *mut u8) -> usize {
    match look(address as usize) {
        Some(seen) if seen.facts.state == State::Live => seen.placed.bytes,
        Some(_) => 0,
        None => unguarded::usable_size(address as usize).unwrap_or(0),
    }
}

/// Whether so many bytes from an address on in the arena are not all of one live object. Most buffers are, or are elsewhere: cheap.
#[inline(always)]
pub(crate) fn is_suspect(address: usize, bytes: usize) -> bool {
    is_of_arena(address) && is_suspect_there(address, bytes)
}

fn is_suspect_there(address: usize, bytes: usize) -> bool {
    look_here(address).is_some_and(|seen| {
        let placed = &seen.placed;
        let is_inside = address >= placed.start
            && address
                .checked_add(bytes)
                .is_some_and(|end| end <= placed.end());
        !(is_inside && seen.facts.state == State::Live)
    })
}

/// What was counted, and how many chunks were ever used.
pub(crate) fn counts() -> Option<(Counts, usize)> {
    let told = |ledger: &Ledger| (ledger.counts, ledger.chunks_used());
    with_ledger(|ledger| told(ledger))
        .or_else(|| LEDGER.look_interrupted(|ledger| ledger.as_ref().map(told))?)
}

/// Bytes of the slots' words that are memory.
pub(crate) fn own_bytes() -> usize {
    WORDS.usable()
}

/// Visits all objects that are alive.
pub(crate) fn visit_live(visit: &mut dyn FnMut(&Arena, Seen)) {
    let (Some(arena), Some((_, chunks))) = (arena(), counts()) else {
        return;
    };
    arena.visit(chunks, &mut |number| {
        let facts = arena.slot(number).facts();
        if facts.state == State::Live {
            let placed = arena.object(number, facts);
            if !arena.may_hold(number, &placed) {
                // A large one may have been made anew meanwhile.
                if !arena.is_large(number) {
                    queue::say_that_it_was_overwritten();
                }
                return;
            }
            visit(
                &arena,
                Seen {
                    number,
                    facts,
                    placed,
                },
            );
        }
    });
}

/// Once, before there is another thread.
pub(crate) fn prepare_locks() {
    LEDGER.prepare();
    recycle::prepare_lock();
}

/// Run by `fork` in the process that forks.
pub(crate) extern "C" fn before_fork() {
    compaction::hold_still();
    LEDGER.hold_for_fork();
    recycle::before_fork();
    signals::before_fork();
}

/// Run by `fork` in the parent.
pub(crate) extern "C" fn after_fork() {
    signals::after_fork();
    recycle::after_fork();
    LEDGER.release_after_fork();
    compaction::go_on();
}

/// Run by `fork` in the child.
pub(crate) extern "C" fn in_child() {
    signals::after_fork();
    recycle::after_fork();
    LEDGER.release_after_fork();
    paths::after_fork();
    report::after_fork();
    pagewise_interpose::unwind::after_fork();
    compaction::in_child(arena());
    if let Some(arena) = arena() {
        recycle::in_child(&arena);
    }
}
