//! Leaks: objects that nothing points to when their process ends. Everything writable outside the arena is searched for
//! words that could be addresses of objects, and so are the objects found. What looks like an address is one, so that a few
//! leaks may be missed; what a program hides (differences, exclusive ors) is not seen.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use pagewise_interpose::capture;

use crate::arena::Arena;
use crate::arena::Number;
use crate::arena::SLOTS;
use crate::careful;
use crate::compaction;
use crate::descriptor::Descriptor;
use crate::heap;
use crate::heap::Seen;
use crate::mappings::visit_mappings;
use crate::page;
use crate::placement::Placed;
use crate::report;
use crate::slot::State;
use crate::system;

const WORD: usize = size_of::<usize>();
/// Of longer mappings only the pages that have memory are searched.
const LONG: usize = 64 << 20;
/// Pages that are asked for at once.
const PAGES_AT_ONCE: usize = 512;
/// Bytes that are searched together.
const PIECE: usize = 4096;
/// Call paths of leaked objects that are told of.
const MOST_SITES: usize = 512;

/// Memory of our own for as long as the search takes.
struct Scratch {
    start: usize,
    bytes: usize,
}

impl Scratch {
    fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(page::bytes()).max(page::bytes());
        let start = system::reserve(bytes)?;
        let scratch = Self { start, bytes };
        system::set_usable(start, bytes, true).then_some(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        system::unreserve(self.start, self.bytes);
    }
}

/// A bit for each slot.
struct Marks(Scratch);

impl Marks {
    fn new(chunks: usize) -> Option<Self> {
        Scratch::new(chunks * SLOTS / 8).map(Self)
    }

    /// The byte of a slot's bit, and the bit. `None`: of a chunk that was made later.
    fn place(&self, number: Number) -> Option<(&AtomicU8, u8)> {
        let at = number as usize / 8;
        // SAFETY: within the scratch memory.
        let byte =
            (at < self.0.bytes).then(|| unsafe { &*((self.0.start + at) as *const AtomicU8) })?;
        Some((byte, 1 << (number % 8)))
    }

