//! Which slot is handed out next. Slots that were given back wait in a queue of their class, behind their guards: so many
//! of them, and of so many bytes, that a use after free is met for long; then the oldest is handed out again.

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

/// How much waits in a queue before it is handed out again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// Of each class: 4 MiB of bookkeeping and page tables, and no memory of the objects themselves.
const WAITING: Bounds = Bounds {
    objects: 1 << 17,
    bytes: 256 << 20,
};
/// Of large objects, addresses.
const LARGE_WAITING: Bounds = Bounds {
    objects: 1 << 10,
    bytes: 16 << 30,
};

/// Slots of a page that are opened at once, at most: so many pages are memory before they are objects.
pub(crate) const MOST_AHEAD: u64 = 32;
/// One slot is opened ahead for so many that were handed out.
const TAKEN_FOR_EACH_AHEAD: u64 = 64;

/// Slots in the order in which they were given back, linked by their words.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    first: Number,
    last: Number,
    count: u64,
    bytes: u64,
}

impl Queue {
    fn push(&mut self, arena: &Arena, number: Number, bytes: u64) {
        if self.count == 0 {
            self.first = number;
        } else {
            let last = arena.slot(self.last);
            last.link
                .store(number, std::sync::atomic::Ordering::Relaxed);
        }
        self.last = number;
        self.count += 1;
        self.bytes += bytes;
    }

    fn pop(&mut self, arena: &Arena) -> Option<Number> {
        self.count = self.count.checked_sub(1)?;
        let number = self.first;
        let slot = arena.slot(number);
        self.first = slot.link.load(std::sync::atomic::Ordering::Relaxed);
        let bytes = arena.object(number, slot.facts()).bytes as u64;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(number)
    }

    fn exceeds(&self, bounds: Bounds) -> bool {
        self.count > bounds.objects || self.bytes > bounds.bytes
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Slots of the newest chunk that were never handed out.
    fresh: (Number, Number),
    /// Those of them that are accessible already.
    open: (Number, Number),
    /// Slots handed out, ever.
    taken: u64,
    queue: Queue,
}

/// A slot that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) number: Number,
    /// Nothing was ever in it.
    is_fresh: bool,
}

/// What is counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak: u64,
    pub(crate) peak_bytes: u64,
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

