//! 2Q, full version: a FIFO for pages seen once, an LRU list for those seen again after they had left it, and a FIFO
//! that remembers what left.
//! T. Johnson, D. Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Share of memory of `A1in`, as the paper recommends.
const IN_SHARE: f64 = 0.25;
/// Length of `A1out` as a share of memory, as the paper recommends.
const OUT_SHARE: f64 = 0.5;

const IN_AM: u8 = 1;
const IN_OUT: u8 = 2;

/// Eight bytes a page; the queue is in the memory's bits.
pub(crate) struct TwoQ {
    links: Links,
    a1_in: List,
    a1_out: List,
    am: List,
    in_frames: u32,
    out_frames: u32,
}

impl TwoQ {
    pub(crate) fn new(frames: u32) -> TwoQ {
        TwoQ {
            links: Links::default(),
            a1_in: List::new(),
            a1_out: List::new(),
            am: List::new(),
            in_frames: (f64::from(frames) * IN_SHARE) as u32,
            out_frames: (f64::from(frames) * OUT_SHARE) as u32,
        }
    }

    fn evict(&mut self, memory: &mut Memory) {
        if self.a1_in.len() <= self.in_frames {
            memory.evict(self.am.pop(&mut self.links));
            return;
        }
        let page = self.a1_in.pop(&mut self.links);
        memory.evict(page);
        if self.out_frames == 0 {
            return;
        }
        if self.a1_out.len() == self.out_frames {
            let forgotten = self.a1_out.pop(&mut self.links);
            memory.set_bits(forgotten, 0);
        }
        self.a1_out.push(page, &mut self.links);
        memory.set_bits(page, IN_OUT);
    }
}

impl Policy for TwoQ {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.bits(reference.page()) == IN_AM {
            self.am.renew(reference.page(), &mut self.links);
        }
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let remembered = memory.bits(page) == IN_OUT;
        if remembered {
            self.a1_out.remove(page, &mut self.links);
        }
        if memory.is_full() {
            self.evict(memory);
        }
        memory.admit(page);
        if remembered {
            self.am.push(page, &mut self.links);
            memory.set_bits(page, IN_AM);
        } else {
            self.a1_in.push(page, &mut self.links);
            memory.set_bits(page, 0);
        }
    }
}
