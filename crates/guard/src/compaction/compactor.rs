//! The compactor: a thread that is started when the limit is first exceeded. It has no signals, its own table of descriptors,
//! so that the program's closing of them all does not reach its own, and its own place for errno.

use std::sync::atomic::AtomicI32;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use pagewise_interpose::let_others;

use super::AT;
use super::HELD_BY;
use super::chunk;
use super::schedule::Follower;
use super::store;
use super::tally;
use super::thread;
use super::watch;
use crate::arena::Arena;
use crate::arena::FIRST_CHUNK;
use crate::checks;
use crate::heap;
use crate::page;
use crate::protect;
use crate::sandbox;
use crate::settings;
use crate::slot::State;
use crate::system;
use crate::userfault::Fault;
use crate::userfault::MOST_FAULTS;
use crate::userfault::Userfault;

const NOT_STARTED: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const REFUSED: u32 = 3;

static STATUS: AtomicU32 = AtomicU32::new(NOT_STARTED);
/// errno of what was refused.
static WHY: AtomicI32 = AtomicI32::new(0);
/// Three pages: the doorbell, a touch of which asks for room; one full of zeros; one in which a page is built.
static PAGES: AtomicUsize = AtomicUsize::new(0);
/// Of its thread.
static MEMORY: thread::Memory = thread::Memory::new();
/// The chunk looked at last for objects to compact.
static HAND: AtomicUsize = AtomicUsize::new(FIRST_CHUNK);

/// Of the limit, one part in so many is made room for at once...
const SHARE_AT_ONCE: usize = 64;
/// ... but at least so many pages and at most so many.
const PAGES_AT_ONCE: (usize, usize) = (128, 1024);
/// How often it is looked whether a fork is over for which faults wait, ms.
const LOOK_EVERY_MS: i32 = 1;

/// Whether objects are compacted; `Err`: errno of what was refused. `None`: it was not needed.
pub(crate) fn status() -> Option<Result<(), i32>> {
    match STATUS.load(Ordering::Acquire) {
        NOT_STARTED => None,
        REFUSED => Some(Err(WHY.load(Ordering::Relaxed))),
        _ => Some(Ok(())),
    }
}

/// Addresses of the memory of its thread.
pub(crate) fn place_of_thread() -> std::ops::Range<usize> {
    MEMORY.place()
}

/// Waits until the compactor has made room, as far as it can.
pub(super) fn ask_for_room(arena: &Arena) {
    if STATUS.load(Ordering::Acquire) == REFUSED || !is_running(arena) {
        return;
    }
    let doorbell = PAGES.load(Ordering::Relaxed);
    system::drop_pages(doorbell, page::bytes());
    // SAFETY: a page of ours, readable; while it is missing the compactor has not answered.
    unsafe { (doorbell as *const u8).read_volatile() };
}

/// Starts it if nobody did.
fn is_running(arena: &Arena) -> bool {
    let begun = STATUS.compare_exchange(NOT_STARTED, STARTING, Ordering::AcqRel, Ordering::Acquire);
    if begun.is_ok()
        && let Err(why) = launch(arena)
    {
        refuse(why);
    }
    loop {
        match STATUS.load(Ordering::Acquire) {
            STARTING => let_others(),
            status => return status == RUNNING,
        }
    }
}

fn refuse(why: i32) {
    WHY.store(why, Ordering::Relaxed);
    STATUS.store(REFUSED, Ordering::Release);
}

fn launch(_arena: &Arena) -> Result<(), i32> {
    // A thread and a userfaultfd take calls that no other allocator makes.
    if sandbox::is_in() {
        return Err(libc::EPERM);
    }
    if !protect::are_all_regions() {
        return Err(libc::EOPNOTSUPP);
    }
    if !store::prepare() {
        return Err(libc::ENOMEM);
    }
    if PAGES.load(Ordering::Relaxed) == 0 {
        let pages = system::reserve(3 * page::bytes()).ok_or(libc::ENOMEM)?;
        if !system::set_usable(pages, 3 * page::bytes(), true) {
            return Err(libc::ENOMEM);
        }
        PAGES.store(pages, Ordering::Relaxed);
    }
    thread::spawn(&MEMORY, body)
}

/// In a forked child. Without a compactor of its own all objects come back at once.
pub(super) fn start_in_child(arena: &Arena) {
    if STATUS.load(Ordering::Acquire) == REFUSED {
        return;
    }
    STATUS.store(NOT_STARTED, Ordering::Release);
    if tally::compacted() > 0 && !is_running(arena) {
        bring_all_back(arena);
    }
}

fn bring_all_back(arena: &Arena) {
    arena.visit(tally::end(), &mut |number| {
        let slot = arena.slot(number);
        let facts = slot.facts();
        if facts.state == State::Live && facts.is_compacted {
            let placed = arena.object(number, facts);
            let page = placed.first_page() as *mut u8;
            checks::fill_page(page);
            chunk::rebuild(slot, &placed, page);
            chunk::came_back(slot, &placed, super::chunk_of(number));
        }
    });
}

