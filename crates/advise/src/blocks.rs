//! Where objects lie, as events show it.
//!
//! Memory may be one object's first and another's later: what `realloc` has shrunk, or what is made where something else was. A page
//! belongs to the object that most of its events were for.

use std::collections::HashMap;

/// A block of memory that belongs to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) space: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) object: usize,
    /// Bytes of its object that lie before it: what a rule keeps, it keeps of all blocks together.
    pub(crate) before: u64,
}

impl Block {
    fn holds(&self, space: u32, address: u64) -> bool {
        self.space == space
            && (self.start..self.start.saturating_add(self.bytes)).contains(&address)
    }
}

/// Whose a page was at most events: the majority, if one has it.
#[derive(Clone, Copy, Debug)]
struct Owner {
    block: u32,
    /// By so many events it is ahead of all others.
    lead: u32,
}

/// The blocks of objects, each as far as an event was seen in it; of an object of one block all of it.
#[derive(Debug)]
pub(crate) struct Blocks {
    page_bytes: u64,
    /// By address space and start.
    sorted: Vec<Block>,
    /// Of these, the heaps, in which others may lie.
    heaps: Vec<Block>,
    /// Which of `sorted` a page belongs to, by address space and page: of those that are not in the last block before them.
    elsewhere: HashMap<(u32, u64), u32>,
    /// While events are noted: numbers of blocks by address space, start and object, their events, and owners of pages.
    numbers: HashMap<(u32, u64, usize), u32>,
    events: Vec<u64>,
    owners: HashMap<(u32, u64), Owner>,
}

