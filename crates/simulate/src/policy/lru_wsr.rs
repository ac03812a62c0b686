//! LRU-WSR: LRU that gives a dirty page one more round, unless it has not been used since it got one.
//! H. Jung, H. Shim, S. Park, S. Kang, J. Cha, LRU-WSR: integration of LRU and writes sequence reordering for flash
//! memory, IEEE Transactions on Consumer Electronics 54(3), 2008.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

const COLD: u8 = 1;

/// Eight bytes a page; the cold flag is one of the memory's bits.
pub(crate) struct LruWsr {
    links: Links,
    list: List,
}

impl LruWsr {
    pub(crate) fn new() -> LruWsr {
        LruWsr {
            links: Links::default(),
            list: List::new(),
        }
    }
}

impl Policy for LruWsr {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        self.list.renew(reference.page(), &mut self.links);
        memory.set_bits(reference.page(), 0);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        while memory.is_full() {
            let oldest = self.list.oldest();
            if memory.is_dirty(oldest) && memory.bits(oldest) != COLD {
                memory.set_bits(oldest, COLD);
                self.list.renew(oldest, &mut self.links);
            } else {
                memory.evict(self.list.pop(&mut self.links));
            }
        }
        self.list.push(reference.page(), &mut self.links);
        memory.admit(reference.page());
        memory.set_bits(reference.page(), 0);
    }
}
