//! LRU: the page not used for longest leaves first.
//! R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, Evaluation techniques for storage hierarchies, IBM Systems
//! Journal 9(2), 1970.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Eight bytes a page.
pub(crate) struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    pub(crate) fn new() -> Lru {
        Lru {
            links: Links::default(),
            list: List::new(),
        }
    }
}

impl Policy for Lru {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, _memory: &mut Memory) {
        self.list.renew(reference.page(), &mut self.links);
    }

    #[inline]
    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.is_full() {
            memory.evict(self.list.pop(&mut self.links));
        }
        self.list.push(reference.page(), &mut self.links);
        memory.admit(reference.page());
    }
}