impl Blocks {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            sorted: Vec::new(),
            heaps: Vec::new(),
            elsewhere: HashMap::new(),
            numbers: HashMap::new(),
            events: Vec::new(),
            owners: HashMap::new(),
        }
    }

    /// An event in a page of this block, which is as large as is known so far.
    pub(crate) fn note(&mut self, block: Block, page: u64) {
        let key = (block.space, block.start, block.object);
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.sorted.push(block);
            self.events.push(0);
            self.sorted.len() as u32 - 1
        });
        self.events[number as usize] += 1;
        let known = &mut self.sorted[number as usize];
        known.bytes = known.bytes.max((page + 1) * self.page_bytes);
        let at = (block.space, block.start / self.page_bytes + page);
        let owner = self.owners.entry(at).or_insert(Owner {
            block: number,
            lead: 0,
        });
        // The vote of R. S. Boyer and J. S. Moore (MJRTY, 1991).
        match (owner.block == number, owner.lead) {
            (true, _) => owner.lead = owner.lead.saturating_add(1),
            (false, 0) => {
                *owner = Owner {
                    block: number,
                    lead: 1,
                }
            }
            (false, _) => owner.lead -= 1,
        }
    }

    /// All events were noted. `knows_before`: of objects, whether what lies before their blocks is known; of others it is what lies at lower addresses.
    pub(crate) fn end(
        &mut self,
        is_heap: impl Fn(usize) -> bool,
        knows_before: impl Fn(usize) -> bool,
    ) {
        let numbered = std::mem::take(&mut self.sorted);
        self.numbers = HashMap::new();
        let events = std::mem::take(&mut self.events);
        let mut order: Vec<u32> = (0..numbered.len() as u32).collect();
        order.sort_unstable_by_key(|&number| {
            let block = &numbered[number as usize];
            (block.space, block.start, events[number as usize])
        });
        let mut place_of = vec![0; order.len()];
        for (place, &number) in order.iter().enumerate() {
            place_of[number as usize] = place as u32;
        }
        self.sorted = order
            .iter()
            .map(|&number| numbered[number as usize])
            .collect();
        let mut before: HashMap<(u32, usize), u64> = HashMap::new();
        for block in &mut self.sorted {
            if knows_before(block.object) {
                continue;
            }
            let sum = before.entry((block.space, block.object)).or_default();
            block.before = *sum;
            *sum = sum.saturating_add(block.bytes);
        }
        let heaps = self.sorted.iter().filter(|block| is_heap(block.object));
        self.heaps = heaps.copied().collect();
        for ((space, page), owner) in std::mem::take(&mut self.owners) {
            let place = place_of[owner.block as usize];
            if self.nearest(space, page * self.page_bytes) != Some(&self.sorted[place as usize]) {
                self.elsewhere.insert((space, page), place);
            }
        }
    }

    /// The block that a page lies in, by its address.
    pub(crate) fn at(&self, space: u32, address: u64) -> Option<&Block> {
        let page = (space, address / self.page_bytes);
        match self.elsewhere.get(&page) {
            Some(&place) => self.sorted.get(place as usize),
            None => self.nearest(space, address),
        }
    }

    /// Of the last blocks that begin before an address at the same place, the one of most events that holds it; else a heap.
    fn nearest(&self, space: u32, address: u64) -> Option<&Block> {
        let is_before = |block: &Block| (block.space, block.start) <= (space, address);
        let before = &self.sorted[..self.sorted.partition_point(is_before)];
        let start = before.last().map(|block| block.start);
        let at_start = |block: &&Block| Some(block.start) == start;
        let mut at_its_start = before.iter().rev().take_while(at_start);
        let holds = |block: &&Block| block.holds(space, address);
        let nearest = at_its_start.find(holds);
        nearest.or_else(|| self.heaps.iter().find(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn block(start: u64, object: usize) -> Block {
        Block {
            space: 0,
            start: start * PAGE,
            bytes: 0,
            object,
            before: 0,
        }
    }

    /// Notes each page of a block so many times.
    fn note(blocks: &mut Blocks, block: Block, pages: u64, times: usize) {
        for _ in 0..times {
            (0..pages).for_each(|page| blocks.note(block, page));
        }
    }

    fn owner(blocks: &Blocks, page: u64) -> Option<(usize, u64)> {
        let block = blocks.at(0, page * PAGE + 1)?;
        Some((block.object, block.start / PAGE))
    }

    #[test]
    fn memory_belongs_to_whom_most_of_its_events_are_for() {
        let mut blocks = Blocks::new(PAGE);
        // Filled, then shrunk by `realloc`, and used.
        note(&mut blocks, block(100, 7), 10, 1);
        note(&mut blocks, block(100, 3), 8, 5);
        // Used for long, then freed, and something else is made in the middle of it.
        note(&mut blocks, block(200, 1), 10, 5);
        note(&mut blocks, block(203, 2), 2, 1);
        blocks.end(|_| false, |_| false);
        assert_eq!(owner(&blocks, 100), Some((3, 100)));
        assert_eq!(owner(&blocks, 107), Some((3, 100)));
        assert_eq!(owner(&blocks, 108), Some((7, 100)));
        assert_eq!(owner(&blocks, 110), None);
        assert_eq!(owner(&blocks, 202), Some((1, 200)));
        assert_eq!(owner(&blocks, 203), Some((1, 200)));
        assert_eq!(owner(&blocks, 205), Some((1, 200)));
    }

    #[test]
    fn pages_without_events_are_those_of_the_block_with_most() {
        let sized = |object, pages| Block {
            bytes: pages * PAGE,
            ..block(100, object)
        };
        let mut blocks = Blocks::new(PAGE);
        note(&mut blocks, sized(9, 20), 1, 1);
        note(&mut blocks, sized(3, 10), 1, 5);
        blocks.end(|_| false, |_| false);
        assert_eq!(owner(&blocks, 105), Some((3, 100)));
        assert_eq!(owner(&blocks, 115), Some((9, 100)));
        assert_eq!(owner(&blocks, 120), None);
    }

    #[test]
    fn what_lies_in_a_heap_is_its_own() {
        let mut blocks = Blocks::new(PAGE);
        for page in (0..40).chain(50..100) {
            blocks.note(block(0, 0), page);
        }
        note(&mut blocks, block(40, 1), 10, 1);
        blocks.end(|object| object == 0, |_| false);
        assert_eq!(owner(&blocks, 39), Some((0, 0)));
        assert_eq!(owner(&blocks, 40), Some((1, 40)));
        assert_eq!(owner(&blocks, 50), Some((0, 0)));
    }

    #[test]
    fn blocks_of_one_object_lie_one_after_the_other() {
        let mut blocks = Blocks::new(PAGE);
        note(&mut blocks, block(50, 0), 4, 1);
        note(&mut blocks, block(10, 0), 3, 1);
        blocks.end(|_| false, |_| false);
        let before = |page| blocks.at(0, page * PAGE).map(|block| block.before / PAGE);
        assert_eq!(before(10), Some(0));
        assert_eq!(before(50), Some(3));
    }
}
