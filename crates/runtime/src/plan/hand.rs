//! Other threads for the helper's calls: one, or where there are processors for more, two. Where reading a page in is work and
//! not waiting, one thread brings in fewer pages than a program passes over. A program that gets ahead faults pages in itself; these have lost their place in swap, and
//! whoever drops them has to write them again: the helper falls behind for good.

use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Leftover;
use pagewise_interpose::Spin;
use pagewise_interpose::processors;
use pagewise_interpose::processors::Processors;
use pagewise_interpose::system;

use super::loaded;
use super::loaded::Plan;
use super::object::PAGE;
use super::objects;

/// Between two looks while there is work,
const AWAKE_NS: u64 = 50_000;
/// and otherwise, if nobody wakes it: each time takes some 80 us of the processor on which the program runs.
const ASLEEP_NS: u64 = 50_000_000;
/// Without work for so long, it goes to sleep.
const CALM_NS: u64 = 100_000_000;

/// Of so many bytes that are mapped ahead, the first page is not.
pub(super) const TOLD_BYTES: usize = 16 * PAGE;

/// Downwards, so much is read at a time.
const STEP_DOWN: usize = 4 * PAGE;

/// Besides the helper itself, at most so many make these calls: each more is one more that evictions interrupt.
const MOST_HANDS: usize = 2;

/// What a page costs is told from so many on,
const LEAST_PAGES: u64 = 1024;
/// and what was is halved when there are so many.
const MOST_PAGES: u64 = 16 * LEAST_PAGES;

/// They have so much waiting for them at most: something to do while the helper does something itself.
const MOST_QUEUED: usize = 3;

/// What reading or dropping took of a processor: pages in the low bits, above them the time in units of [`SPENT_UNIT_NS`].
struct Spent(AtomicU64);

const PAGES_BITS: u32 = 20;
const SPENT_UNIT_NS: u64 = 256;

/// By rule: reading and dropping.
static SPENT: [[Spent; 2]; MOST_RULES] = [const { [const { Spent::new() }; 2] }; MOST_RULES];

const NONE: u32 = 0;
const SLEEPS: u32 = 1;
const WAKES: u32 = 2;
const CANNOT: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(NONE);
/// Their numbers; 0: there is none.
static HANDS: [AtomicU32; MOST_HANDS] = [const { AtomicU32::new(0) }; MOST_HANDS];
/// What is to be done next.
static NEXT: Spin<Queue> = Spin::new(Queue::EMPTY);
/// Bytes of that that are to be read, or are being read.
static READS: AtomicUsize = AtomicUsize::new(0);

/// Ranges to be read in or dropped.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) rule: usize,
    pub(super) ranges: [Range<usize>; 2],
    pub(super) advice: i32,
    /// What is read in is mapped, too.
    pub(super) maps: bool,
    /// What their pages count as.
    pub(super) counts: OfRule,
    /// What lies last in them comes first.
    pub(super) is_down: bool,
}

/// Work in the order in which it was given.
struct Queue {
    places: [Option<Work>; MOST_QUEUED],
    first: usize,
    count: usize,
}

impl Queue {
    const EMPTY: Self = Self {
        places: [const { None }; MOST_QUEUED],
        first: 0,
        count: 0,
    };

    fn is_full(&self) -> bool {
        self.count == MOST_QUEUED
    }

    /// Returns it if there is no place.
    fn push(&mut self, work: Work) -> Option<Work> {
        if self.is_full() {
            return Some(work);
        }
        self.places[(self.first + self.count) % MOST_QUEUED] = Some(work);
        self.count += 1;
        None
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.places[self.first].take()?;
        self.first = (self.first + 1) % MOST_QUEUED;
        self.count -= 1;
        Some(work)
    }
}

impl Spent {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn parts(word: u64) -> (u64, u64) {
        (word >> PAGES_BITS, word & ((1 << PAGES_BITS) - 1))
    }

    /// By two threads: time and pages go together.
    fn add(&self, ns: u64, pages: u64) {
        let relaxed = Ordering::Relaxed;
        let _ = self.0.fetch_update(relaxed, relaxed, |word| {
            let (units, known) = Self::parts(word);
            let (units, pages) = (
                units + ns / SPENT_UNIT_NS,
                (known + pages).min(2 * MOST_PAGES),
            );
            let shift = u32::from(pages > MOST_PAGES);
            Some(units >> shift << PAGES_BITS | pages >> shift)
        });
    }

