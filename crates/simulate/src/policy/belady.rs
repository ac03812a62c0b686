//! Belady's MIN: the page whose next use lies farthest ahead leaves. No policy that must take every page in misses less.
//! L. A. Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966.

use std::collections::BinaryHeap;

use crate::future::NEVER;
use crate::future::next_uses;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Four bytes a reference and a page, at most 16 a frame.
pub(crate) struct Belady {
    /// For each reference of the trace, the position of the next to the same page.
    next_uses: Vec<u32>,
    position: usize,
    /// Next use of each page.
    due: Vec<u32>,
    /// Next use and page, also of uses that have passed: told by `due`.
    farthest: BinaryHeap<(u32, u32)>,
}

impl Belady {
    pub(crate) fn new(trace: &[Reference]) -> Belady {
        Belady {
            next_uses: next_uses(trace),
            position: 0,
            due: Vec::new(),
            farthest: BinaryHeap::new(),
        }
    }

    fn note(&mut self, page: u32, memory: &Memory) {
        let next = self.next_uses.get(self.position).copied().unwrap_or(NEVER);
        self.position += 1;
        self.due[page as usize] = next;
        if self.farthest.len() >= 2 * memory.frames() as usize {
            self.farthest
                .retain(|&(next, page)| memory.is_resident(page) && next >= self.position as u32);
        }
        self.farthest.push((next, page));
    }
}

impl Policy for Belady {
    fn grow(&mut self, pages: usize) {
        self.due.resize(pages, NEVER);
    }

    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        self.note(reference.page(), memory);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.is_full() {
            loop {
                let (next, page) = self.farthest.pop().expect("every resident page is in it");
                if memory.is_resident(page) && self.due[page as usize] == next {
                    memory.evict(page);
                    break;
                }
            }
        }
        memory.admit(reference.page());
        self.note(reference.page(), memory);
    }
}
