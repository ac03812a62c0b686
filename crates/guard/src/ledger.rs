//! Which slot is handed out next. Slots that were given back wait in a queue of their class, behind their guards: so many
//! of them, and of so many bytes, that a use after free is met for long; then the oldest is handed out again.

use std::ops::Range;

use crate::arena::Arena;
use crate::arena::CHUNK;
use crate::arena::CLASS_PAGES;
use crate::arena::FIRST_CHUNK;
use crate::arena::LARGE;
use crate::arena::Number;
use crate::arena::REST;
use crate::arena::SLOTS;
use crate::arena::UNUSED;
use crate::page;
use crate::queue::Bounds;
use crate::queue::LARGE_WAITING;
use crate::queue::Queue;
use crate::queue::Stack;
use crate::queue::WAITING;
use crate::slot::State;

/// Slots of a page that are opened at once, at most: twice as many pages are memory before they are objects.
pub(crate) const MOST_AHEAD: usize = 32;
/// So many slots wait with a page from an object that was given back, at least and at most...
const READY: (u64, u64) = (256, 4096);
/// ... and between, one for so many objects that are alive, or as many as there are fewer objects than there were at the most: giving a page
/// up takes longer than moving it, and with it there is no more memory in use than there was.
const LIVE_FOR_EACH_READY: u64 = 4;
/// One slot is opened ahead for so many that were handed out.
const TAKEN_FOR_EACH_AHEAD: u64 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Slots of the newest chunk that were never handed out.
    fresh: (Number, Number),
    /// Slots that are accessible already: opened together with others, or a page of an object that was given back was moved
    /// there.
    ready: Stack,
    /// Slots without guard and without memory, to which such pages are moved.
    bare: Batch,
    /// Slots handed out, ever.
    taken: u64,
    queue: Queue,
}

/// A few slots; the last is the next.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    numbers: [Number; MOST_AHEAD],
    count: usize,
}

impl Batch {
    fn push(&mut self, number: Number) {
        self.numbers[self.count] = number;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Number> {
        self.count = self.count.checked_sub(1)?;
        Some(self.numbers[self.count])
    }

    fn all(&self) -> &[Number] {
        &self.numbers[..self.count]
    }
}

/// Where a slot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Nothing was ever in it.
    Fresh,
    /// It left its queue.
    Queue,
    /// It was opened earlier.
    Ready,
    /// It is a large object's.
    Large,
}

/// A slot that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) number: Number,
    origin: Origin,
}

impl Class {
    /// How many slots are opened at once.
    fn ahead(&self) -> usize {
        (self.taken / TAKEN_FOR_EACH_AHEAD).min(MOST_AHEAD as u64) as usize
    }

    /// Of a slot in which nothing ever was: with it are opened those behind it.
    fn is_fresh_open(
        &mut self,
        arena: &Arena,
        number: Number,
        open: &mut dyn FnMut(&[Number]) -> bool,
    ) -> bool {
        let (next, last) = self.fresh;
        let end = (number + self.ahead() as Number).min(last);
        if number + 1 != next || end < next {
            return false;
        }
        let mut batch = Batch::default();
        (number..end).for_each(|number| batch.push(number));
        if !open(batch.all()) {
            return false;
        }
        self.fresh.0 = end;
        (next..end)
            .rev()
            .for_each(|number| self.ready.push(arena, number));
        true
    }
}

/// What is counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak: u64,
    pub(crate) peak_bytes: u64,
    /// Slots that had not waited long enough.
    pub(crate) reused_early: u64,
}

/// All queues. To be used under a lock.
pub(crate) struct Ledger {
    arena: Arena,
    classes: [Class; CLASS_PAGES.len()],
    large: Queue,
    bounds: Bounds,
    large_bounds: Bounds,
    /// Chunks from here on were never used.
    end: usize,
    /// Where the search for unused chunks goes on.
    cursor: usize,
    pub(crate) counts: Counts,
}

/// Makes chunks ready (first, how many, the class of their slots or `None` for a large object); false: there is no memory for
/// them.
pub(crate) type Prepare<'heap> = &'heap mut dyn FnMut(usize, usize, Option<usize>) -> bool;

impl Ledger {
    pub(crate) fn new(arena: Arena) -> Self {
        Self {
            arena,
            classes: [Class::default(); CLASS_PAGES.len()],
            large: Queue::default(),
            bounds: WAITING,
            large_bounds: LARGE_WAITING,
            end: 0,
            cursor: FIRST_CHUNK,
            counts: Counts::default(),
        }
    }

    pub(crate) fn arena(&self) -> Arena {
        self.arena
    }

    /// Chunks that were ever used: no slot is beyond.
    pub(crate) fn chunks_used(&self) -> usize {
        self.end
    }

    /// A slot for an object of so many pages. `None`: there is none.
    pub(crate) fn take(&mut self, pages: usize, prepare: Prepare<'_>) -> Option<Taken> {
        match CLASS_PAGES.iter().position(|&most| pages <= most) {
            Some(class) => self.take_small(class, prepare),
            None => self.take_large(pages, prepare).map(|number| Taken {
                number,
                origin: Origin::Large,
            }),
        }
    }

