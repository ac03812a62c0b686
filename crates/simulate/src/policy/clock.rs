//! CLOCK: FIFO that passes over pages referenced since the hand last came by.
//! F. J. Corbató, A paging experiment with the Multics system, MIT Project MAC, 1968.

use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

const REFERENCED: u8 = 1;

/// Four bytes a frame; the reference bit is one of the memory's.
pub(crate) struct Clock {
    ring: Vec<u32>,
    hand: usize,
    /// Reference bit of a page that comes in.
    initial: u8,
}

impl Clock {
    /// A clock whose pages come in with the reference bit `referenced`. Set is what hardware does, as the access that
    /// faulted is repeated; clear is the convention of most simulators.
    pub(crate) fn new(referenced: bool) -> Clock {
        Clock {
            ring: Vec::new(),
            hand: 0,
            initial: u8::from(referenced),
        }
    }

    fn advance(&mut self) {
        self.hand += 1;
        if self.hand == self.ring.len() {
            self.hand = 0;
        }
    }
}

impl Policy for Clock {
    fn grow(&mut self, _pages: usize) {}

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        memory.set_bits(reference.page(), REFERENCED);
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        if memory.is_full() {
            while memory.bits(self.ring[self.hand]) != 0 {
                memory.set_bits(self.ring[self.hand], 0);
                self.advance();
            }
            memory.evict(self.ring[self.hand]);
            self.ring[self.hand] = page;
            self.advance();
        } else {
            self.ring.push(page);
        }
        memory.admit(page);
        memory.set_bits(page, self.initial);
    }
}
