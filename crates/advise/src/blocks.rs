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

/// Blocks, while events are noted that lie in them: each is as large as an event was seen in it; of an object of one block all of it.
#[derive(Debug)]
pub(crate) struct Noted {
    page_bytes: u64,
    /// With how many events each has.
    blocks: Vec<(Block, u64)>,
    /// Their numbers in `blocks`, by address space, start and object.
    numbers: HashMap<(u32, u64, usize), u32>,
    /// By address space and page.
    owners: HashMap<(u32, u64), Owner>,
}

impl Noted {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            blocks: Vec::new(),
            numbers: HashMap::new(),
            owners: HashMap::new(),
        }
    }

    /// An event in a page of this block, which is as large as is known so far.
    pub(crate) fn note(&mut self, block: Block, page: u64) {
        let key = (block.space, block.start, block.object);
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.blocks.push((block, 0));
            self.blocks.len() as u32 - 1
        });
        let (known, events) = &mut self.blocks[number as usize];
        known.bytes = known.bytes.max((page + 1) * self.page_bytes);
        *events += 1;
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
    pub(crate) fn into_blocks(
        self,
        is_heap: impl Fn(usize) -> bool,
        knows_before: impl Fn(usize) -> bool,
    ) -> Blocks {
        let numbered = self.blocks;
        let mut order: Vec<u32> = (0..numbered.len() as u32).collect();
        order.sort_unstable_by_key(|&number| {
            let (block, events) = &numbered[number as usize];
            (block.space, block.start, *events)
        });
        let mut place_of = vec![0; order.len()];
        for (place, &number) in order.iter().enumerate() {
            place_of[number as usize] = place as u32;
        }
        let sorted = order.iter().map(|&number| numbered[number as usize].0);
        let mut sorted: Vec<Block> = sorted.collect();
        let mut before: HashMap<(u32, usize), u64> = HashMap::new();
        for block in &mut sorted {
            if knows_before(block.object) {
                continue;
            }
            let sum = before.entry((block.space, block.object)).or_default();
            block.before = *sum;
            *sum = sum.saturating_add(block.bytes);
        }
        let heaps = sorted.iter().filter(|block| is_heap(block.object));
        let mut blocks = Blocks {
            page_bytes: self.page_bytes,
            heaps: heaps.copied().collect(),
            sorted,
            elsewhere: HashMap::new(),
        };
        for ((space, page), owner) in self.owners {
            let place = place_of[owner.block as usize];
            let own = &blocks.sorted[place as usize];
            if blocks.nearest(space, page * blocks.page_bytes) != Some(own) {
                blocks.elsewhere.insert((space, page), place);
            }
        }
        blocks
    }
}

/// Where the blocks of objects lie.
#[derive(Debug)]
pub(crate) struct Blocks {
    page_bytes: u64,
    /// By address space, start and number of events.
    sorted: Vec<Block>,
    /// Of these, the heaps, in which others may lie.
    heaps: Vec<Block>,
    /// Which of `sorted` a page belongs to, by address space and page, where that is not the nearest.
    elsewhere: HashMap<(u32, u64), u32>,
}

impl Blocks {
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
    fn note(blocks: &mut Noted, block: Block, pages: u64, times: usize) {
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
        let mut blocks = Noted::new(PAGE);
        // Filled, then shrunk by `realloc`, and used.
        note(&mut blocks, block(100, 7), 10, 1);
        note(&mut blocks, block(100, 3), 8, 5);
        // Used for long, then freed, and something else is made in the middle of it.
        note(&mut blocks, block(200, 1), 10, 5);
        note(&mut blocks, block(203, 2), 2, 1);
        let blocks = blocks.into_blocks(|_| false, |_| false);
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
        let mut blocks = Noted::new(PAGE);
        note(&mut blocks, sized(9, 20), 1, 1);
        note(&mut blocks, sized(3, 10), 1, 5);
        let blocks = blocks.into_blocks(|_| false, |_| false);
        assert_eq!(owner(&blocks, 105), Some((3, 100)));
        assert_eq!(owner(&blocks, 115), Some((9, 100)));
        assert_eq!(owner(&blocks, 120), None);
    }

    #[test]
    fn what_lies_in_a_heap_is_its_own() {
        let mut blocks = Noted::new(PAGE);
        for page in (0..40).chain(50..100) {
            blocks.note(block(0, 0), page);
        }
        note(&mut blocks, block(40, 1), 10, 1);
        let blocks = blocks.into_blocks(|object| object == 0, |_| false);
        assert_eq!(owner(&blocks, 39), Some((0, 0)));
        assert_eq!(owner(&blocks, 40), Some((1, 40)));
        assert_eq!(owner(&blocks, 50), Some((0, 0)));
    }

    #[test]
    fn blocks_of_one_object_lie_one_after_the_other() {
        let mut blocks = Noted::new(PAGE);
        note(&mut blocks, block(50, 0), 4, 1);
        note(&mut blocks, block(10, 0), 3, 1);
        let blocks = blocks.into_blocks(|_| false, |_| false);
        let before = |page| blocks.at(0, page * PAGE).map(|block| block.before / PAGE);
        assert_eq!(before(10), Some(0));
        assert_eq!(before(50), Some(3));
    }
}
