//! SIEVE: FIFO whose hand takes the unvisited pages out where they are, and leaves the visited in their place.
//! Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, SIEVE is simpler than LRU, NSDI 2024.

use crate::lists::Links;
use crate::lists::List;
use crate::lists::NONE;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

const VISITED: u8 = 1;

/// Eight bytes a page; the visited bit is one of the memory's.
pub(crate) struct Sieve {
    links: Links,
    list: List,
    /// Where the search for a victim goes on, or [`NONE`]: at the oldest.
    hand: u32,
}

impl Sieve {
    pub(crate) fn new() -> Sieve {
        Sieve {
            links: Links::default(),
            list: List::new(),
            hand: NONE,
        }
    }

    fn evict(&mut self, memory: &mut Memory) {
        let mut page = self.hand;
        loop {
            if page == NONE {
                page = self.list.oldest();
            }
            if memory.bits(page) != VISITED {
                break;
            }
            memory.set_bits(page, 0);
            page = self.links.newer(page);
        }
        self.hand = self.links.newer(page);
        self.list.remove(page, &mut self.links);
        memory.evict(page);
    }
}

impl Policy for Sieve {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        memory.set_bits(reference.page(), VISITED);
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.is_full() {
            self.evict(memory);
        }
        self.list.push(reference.page(), &mut self.links);
        memory.admit(reference.page());
        memory.set_bits(reference.page(), 0);
    }
}