    /// ns for each page.
    fn each(&self) -> Option<u64> {
        let (units, pages) = Self::parts(self.0.load(Ordering::Relaxed));
        (pages >= LEAST_PAGES).then(|| units * SPENT_UNIT_NS / pages)
    }

    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// How long it takes a thread to read a page and to drop one, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) read: u64,
    pub(super) dropped: u64,
}

/// Of this rule's pages; `None`: too little was done.
pub(super) fn cost_of_page(rule: usize) -> Option<Cost> {
    let [read, dropped] = SPENT.get(rule)?;
    Some(Cost {
        read: read.each()?,
        dropped: dropped.each()?,
    })
}

/// It is to be seen anew.
pub(super) fn forget_cost(rule: usize) {
    let spent = SPENT.get(rule).into_iter().flatten();
    spent.for_each(Spent::forget);
}

impl Work {
    /// Bytes of it that are to be read.
    fn reads(&self) -> usize {
        match self.advice {
            system::WILL_NEED => self.ranges.iter().map(ExactSizeIterator::len).sum(),
            _ => 0,
        }
    }

    pub(super) fn perform(&self, plan: &Plan) {
        let mut ranges = self.ranges.clone();
        if self.is_down {
            ranges.reverse();
        }
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            // Blocks may have gone since, and others' memory may be there now.
            if !objects::is_swept(self.rule, range) {
                continue;
            }
            let began_ns = system::thread_time_ns();
            match self.advise(range) {
                Ok(()) => {
                    if self.maps {
                        map_ahead(range);
                    }
                    let pages = (range.len() / PAGE) as u64;
                    self.note_cost(system::thread_time_ns().saturating_sub(began_ns), pages);
                    plan.status.add_to_rule(self.rule, self.counts, pages);
                }
                // A block has gone since that look. What is still there was advised (mm/madvise.c), but how much that is, is not known.
                Err(libc::ENOMEM) => {}
                Err(errno) => plan.status.refused(self.rule, errno),
            }
        }
    }

    /// Downwards in small steps: a program that is as fast as its reader would meet it halfway else, and bring half of the pages in itself.
    fn advise(&self, range: &Range<usize>) -> Result<(), i32> {
        if !self.is_down {
            return system::advise(range.start, range.len(), self.advice);
        }
        let mut end = range.end;
        while end > range.start {
            let start = end.saturating_sub(STEP_DOWN).max(range.start);
            system::advise(start, end - start, self.advice)?;
            end = start;
        }
        Ok(())
    }

    fn note_cost(&self, took_ns: u64, pages: u64) {
        if let Some([read, dropped]) = SPENT.get(self.rule) {
            let is_read = self.advice == system::WILL_NEED;
            let of = if is_read { read } else { dropped };
            of.add(took_ns, pages);
        }
    }
}

/// Maps what was read in at once, as from zram, but for a page here and there whose fault tells where the sweep is: to map many pages
/// in one call takes half of what their faults would take the program. What a disk still reads is left: who maps it would wait.
fn map_ahead(range: &Range<usize>) {
    if !system::is_read_in(range.end - PAGE) {
        return;
    }
    let first = range.start / TOLD_BYTES * TOLD_BYTES;
    for block in (first..range.end).step_by(TOLD_BYTES) {
        let start = range.start.max(block + PAGE);
        let end = range.end.min(block + TOLD_BYTES);
        if start < end {
            let _ = system::advise(start, end - start, system::POPULATE_TO_READ);
        }
    }
}

/// How many there are to be: with one processor they would only take the program's time, and one is left to the program.
pub(super) fn wanted() -> usize {
    processors::count().saturating_sub(1).min(MOST_HANDS)
}

/// Whether there is any now.
fn start() -> bool {
    let begun = (0..wanted()).filter(|_| interpose::spawn(run).is_ok());
    begun.count() > 0
}

/// There will be work soon. By the helper thread only.
pub(super) fn wake() {
    let state = match STATE.load(Ordering::Relaxed) {
        NONE if start() => WAKES,
        NONE | CANNOT => CANNOT,
        _ => WAKES,
    };
    if STATE.swap(state, Ordering::Relaxed) == SLEEPS {
        system::wake(&STATE);
    }
}

/// A forked child has no such threads.
pub(super) fn forget() {
    for hand in &HANDS {
        hand.store(0, Ordering::Relaxed);
    }
    STATE.store(NONE, Ordering::Relaxed);
    NEXT.break_open();
    if let Some(mut next) = NEXT.lock() {
        *next = Queue::EMPTY;
    }
    READS.store(0, Ordering::Relaxed);
    SPENT.iter().flatten().for_each(Spent::forget);
}