extern "C" fn body() {
    match (Userfault::new(), heap::arena(), settings::memory()) {
        (Ok(userfault), Some(arena), Some(limit)) => {
            let doorbell = PAGES.load(Ordering::Relaxed);
            let all = |start, bytes| userfault.register(start, bytes, true);
            if !all(doorbell, page::bytes())
                || !chunk::visit_registered(&arena, &mut |start, bytes| all(start, bytes))
            {
                return refuse(libc::ENOMEM);
            }
            let compactor = Compactor {
                arena,
                userfault,
                limit,
                doorbell,
            };
            STATUS.store(RUNNING, Ordering::Release);
            compactor.run();
        }
        (Err(why), _, _) => refuse(why),
        _ => refuse(libc::EINVAL),
    }
}

struct Compactor {
    arena: Arena,
    userfault: Userfault,
    limit: usize,
    doorbell: usize,
}

impl Compactor {
    fn run(&self) {
        checks::fill_page((self.doorbell + 2 * page::bytes()) as *mut u8);
        let mut faults = [Fault::default(); MOST_FAULTS];
        let mut follower = Follower::new();
        // Faults were put off until a thread that holds us goes on.
        let mut are_put_off = false;
        loop {
            let count = self.next_faults(&mut faults, are_put_off);
            if are_put_off && HELD_BY.load(Ordering::SeqCst) == 0 {
                are_put_off = false;
                chunk::visit_registered(&self.arena, &mut |start, bytes| {
                    self.userfault.wake(start, bytes);
                    true
                });
            }
            for fault in &faults[..count] {
                if self.serve(fault) {
                    let page = fault.page as usize;
                    follower.wake(fault.thread, || self.userfault.wake(page, page::bytes()));
                } else {
                    are_put_off = true;
                }
            }
            if tally::is_over(self.limit) {
                self.make_room();
            }
        }
    }

    /// Waits for faults. Returns how many there are.
    fn next_faults(&self, faults: &mut [Fault; MOST_FAULTS], are_put_off: bool) -> usize {
        let count = match watch::is_low() {
            true => self.userfault.read(faults),
            false => 0,
        };
        if count > 0 {
            return count;
        }
        watch::stand_up();
        let most_ms = are_put_off.then_some(LOOK_EVERY_MS);
        self.userfault.wait(faults, most_ms)
    }

    /// Says that we are at a chunk. False: a thread holds us, and it is not this one.
    fn enter(&self, chunk: usize, thread: u32) -> bool {
        AT.store(chunk as u32 + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let holder = HELD_BY.load(Ordering::SeqCst);
        if holder == 0 || holder == thread {
            return true;
        }
        self.leave();
        false
    }

    fn leave(&self) {
        AT.store(0, Ordering::SeqCst);
    }

    /// Does what a thread waits for, which is to be woken then. False: it is put off.
    fn serve(&self, fault: &Fault) -> bool {
        let page = fault.page as usize;
        let zeros = self.doorbell + page::bytes();
        if page == self.doorbell {
            self.make_room();
            self.userfault.give(page, zeros as *const u8);
            return true;
        }
        if !fault.is_missing() {
            // A chunk's eviction made it wait, which is over.
            return true;
        }
        let chunk = page.wrapping_sub(self.arena.base) / crate::arena::CHUNK;
        if !self.enter(chunk, fault.thread) {
            return false;
        }
        let scratch = self.doorbell + 2 * page::bytes();
        chunk::give(
            &self.arena,
            &self.userfault,
            page,
            scratch as *mut u8,
            zeros as *const u8,
        );
        self.leave();
        true
    }

    /// Compacts objects of chunks in turn, but not of those where something came since their last turn.
    fn make_room(&self) {
        watch::stand_up();
        let page = page::bytes();
        let at_once = (self.limit / SHARE_AT_ONCE)
            .clamp(PAGES_AT_ONCE.0 * page, PAGES_AT_ONCE.1 * page)
            .min(self.limit / 2);
        let wanted = self.limit - at_once;
        let mut turns = 2 * tally::end();
        let mut hand = HAND.load(Ordering::Relaxed);
        while tally::resident() > wanted && turns > 0 {
            turns -= 1;
            hand = if hand + 1 < tally::end() {
                hand + 1
            } else {
                FIRST_CHUNK
            };
            if tally::in_chunk(hand) == 0 || tally::was_recent(hand) {
                continue;
            }
            if !self.enter(hand, 0) {
                break;
            }
            chunk::evict(&self.arena, &self.userfault, hand);
            self.leave();
        }
        HAND.store(hand, Ordering::Relaxed);
        // So many pages may come before the next round in any case: an instruction may need several at once.
        tally::set_beyond((tally::resident() + at_once).saturating_sub(self.limit));
    }
}