    fn take_small(&mut self, class: usize, prepare: Prepare<'_>) -> Option<Taken> {
        self.classes[class].taken += 1;
        if let Some(number) = self.classes[class].ready.pop(&self.arena) {
            return Some(Taken {
                number,
                origin: Origin::Ready,
            });
        }
        self.take_closed(class, prepare).or_else(|| {
            let number = self.classes[class].bare.pop()?;
            Some(Taken {
                number,
                origin: Origin::Queue,
            })
        })
    }

    fn take_closed(&mut self, class: usize, prepare: Prepare<'_>) -> Option<Taken> {
        // The queue grows by as many as leave it at once then.
        let most = self.bounds.and(MOST_AHEAD);
        if !self.classes[class].queue.exceeds(most)
            && let Some(number) = self.take_fresh(class, prepare)
        {
            return Some(Taken {
                number,
                origin: Origin::Fresh,
            });
        }
        let is_early = !self.classes[class].queue.exceeds(self.bounds);
        let number = self.classes[class].queue.pop(&self.arena)?;
        self.counts.reused_early += u64::from(is_early);
        Some(Taken {
            number,
            origin: Origin::Queue,
        })
    }

    /// A slot of one page to which a page can be moved. `unguard` is told of many at once, and of how many of these, the first
    /// ones, nothing ever was in them: these have guards, others hardly ever. `None`: enough wait with a page already, or there
    /// is none.
    pub(crate) fn take_bare(
        &mut self,
        prepare: Prepare<'_>,
        unguard: &mut dyn FnMut(&[Number], usize) -> bool,
    ) -> Option<Number> {
        let live = self.counts.live;
        let fewer = self.counts.peak.saturating_sub(live);
        let most = (live / LIVE_FOR_EACH_READY)
            .max(fewer)
            .clamp(READY.0, READY.1);
        let class = &mut self.classes[0];
        if class.ready.count() >= most {
            return None;
        }
        if let Some(number) = class.bare.pop() {
            return Some(number);
        }
        let wanted = class.ahead().max(1);
        let mut batch = Batch::default();
        let mut fresh = 0;
        while batch.count < wanted
            && let Some(taken) = self.take_closed(0, prepare)
        {
            batch.push(taken.number);
            if taken.origin == Origin::Fresh {
                batch.numbers.swap(fresh, batch.count - 1);
                fresh += 1;
            }
        }
        if !unguard(batch.all(), fresh) {
            batch.all().iter().for_each(|&number| self.put_back(number));
            return None;
        }
        let number = batch.pop();
        self.classes[0].bare = batch;
        number
    }

    /// A page was moved to a slot from [`Ledger::take_bare`].
    pub(crate) fn put_ready(&mut self, number: Number) {
        self.classes[0].ready.push(&self.arena, number);
    }

    /// Visits slots of one page that hold nothing and have neither page nor guard, or wait.
    pub(crate) fn visit_waiting(&self, visit: &mut dyn FnMut(Number)) {
        let class = &self.classes[0];
        class.bare.all().iter().for_each(|&number| visit(number));
        class.queue.visit(&self.arena, visit);
    }

    fn take_fresh(&mut self, class: usize, prepare: Prepare<'_>) -> Option<Number> {
        let (next, end) = self.classes[class].fresh;
        if next < end {
            self.classes[class].fresh.0 += 1;
            return Some(next);
        }
        let chunk = self
            .unused_run(1)
            .filter(|&chunk| prepare(chunk, 1, Some(class)))?;
        self.use_run(chunk, 1, class as u8 + 1);
        let first = (chunk * SLOTS) as Number;
        let slots = Arena::slots_of_class(class) as Number;
        self.classes[class].fresh = (first + 1, first + slots);
        Some(first)
    }

    /// Whether the slot of a page that was just taken is accessible already: the more objects there were, the more slots
    /// `open` opens at once, as that costs less.
    pub(crate) fn is_open(
        &mut self,
        taken: Taken,
        open: &mut dyn FnMut(&[Number]) -> bool,
    ) -> bool {
        let arena = self.arena;
        match taken.origin {
            Origin::Ready => true,
            Origin::Fresh => self.classes[0].is_fresh_open(&arena, taken.number, open),
            Origin::Queue => self.is_used_open(taken.number, open),
            Origin::Large => false,
        }
    }

    /// Of a slot that was in the queue: with it are opened those that need not wait any more.
    fn is_used_open(&mut self, number: Number, open: &mut dyn FnMut(&[Number]) -> bool) -> bool {
        let class = &mut self.classes[0];
        let ahead = class.ahead();
        let mut batch = Batch::default();
        while batch.count + 1 < ahead
            && class.queue.exceeds(self.bounds)
            && let Some(older) = class.queue.pop(&self.arena)
        {
            batch.push(older);
        }
        if batch.count == 0 {
            return false;
        }
        batch.push(number);
        let is_open = open(batch.all());
        batch.pop();
        if is_open {
            let others = batch.all().iter();
            others.for_each(|&other| class.ready.push(&self.arena, other));
        } else {
            batch.all().iter().for_each(|&other| self.put_back(other));
        }
        is_open
    }