/// The numbers of those that there are.
pub(super) fn threads() -> impl Iterator<Item = u32> {
    let numbers = HANDS.iter().map(|hand| hand.load(Ordering::Relaxed));
    numbers.filter(|&thread| thread > 0)
}

/// Puts the calling thread among them; its place.
fn enter() -> Option<&'static AtomicU32> {
    let (own, relaxed) = (interpose::thread_id(), Ordering::Relaxed);
    let is_free = |hand: &&AtomicU32| hand.compare_exchange(0, own, relaxed, relaxed).is_ok();
    HANDS.iter().find(is_free)
}

/// Whether they have enough to do for now; not if there is none.
pub(super) fn is_busy() -> bool {
    STATE.load(Ordering::Relaxed) == WAKES && NEXT.lock().is_some_and(|next| next.is_full())
}

/// Bytes that were given to them to be read and are not yet.
pub(super) fn reads() -> usize {
    READS.load(Ordering::Relaxed)
}

/// Hands work over; returns it if there is nobody to do it, or enough to do.
pub(super) fn give(work: Work) -> Option<Work> {
    if STATE.load(Ordering::Relaxed) != WAKES {
        return Some(work);
    }
    match NEXT.lock() {
        Some(mut next) => {
            let reads = work.reads();
            let refused = next.push(work);
            if refused.is_none() {
                READS.fetch_add(reads, Ordering::Relaxed);
            }
            refused
        }
        None => Some(work),
    }
}

fn run() {
    let Some(plan) = loaded::plan() else {
        return;
    };
    plan.take_precedence();
    // Whoever began it may have been held elsewhere.
    if let Some(processors) = Processors::of_program() {
        processors.hold(0);
    }
    let Some(place) = enter() else {
        return;
    };
    let (mut worked_ns, mut spent_ns) = (interpose::now_ns(), 0);
    let mut leftover = Leftover::default();
    loop {
        let work = NEXT.lock().and_then(|mut next| next.pop());
        if let Some(work) = work {
            work.perform(plan);
            READS.fetch_sub(work.reads(), Ordering::Relaxed);
            worked_ns = interpose::now_ns();
            continue;
        }
        let now_ns = system::thread_time_ns();
        plan.status.add(Total::ThreadNs, now_ns - spent_ns);
        spent_ns = now_ns;
        if STATE.load(Ordering::Relaxed) == SLEEPS {
            system::wait(&STATE, SLEEPS, ASLEEP_NS);
            worked_ns = interpose::now_ns();
            if leftover.is_all(worked_ns) {
                place.store(0, Ordering::Relaxed);
                return;
            }
            continue;
        }
        if interpose::now_ns().saturating_sub(worked_ns) > CALM_NS {
            STATE.store(SLEEPS, Ordering::Relaxed);
        }
        system::pause_ns(AWAKE_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_its_order_and_refused_when_there_is_enough() {
        let work = |rule| Work {
            rule,
            ranges: [0..0, 0..0],
            advice: system::WILL_NEED,
            maps: false,
            counts: OfRule::ReadAhead,
            is_down: false,
        };
        let mut queue = Queue::EMPTY;
        let mut done = 0;
        for given in 0..20 {
            assert!(!queue.is_full());
            assert!(queue.push(work(given)).is_none());
            if queue.is_full() {
                let refused = queue.push(work(99));
                assert_eq!(refused.map(|work| work.rule), Some(99));
                assert_eq!(queue.pop().map(|work| work.rule), Some(done));
                done += 1;
            }
        }
        while let Some(work) = queue.pop() {
            assert_eq!(work.rule, done);
            done += 1;
        }
        assert_eq!(done, 20);
    }

    #[test]
    fn what_a_page_costs_is_what_it_lately_did() {
        let spent = Spent::new();
        spent.add(1023 * 10_000, 1023);
        assert_eq!(spent.each(), None);
        spent.add(10_000, 1);
        assert!(
            matches!(spent.each(), Some(9990..=10_000)),
            "{:?}",
            spent.each()
        );
        for _ in 0..100 {
            spent.add(1000 * 3000, 1000);
        }
        assert!(
            matches!(spent.each(), Some(2990..=3100)),
            "{:?}",
            spent.each()
        );
        spent.forget();
        assert_eq!(spent.each(), None);
    }
}