/// Makes chunks ready (first, how many, whether they get slots or a large object); false: there is no memory for them.
pub(crate) type Prepare<'heap> = &'heap mut dyn FnMut(usize, usize, bool) -> bool;

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
                is_fresh: false,
            }),
        }
    }

    fn take_small(&mut self, class: usize, prepare: Prepare<'_>) -> Option<Taken> {
        self.classes[class].taken += 1;
        if !self.classes[class].queue.exceeds(self.bounds)
            && let Some(number) = self.take_fresh(class, prepare)
        {
            return Some(Taken {
                number,
                is_fresh: true,
            });
        }
        let number = self.classes[class].queue.pop(&self.arena)?;
        Some(Taken {
            number,
            is_fresh: false,
        })
    }

    fn take_fresh(&mut self, class: usize, prepare: Prepare<'_>) -> Option<Number> {
        let (next, end) = self.classes[class].fresh;
        if next < end {
            self.classes[class].fresh.0 += 1;
            return Some(next);
        }
        let chunk = self
            .unused_run(1)
            .filter(|&chunk| prepare(chunk, 1, true))?;
        self.use_run(chunk, 1, class as u8 + 1);
        let first = (chunk * SLOTS) as Number;
        let slots = Arena::slots_of_class(class) as Number;
        self.classes[class].fresh = (first + 1, first + slots);
        Some(first)
    }

    /// Whether the slot of a page that was just taken is accessible already: the more objects there were, the more slots
    /// `open` opens at once (those from one number to before another), as that costs less.
    pub(crate) fn is_open(
        &mut self,
        taken: Taken,
        open: &mut dyn FnMut(Number, Number) -> bool,
    ) -> bool {
        let class = &mut self.classes[0];
        let number = taken.number;
        if !taken.is_fresh || number + 1 != class.fresh.0 {
            return false;
        }
        if (class.open.0..class.open.1).contains(&number) {
            return true;
        }
        let ahead = (class.taken / TAKEN_FOR_EACH_AHEAD).min(MOST_AHEAD) as Number;
        let end = (number + ahead).min(class.fresh.1);
        if end <= number || !open(number, end) {
            return false;
        }
        class.open = (number, end);
        true
    }

    fn take_large(&mut self, pages: usize, prepare: Prepare<'_>) -> Option<Number> {
        let chunks = (pages.checked_add(1)?.checked_mul(page::bytes())?).div_ceil(CHUNK);
        while self.large.exceeds(self.large_bounds) {
            self.forget_oldest_large();
        }
        let chunk = loop {
            match self.unused_run(chunks) {
                Some(chunk) => break chunk,
                None => self.forget_oldest_large()?,
            }
        };
        if !prepare(chunk, chunks, false) {
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
        let search = |from: usize, to: usize| {
            let mut found = 0;
            for chunk in from..to {
                found = if self.arena.kind(chunk) == UNUSED {
                    found + 1
                } else {
                    0
                };
                if found == wanted {
                    return Some(chunk + 1 - wanted);
                }
            }
            None
        };
        search(self.cursor, self.arena.chunks).or_else(|| search(FIRST_CHUNK, self.arena.chunks))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement;
    use crate::slot::Event;
    use crate::slot::Slot;
    use crate::slot::State;
    use pagewise_abi::guard::Family;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU8;

    /// Addresses without memory: only numbers are looked at.
    fn ledger(chunks: usize) -> Ledger {
        let kinds: &'static [AtomicU8] = Vec::leak((0..chunks).map(|_| AtomicU8::new(0)).collect());
        let slots: &'static [Slot] =
            Vec::leak((0..chunks * SLOTS).map(|_| Slot::default()).collect());
        let mut ledger = Ledger::new(Arena {
            base: 1 << 40,
            chunks,
            slots: slots.as_ptr(),
            kinds,
            side: placement::Side::End,
        });
        ledger.bounds = Bounds {
            objects: 5,
            bytes: 100_000,
        };
        ledger.large_bounds = Bounds {
            objects: 2,
            bytes: 8 << 20,
        };
        ledger
    }

    fn make(ledger: &mut Ledger, bytes: usize) -> Option<(Number, placement::Placed)> {
        let alignment = placement::Alignment::Auto.of(bytes);
        let pages = placement::pages(bytes, alignment, crate::arena::LARGE_PAGES)?;
        let number = ledger.take(pages, &mut |_, _, _| true)?.number;
        let arena = ledger.arena();
        let slot = arena.slot(number);
        if arena.is_large(number) {
            arena.set_large_bytes(number, bytes);
            assert!(slot.hold(Family::Malloc, alignment, 0, 1));
        } else {
            assert!(slot.hold(Family::Malloc, alignment, bytes, 1));
        }
        Some((number, arena.object(number, slot.facts())))
    }

    fn give_back(ledger: &mut Ledger, number: Number, bytes: usize) {
        let slot = ledger.arena().slot(number);
        assert!(slot.step(Event::Leaves).is_some());
        assert!(slot.step(Event::Left).is_some());
        ledger.put(number, bytes);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against a map of what is alive: no two objects share a byte or a guard, each address is found again, and what
        /// was given back stays away for at least as many objects as the bound says.
        #[test]
        fn a_random_sequence_is_as_in_the_model(
            steps in prop::collection::vec((0usize..3, 0usize..400_000, any::<prop::sample::Index>()), 1..400)
        ) {
            let mut ledger = ledger(65);
            let arena = ledger.arena();
            let mut alive: BTreeMap<usize, (usize, Number)> = BTreeMap::new();
            let mut latest: Vec<Number> = Vec::new();
            for (what, size, which) in steps {
                if what < 2 {
                    // Mostly small ones.
                    let bytes = if size % 3 > 0 { size % 5000 } else { size };
                    let Some((number, placed)) = make(&mut ledger, bytes) else {
                        prop_assert!(alive.len() > 4, "full with {} objects", alive.len());
                        continue;
                    };
                    prop_assert!(!latest.contains(&number), "handed out again too soon");
                    let extent = arena.extent(number);
                    prop_assert_eq!(placed.guard, extent.guard);
                    prop_assert!(placed.first_page() >= extent.begin && placed.end() <= extent.guard);
                    prop_assert!(extent.guard < extent.end);
                    for address in [placed.first_page(), extent.guard, extent.end - 1] {
                        prop_assert_eq!(arena.find(address), Some(number));
                    }
                    let before = alive.range(..=extent.begin).next_back();
                    if let Some((_, &(end, _))) = before {
                        prop_assert!(end <= extent.begin, "two slots overlap");
                    }
                    prop_assert!(alive.range(extent.begin..extent.end).next().is_none());
                    alive.insert(extent.begin, (extent.end, number));
                } else if !alive.is_empty() {
                    let begin = *which.get(&alive.keys().copied().collect::<Vec<_>>());
                    let (_, number) = alive.remove(&begin).expect("alive");
                    let facts = arena.slot(number).facts();
                    prop_assert_eq!(facts.state, State::Live);
                    let bytes = arena.object(number, facts).bytes;
                    let is_large = arena.is_large(number);
                    give_back(&mut ledger, number, bytes);
                    if !is_large && bytes < 5000 {
                        latest.push(number);
                        if latest.len() > 5 {
                            latest.remove(0);
                        }
                    }
                }
            }
            let mut live = 0;
            arena.visit(ledger.chunks_used(), &mut |number| {
                live += usize::from(arena.slot(number).facts().state == State::Live);
            });
            prop_assert_eq!(live, alive.len());
        }
    }

    #[test]
    fn the_oldest_is_handed_out_again_first() {
        let mut ledger = ledger(5);
        let made: Vec<Number> = (0..8)
            .filter_map(|_| Some(make(&mut ledger, 24)?.0))
            .collect();
        for &number in &made {
            give_back(&mut ledger, number, 24);
        }
        let again: Vec<Number> = (0..4)
            .filter_map(|_| Some(make(&mut ledger, 24)?.0))
            .collect();
        assert_eq!(again[..3], made[..3], "three are more than the queue keeps");
        assert!(again[3] > made[7], "a fresh one");
    }

    #[test]
    fn where_no_chunk_is_left_the_queue_serves_and_then_nothing() {
        let mut ledger = ledger(2);
        let all: Vec<Number> = (0..SLOTS)
            .filter_map(|_| Some(make(&mut ledger, 1)?.0))
            .collect();
        assert_eq!(all.len(), Arena::slots_of_class(0));
        assert!(make(&mut ledger, 1).is_none());
        assert!(make(&mut ledger, 100_000).is_none());
        give_back(&mut ledger, all[7], 1);
        assert_eq!(make(&mut ledger, 1).map(|(number, _)| number), Some(all[7]));
    }

    #[test]
    fn slots_are_opened_ahead_once_there_were_many_and_each_serves_once() {
        let mut ledger = ledger(10);
        let mut opened: Vec<Number> = Vec::new();
        let mut without = 0;
        for _ in 0..1000 {
            let taken = ledger.take(1, &mut |_, _, _| true).expect("there is room");
            let is_open = ledger.is_open(taken, &mut |from, to| {
                opened.extend(from..to);
                true
            });
            assert_eq!(is_open, opened.contains(&taken.number), "{taken:?}");
            without += u32::from(!is_open);
            assert!(
                opened
                    .iter()
                    .filter(|&&number| number > taken.number)
                    .count()
                    < MOST_AHEAD as usize
            );
        }
        assert_eq!(u64::from(without), TAKEN_FOR_EACH_AHEAD - 1);
        let first = *opened.first().expect("some were");
        assert!(ledger.arena().slot(first).hold(Family::Malloc, 8, 24, 1));
        give_back(&mut ledger, first, 24);
        ledger.bounds.objects = 0;
        let again = ledger
            .take(1, &mut |_, _, _| true)
            .expect("the one that was given back");
        assert_eq!(again.number, first);
        assert!(!ledger.is_open(again, &mut |_, _| true), "its guard stands");
    }

    #[test]
    fn a_refused_chunk_is_no_chunk() {
        let mut ledger = ledger(5);
        assert!(ledger.take(1, &mut |_, _, _| false).is_none());
        assert!(ledger.take(1000, &mut |_, _, _| false).is_none());
        assert_eq!(ledger.arena().find(ledger.arena().base + CHUNK), None);
        assert!(make(&mut ledger, 1).is_some());
    }

    #[test]
    fn chunks_of_large_objects_serve_others_later() {
        let mut ledger = ledger(5);
        let large = 5 << 20;
        for _ in 0..20 {
            let (number, placed) = make(&mut ledger, large).expect("there is room");
            assert_eq!(placed.bytes, large);
            give_back(&mut ledger, number, large);
        }
        assert!(make(&mut ledger, 24).is_some());
    }
}