    /// A slot that was taken, but not used, waits behind the others.
    pub(crate) fn put_back(&mut self, number: Number) {
        let facts = self.arena.slot(number).facts();
        self.put(number, self.arena.object(number, facts).bytes);
    }

    fn take_large(&mut self, pages: usize, prepare: Prepare<'_>) -> Option<Number> {
        let chunks = (pages.checked_add(1)?.checked_mul(page::bytes())?).div_ceil(CHUNK);
        if chunks > self.arena.chunks - FIRST_CHUNK {
            return None;
        }
        while self.large.exceeds(self.large_bounds) {
            self.forget_oldest_large();
        }
        let mut is_hopeful = false;
        let chunk = loop {
            match self.unused_run(chunks) {
                Some(chunk) => break chunk,
                // What waits keeps its guards where that is of no use.
                None if !is_hopeful && !self.may_have_run(chunks) => return None,
                None => {
                    is_hopeful = true;
                    self.forget_oldest_large()?;
                    self.counts.reused_early += 1;
                }
            }
        };
        if !prepare(chunk, chunks, None) {
            return None;
        }
        let number = (chunk * SLOTS) as Number;
        self.use_run(chunk, chunks, LARGE);
        self.arena.set_large(number, pages, chunks);
        Some(number)
    }

    fn forget_oldest_large(&mut self) -> Option<()> {
        let number = self.large.pop(&self.arena)?;
        let extent = self.arena.extent(number);
        let first = number as usize / SLOTS;
        let end = first + (extent.end - extent.begin) / CHUNK;
        self.arena.slot(number).clear();
        self.arena.slot(number + 1).clear();
        for chunk in first..end {
            self.arena.set_kind(chunk, UNUSED);
        }
        Some(())
    }

    /// The first of so many unused chunks in a row; searched from where the last search ended.
    fn unused_run(&self, wanted: usize) -> Option<usize> {
        let is_unused = |chunk: usize| self.arena.kind(chunk) == UNUSED;
        run_of(wanted, self.cursor..self.arena.chunks, is_unused)
            .or_else(|| run_of(wanted, FIRST_CHUNK..self.arena.chunks, is_unused))
    }

    /// Whether there would be so many unused chunks in a row if no large object waited.
    fn may_have_run(&self, wanted: usize) -> bool {
        let arena = &self.arena;
        let is_free = |chunk: usize| match arena.kind(chunk) {
            UNUSED => true,
            LARGE | REST => {
                let first = arena.find(arena.address_of_chunk(chunk));
                first.is_none_or(|first| {
                    matches!(arena.slot(first).facts().state, State::Fresh | State::Freed)
                })
            }
            _ => false,
        };
        run_of(wanted, FIRST_CHUNK..arena.chunks, is_free).is_some()
    }

    fn use_run(&mut self, first: usize, chunks: usize, kind: u8) {
        for chunk in first + 1..first + chunks {
            let slot = self.arena.slot((chunk * SLOTS) as Number);
            slot.link
                .store(first as u32, std::sync::atomic::Ordering::Relaxed);
            self.arena.set_kind(chunk, REST);
        }
        self.arena.set_kind(first, kind);
        self.end = self.end.max(first + chunks);
        self.cursor = first + chunks;
    }

    /// A slot that was taken could not be made accessible: it goes to the end of its queue, as if given back.
    pub(crate) fn put(&mut self, number: Number, bytes: usize) {
        let arena = self.arena;
        match arena.kind(number as usize / SLOTS) {
            LARGE => self.large.push(&arena, number, bytes as u64),
            kind => {
                let class = usize::from(kind - 1);
                self.classes[class].queue.push(&arena, number, bytes as u64);
            }
        }
    }

    /// An object was handed out.
    pub(crate) fn count_made(&mut self, bytes: usize) {
        let counts = &mut self.counts;
        counts.allocations += 1;
        counts.live += 1;
        counts.live_bytes += bytes as u64;
        counts.peak = counts.peak.max(counts.live);
        counts.peak_bytes = counts.peak_bytes.max(counts.live_bytes);
    }

    /// An object was given back.
    pub(crate) fn count_gone(&mut self, bytes: usize) {
        self.counts.live -= 1;
        self.counts.live_bytes -= bytes as u64;
    }
}

/// The first of so many chunks in a row of which something is true.
fn run_of(wanted: usize, chunks: Range<usize>, is_true: impl Fn(usize) -> bool) -> Option<usize> {
    let mut found = 0;
    for chunk in chunks {
        found = if is_true(chunk) { found + 1 } else { 0 };
        if found == wanted {
            return Some(chunk + 1 - wanted);
        }
    }
    None
}

#[cfg(test)]
mod tests;
