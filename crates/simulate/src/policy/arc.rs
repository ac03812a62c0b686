//! ARC: one LRU list for pages seen once and one for those seen more often, and a balance that learns from the ghosts of
//! both.
//! N. Megiddo, D. S. Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003, Fig. 4.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Where a page is; `NOWHERE` is 0, as nothing has been set yet.
const NOWHERE: u8 = 0;
const T1: u8 = 1;
const T2: u8 = 2;
const B1: u8 = 3;
const B2: u8 = 4;

/// Eight bytes a page; the list is in the memory's bits.
pub(crate) struct Arc {
    links: Links,
    t1: List,
    t2: List,
    b1: List,
    b2: List,
    /// Target size of T1. The paper's is a real number: the increments are ratios of lengths.
    target: f64,
}

impl Arc {
    pub(crate) fn new() -> Arc {
        Arc {
            links: Links::default(),
            t1: List::new(),
            t2: List::new(),
            b1: List::new(),
            b2: List::new(),
            target: 0.0,
        }
    }

    /// REPLACE of the paper: evicts from T1 or T2, into B1 or B2.
    fn replace(&mut self, in_b2: bool, memory: &mut Memory) {
        let t1 = f64::from(self.t1.len());
        let from_t1 = t1 > self.target || t1 == self.target && in_b2;
        if !self.t1.is_empty() && from_t1 || self.t2.is_empty() {
            let page = self.t1.pop(&mut self.links);
            memory.evict(page);
            self.b1.push(page, &mut self.links);
            memory.set_bits(page, B1);
        } else {
            let page = self.t2.pop(&mut self.links);
            memory.evict(page);
            self.b2.push(page, &mut self.links);
            memory.set_bits(page, B2);
        }
    }

    /// Cases II and III: the page is remembered.
    fn miss_in_ghost(&mut self, page: u32, in_b2: bool, memory: &mut Memory) {
        let (b1, b2) = (f64::from(self.b1.len()), f64::from(self.b2.len()));
        if in_b2 {
            self.target = (self.target - (b1 / b2).max(1.0)).max(0.0);
            self.b2.remove(page, &mut self.links);
        } else {
            self.target = (self.target + (b2 / b1).max(1.0)).min(f64::from(memory.frames()));
            self.b1.remove(page, &mut self.links);
        }
        if memory.is_full() {
            self.replace(in_b2, memory);
        }
        memory.admit(page);
        self.t2.push(page, &mut self.links);
        memory.set_bits(page, T2);
    }

    /// Case IV: the page is in no list.
    fn miss_everywhere(&mut self, page: u32, memory: &mut Memory) {
        let frames = memory.frames();
        let l1 = self.t1.len() + self.b1.len();
        if l1 == frames && self.b1.is_empty() {
            memory.set_bits(self.t1.oldest(), NOWHERE);
            memory.evict(self.t1.pop(&mut self.links));
        } else if memory.is_full() {
            if l1 == frames {
                memory.set_bits(self.b1.pop(&mut self.links), NOWHERE);
            } else if u64::from(l1) + u64::from(self.t2.len()) + u64::from(self.b2.len())
                >= 2 * u64::from(frames)
            {
                memory.set_bits(self.b2.pop(&mut self.links), NOWHERE);
            }
            self.replace(false, memory);
        }
        memory.admit(page);
        self.t1.push(page, &mut self.links);
        memory.set_bits(page, T1);
    }
}

impl Policy for Arc {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        if memory.bits(page) == T2 {
            self.t2.renew(page, &mut self.links);
        } else {
            self.t1.remove(page, &mut self.links);
            self.t2.push(page, &mut self.links);
            memory.set_bits(page, T2);
        }
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        match memory.bits(page) {
            B1 => self.miss_in_ghost(page, false, memory),
            B2 => self.miss_in_ghost(page, true, memory),
            _ => self.miss_everywhere(page, memory),
        }
    }
}
