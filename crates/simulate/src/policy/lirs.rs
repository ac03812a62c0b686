//! LIRS: pages whose last two uses lay close together (LIR) keep nearly all of memory.
//! S. Jiang, X. Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Share of memory for resident HIR pages, as the paper recommends.
const HIR_SHARE: f64 = 0.01;
/// Entries of the stack, non-resident ones included, for each frame.
const STACK_LIMIT: u32 = 2;

const LIR: u8 = 1;
const IN_STACK: u8 = 2;

/// Sixteen bytes a page; the states are the memory's bits.
pub(crate) struct Lirs {
    stack_links: Links,
    stack: List,
    queue_links: Links,
    /// Resident HIR pages.
    queue: List,
    /// Non-resident HIR pages of the stack, in the order in which they left memory; they are in no queue, so the links
    /// are shared.
    gone: List,
    lir: u32,
    lir_frames: u32,
}

impl Lirs {
    pub(crate) fn new(frames: u32) -> Lirs {
        let hir_frames = ((f64::from(frames) * HIR_SHARE) as u32).max(1);
        Lirs {
            stack_links: Links::default(),
            stack: List::new(),
            queue_links: Links::default(),
            queue: List::new(),
            gone: List::new(),
            lir: 0,
            lir_frames: frames - hir_frames,
        }
    }

    /// Puts the page on top of the stack.
    fn lift(&mut self, page: u32, memory: &mut Memory) {
        let bits = memory.bits(page);
        if bits & IN_STACK != 0 {
            self.stack.renew(page, &mut self.stack_links);
        } else {
            self.stack.push(page, &mut self.stack_links);
            memory.set_bits(page, bits | IN_STACK);
        }
    }

    /// Takes HIR pages off the bottom of the stack.
    fn prune(&mut self, memory: &mut Memory) {
        while !self.stack.is_empty() {
            let page = self.stack.oldest();
            if memory.bits(page) & LIR != 0 {
                break;
            }
            self.drop_from_stack(page, memory);
        }
    }

    fn drop_from_stack(&mut self, page: u32, memory: &mut Memory) {
        self.stack.remove(page, &mut self.stack_links);
        memory.set_bits(page, 0);
        if !memory.is_resident(page) {
            self.gone.remove(page, &mut self.queue_links);
        }
    }

    /// Makes the page LIR; the LIR page at the bottom of the stack pays for it.
    fn promote(&mut self, page: u32, memory: &mut Memory) {
        memory.set_bits(page, LIR | IN_STACK);
        self.lir += 1;
        while self.lir > self.lir_frames.max(1) {
            self.demote_bottom(memory);
        }
        self.prune(memory);
    }

    fn demote_bottom(&mut self, memory: &mut Memory) {
        self.prune(memory);
        let bottom = self.stack.pop(&mut self.stack_links);
        memory.set_bits(bottom, 0);
        self.lir -= 1;
        self.queue.push(bottom, &mut self.queue_links);
    }

    /// Evicts a resident HIR page, which the stack may remember.
    fn evict(&mut self, memory: &mut Memory) {
        if self.queue.is_empty() {
            self.demote_bottom(memory);
        }
        let page = self.queue.pop(&mut self.queue_links);
        memory.evict(page);
        if memory.bits(page) & IN_STACK != 0 {
            self.gone.push(page, &mut self.queue_links);
        }
    }

    fn limit_stack(&mut self, memory: &mut Memory) {
        let limit = memory.frames().saturating_mul(STACK_LIMIT);
        while self.stack.len() > limit && !self.gone.is_empty() {
            self.drop_from_stack(self.gone.oldest(), memory);
        }
    }
}

impl Policy for Lirs {
    fn grow(&mut self, pages: usize) {
        self.stack_links.grow(pages);
        self.queue_links.grow(pages);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let bits = memory.bits(page);
        self.lift(page, memory);
        if bits & LIR != 0 {
            self.prune(memory);
        } else if bits & IN_STACK != 0 {
            self.queue.remove(page, &mut self.queue_links);
            self.promote(page, memory);
        } else {
            self.queue.renew(page, &mut self.queue_links);
            self.limit_stack(memory);
        }
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let remembered = memory.bits(page) & IN_STACK != 0;
        if remembered {
            self.gone.remove(page, &mut self.queue_links);
        }
        if memory.is_full() {
            self.evict(memory);
        }
        memory.admit(page);
        self.lift(page, memory);
        if remembered || self.lir < self.lir_frames {
            self.promote(page, memory);
        } else {
            self.queue.push(page, &mut self.queue_links);
        }
        self.limit_stack(memory);
    }
}
