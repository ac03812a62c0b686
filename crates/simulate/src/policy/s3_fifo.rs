//! S3-FIFO: a small FIFO sieves out pages used only once, a main FIFO keeps the others, a ghost FIFO remembers.
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, FIFO queues are all you need for cache eviction, SOSP 2023.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Share of memory of the small queue.
const SMALL_SHARE: f64 = 0.1;
/// Length of the ghost queue as a share of memory.
const GHOST_SHARE: f64 = 0.9;
/// Hits that a page of the small queue needs to pass into the main queue.
const TO_MAIN: u8 = 2;

/// Bits of a page: which queue it is in, and its hits up to three.
const HITS: u8 = 0b0011;
const IN_MAIN: u8 = 0b0100;
const IN_GHOST: u8 = 0b1000;

/// Eight bytes a page; queue and hits are the memory's four bits.
pub(crate) struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    ghost: List,
    main_frames: u32,
    ghost_frames: u32,
}

impl S3Fifo {
    pub(crate) fn new(frames: u32) -> S3Fifo {
        let small_frames = ((f64::from(frames) * SMALL_SHARE) as u32).max(1);
        S3Fifo {
            links: Links::default(),
            small: List::new(),
            main: List::new(),
            ghost: List::new(),
            main_frames: frames - small_frames,
            ghost_frames: (f64::from(frames) * GHOST_SHARE) as u32,
        }
    }

    fn make_room(&mut self, memory: &mut Memory) {
        while memory.is_full() {
            if self.main.len() > self.main_frames || self.small.is_empty() {
                self.evict_from_main(memory);
            } else {
                self.evict_from_small(memory);
            }
        }
    }

    /// Evicts one page, unless all of the small queue's pass into the main queue.
    fn evict_from_small(&mut self, memory: &mut Memory) {
        while !self.small.is_empty() {
            let page = self.small.pop(&mut self.links);
            if memory.bits(page) & HITS < TO_MAIN {
                memory.evict(page);
                self.remember(page, memory);
                return;
            }
            self.main.push(page, &mut self.links);
            memory.set_bits(page, IN_MAIN);
        }
    }

    fn remember(&mut self, page: u32, memory: &mut Memory) {
        memory.set_bits(page, 0);
        if self.ghost_frames == 0 {
            return;
        }
        if self.ghost.len() == self.ghost_frames {
            let forgotten = self.ghost.pop(&mut self.links);
            memory.set_bits(forgotten, 0);
        }
        self.ghost.push(page, &mut self.links);
        memory.set_bits(page, IN_GHOST);
    }

    fn evict_from_main(&mut self, memory: &mut Memory) {
        loop {
            let page = self.main.pop(&mut self.links);
            let hits = memory.bits(page) & HITS;
            if hits == 0 {
                memory.evict(page);
                memory.set_bits(page, 0);
                return;
            }
            self.main.push(page, &mut self.links);
            memory.set_bits(page, IN_MAIN | (hits - 1));
        }
    }
}

impl Policy for S3Fifo {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let bits = memory.bits(reference.page());
        if bits & HITS < HITS {
            memory.set_bits(reference.page(), bits + 1);
        }
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let remembered = memory.bits(page) & IN_GHOST != 0;
        if remembered {
            self.ghost.remove(page, &mut self.links);
            memory.set_bits(page, 0);
        }
        self.make_room(memory);
        memory.admit(page);
        if remembered {
            self.main.push(page, &mut self.links);
            memory.set_bits(page, IN_MAIN);
        } else {
            self.small.push(page, &mut self.links);
            memory.set_bits(page, 0);
        }
    }
}
