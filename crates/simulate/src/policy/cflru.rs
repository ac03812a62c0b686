//! CFLRU: among the least recently used pages of a window the clean ones leave first.
//! S. Park, D. Jung, J. Kang, J. Kim, J. Lee, CFLRU: a replacement algorithm for flash memory, CASES 2006.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// The window as a share of memory (1/2); the paper leaves it open.
const WINDOW_DIVISOR: u32 = 2;

/// Where a page is.
const RECENT: u8 = 0;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;

/// Eight bytes a page; the list is in the memory's bits.
///
/// The window is kept as two lists, so that no search is needed. A page that is flushed while it is in the window counts
/// as dirty until it is used again.
pub(crate) struct CfLru {
    links: Links,
    recent: List,
    clean: List,
    dirty: List,
    recent_frames: u32,
}

impl CfLru {
    pub(crate) fn new(frames: u32) -> CfLru {
        CfLru {
            links: Links::default(),
            recent: List::new(),
            clean: List::new(),
            dirty: List::new(),
            recent_frames: frames - frames.div_ceil(WINDOW_DIVISOR),
        }
    }

    /// Lets what exceeds the working region into the window.
    fn slide(&mut self, memory: &mut Memory) {
        while self.recent.len() > self.recent_frames {
            let page = self.recent.pop(&mut self.links);
            let (list, place) = match memory.is_dirty(page) {
                true => (&mut self.dirty, DIRTY),
                false => (&mut self.clean, CLEAN),
            };
            list.push(page, &mut self.links);
            memory.set_bits(page, place);
        }
    }
}

impl Policy for CfLru {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let list = match memory.bits(page) {
            RECENT => return self.recent.renew(page, &mut self.links),
            CLEAN => &mut self.clean,
            _ => &mut self.dirty,
        };
        list.remove(page, &mut self.links);
        self.recent.push(page, &mut self.links);
        memory.set_bits(page, RECENT);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        // What was used last may have been written since: it is put into the window only now.
        self.slide(memory);
        if memory.is_full() {
            let list = match self.clean.is_empty() {
                true => &mut self.dirty,
                false => &mut self.clean,
            };
            memory.evict(list.pop(&mut self.links));
        }
        self.recent.push(reference.page(), &mut self.links);
        memory.admit(reference.page());
        memory.set_bits(reference.page(), RECENT);
    }
}
