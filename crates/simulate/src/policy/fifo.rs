//! FIFO: the page that came in first leaves first.
//! L. A. Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966.

use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Four bytes a frame, nothing a page.
pub(crate) struct Fifo {
    ring: Vec<u32>,
    oldest: usize,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        Fifo {
            ring: Vec::new(),
            oldest: 0,
        }
    }
}

impl Policy for Fifo {
    fn grow(&mut self, _pages: usize) {}

    #[inline]
    fn hit(&mut self, _reference: Reference, _memory: &mut Memory) {}

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        if memory.is_full() {
            let slot = &mut self.ring[self.oldest];
            memory.evict(*slot);
            *slot = page;
            self.oldest = (self.oldest + 1) % self.ring.len();
        } else {
            self.ring.push(page);
        }
        memory.admit(page);
    }
}