    /// True the first time.
    fn mark(&self, number: Number) -> bool {
        self.place(number)
            .is_some_and(|(byte, bit)| byte.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    fn has(&self, number: Number) -> bool {
        self.place(number)
            .is_some_and(|(byte, bit)| byte.load(Ordering::Relaxed) & bit != 0)
    }

    fn range(&self) -> Range<usize> {
        self.0.start..self.0.start + self.0.bytes
    }
}

/// Which objects there were before the search (threads that run may make others meanwhile), which were reached, and those whose
/// contents are still to be searched.
struct Search {
    arena: Arena,
    known: Marks,
    marks: Marks,
    waiting: Scratch,
    waiting_count: usize,
}

impl Search {
    fn new(arena: Arena, chunks: usize, live: u64) -> Option<Self> {
        let known = Marks::new(chunks)?;
        heap::visit_live(&mut |_, seen| {
            known.mark(seen.number);
        });
        Some(Self {
            arena,
            known,
            marks: Marks::new(chunks)?,
            // Others may still be made meanwhile.
            waiting: Scratch::new((live as usize + 1024) * 2 * size_of::<Number>())?,
            waiting_count: 0,
        })
    }

    /// A word that may be an object's address.
    fn consider(&mut self, word: usize) {
        let offset = word.wrapping_sub(self.arena.base);
        if offset >= self.arena.chunks * crate::arena::CHUNK {
            return;
        }
        // One past the end, which may be the begin of the guard, is the object's, too.
        for address in [word, word.wrapping_sub(1)] {
            let Some(seen) = heap::look(address) else {
                continue;
            };
            let placed = &seen.placed;
            let is_its = (placed.start..=placed.end()).contains(&word);
            if seen.facts.state == State::Live && is_its && self.marks.mark(seen.number) {
                self.push(seen.number);
            }
        }
    }

    fn push(&mut self, number: Number) {
        let at = self.waiting_count * size_of::<Number>();
        if at + size_of::<Number>() <= self.waiting.bytes {
            // SAFETY: within the scratch memory.
            unsafe { ((self.waiting.start + at) as *mut Number).write(number) };
            self.waiting_count += 1;
        }
    }

    fn pop(&mut self) -> Option<Number> {
        self.waiting_count = self.waiting_count.checked_sub(1)?;
        let at = self.waiting_count * size_of::<Number>();
        // SAFETY: written by `push`.
        Some(unsafe { ((self.waiting.start + at) as *const Number).read() })
    }

    /// As far as they can be read: other threads still run, which give objects back and memory up.
    #[inline(never)]
    fn words(&mut self, start: usize, end: usize) {
        let mut piece = [0u8; PIECE];
        let start = start.next_multiple_of(WORD);
        let mut at = start;
        while at < end {
            let wanted = PIECE.min(end - at);
            let bytes = careful::read(&mut piece[..wanted], at);
            for word in piece[..bytes].chunks_exact(WORD) {
                let word = <[u8; WORD]>::try_from(word).unwrap_or_default();
                self.consider(usize::from_ne_bytes(word));
            }
            // A page that cannot be read may have others behind it: a guard in a thread's stack, or what was just given up.
            at = match bytes == wanted {
                true => at + bytes,
                false => page::floor(at + bytes) + page::bytes(),
            };
        }
    }

    /// As [`Search::words`] of an object whose bytes are elsewhere.
    ///
    /// # Safety
    /// As many bytes as the object has must be readable there.
    unsafe fn words_of_copy(&mut self, place: usize, object: &Placed) {
        let mut at = object.start.next_multiple_of(WORD);
        while at + WORD <= object.end() {
            let word = (place + at - object.start) as *const usize;
            // SAFETY: by our caller.
            self.consider(unsafe { word.read_unaligned() });
            at += WORD;
        }
    }

    fn follow(&mut self) {
        while let Some(number) = self.pop() {
            let facts = self.arena.slot(number).facts();
            let placed = self.arena.object(number, facts);
            if facts.state != State::Live || !self.arena.may_hold(number, &placed) {
                continue;
            }
            match compaction::place_in_store(&self.arena, number, facts) {
                // SAFETY: an object's bytes, while the compactor holds still.
                Some(place) => unsafe { self.words_of_copy(place, &placed) },
                None => self.words(placed.start, placed.end()),
            }
        }
    }

    fn mapping(&mut self, start: usize, end: usize, pagemap: Option<&Descriptor>) {
        if end - start <= LONG {
            self.words(start, end);
            return;
        }
        let page = page::bytes();
        let mut entries = [0u64; PAGES_AT_ONCE];
        let mut at = start;
        while at < end {
            let pages = ((end - at) / page).min(PAGES_AT_ONCE);
            let known = pagemap.is_some_and(|map| map.read_at(&mut entries[..pages], at / page));
            for (index, &entry) in entries[..pages].iter().enumerate() {
                // Present, or in swap.
                if !known || entry >> 62 != 0 {
                    let here = at + index * page;
                    self.words(here, here + page);
                }
            }
            at += pages * page;
        }
    }
}

/// Objects leaked by one call path.
#[derive(Clone, Copy)]
struct Site {
    path: u32,
    objects: u64,
    bytes: u64,
    example: Seen,
}

/// Searches, and reports each call path whose objects nothing points to, most bytes first.
pub(crate) fn look() {
    let (Some(arena), Some((counts, chunks))) = (heap::arena(), heap::counts()) else {
        return;
    };
    let Some(mut search) = Search::new(arena, chunks, counts.live) else {
        return;
    };
    // Below is what calls that have returned left behind.
    let stack = capture().stack;
    let pagemap = Descriptor::open(c"/proc/self/pagemap");
    let ours = [
        search.known.range(),
        search.marks.range(),
        search.waiting.start..search.waiting.start + search.waiting.bytes,
        arena.base..arena.base + arena.chunks * crate::arena::CHUNK,
        compaction::place_of_store(),
        compaction::place_of_thread(),
    ];
    compaction::hold_still();
    let found = visit_mappings(&mut |start, end| {
        let is_stack = (start..end).contains(&stack);
        let start = if is_stack { stack } else { start };
        visit_others(start, end, &ours, &mut |from, to| {
            search.mapping(from, to, pagemap.as_ref());
            search.follow();
        });
    });
    compaction::go_on();
    if found.is_some() {
        tell(&search);
    } else {
        static WAS_SAID: AtomicBool = AtomicBool::new(false);
        report::say_once(
            &WAS_SAID,
            "pagewise: leaks could not be looked for: /proc/self/maps cannot be opened (no descriptor left, or no /proc here?)\n",
        );
    }
}

/// Visits the parts of a mapping that are not ours: the kernel joins neighbours.
fn visit_others(
    start: usize,
    end: usize,
    ours: &[Range<usize>],
    visit: &mut dyn FnMut(usize, usize),
) {
    let mut at = start;
    while at < end {
        let later = ours.iter().filter(|own| own.start < end && at < own.end);
        match later.min_by_key(|own| own.start) {
            Some(own) => {
                if at < own.start {
                    visit(at, own.start);
                }
                at = own.end;
            }
            None => {
                visit(at, end);
                at = end;
            }
        }
    }
}

fn tell(search: &Search) {
    let mut sites: [Option<Site>; MOST_SITES] = [None; MOST_SITES];
    heap::visit_live(&mut |arena, seen| {
        if search.marks.has(seen.number) || !search.known.has(seen.number) {
            return;
        }
        let path = arena.slot(seen.number).made.load(Ordering::Relaxed);
        let is_its = |site: &&mut Option<Site>| site.as_ref().is_none_or(|site| site.path == path);
        if let Some(place) = sites.iter_mut().find(is_its) {
            let site = place.get_or_insert(Site {
                path,
                objects: 0,
                bytes: 0,
                example: seen,
            });
            site.objects += 1;
            site.bytes += seen.placed.bytes as u64;
        }
    });
    sites.sort_unstable_by_key(|site| std::cmp::Reverse(site.map_or(0, |site| site.bytes + 1)));
    for site in sites.iter().flatten() {
        report::leak(&site.example, site.objects, site.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_mapping_all_but_our_parts_is_visited() {
        let ours = [40..50, 10..20, 0..0, 90..200];
        for (start, end, expected) in [
            (0, 100, vec![(0, 10), (20, 40), (50, 90)]),
            (10, 20, vec![]),
            (15, 45, vec![(20, 40)]),
            (20, 40, vec![(20, 40)]),
            (95, 300, vec![(200, 300)]),
        ] {
            let mut visited = Vec::new();
            visit_others(start, end, &ours, &mut |from, to| visited.push((from, to)));
            assert_eq!(visited, expected, "{start} to {end}");
        }
    }
}
