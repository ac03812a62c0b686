//! The loop over references, compiled once for each policy.

use crate::memory::Memory;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::reference::Reference;

/// What the loop does apart from the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// References before counting begins.
    pub(crate) warmup: u64,
    /// References between two flushes of dirty file pages; never if `None`.
    pub(crate) flush_period: Option<u64>,
    /// See [`Storage::swap_keeps_copy`](crate::Storage::swap_keeps_copy).
    pub(crate) swap_keeps_copy: bool,
}

/// A policy at work on a memory.
pub(crate) struct Engine<P> {
    policy: P,
    memory: Memory,
    schedule: Schedule,
    /// References consumed, warm-up included.
    position: u64,
}

/// An engine whose policy is known only at run time. It is called once for a chunk, never for a reference.
pub(crate) trait Run: Send {
    fn feed(&mut self, references: &[Reference]);
    fn outcome(&self) -> Outcome;
    fn resident(&self) -> u32;
    fn holds(&self, page: u32) -> bool;
    fn forget(&mut self, page: u32) -> bool;
    fn resize(&mut self, frames: u32) -> bool;
    fn flush_counters(&mut self);
}

impl<P: Policy> Engine<P> {
    pub(crate) fn new(policy: P, frames: u32, schedule: Schedule) -> Engine<P> {
        Engine {
            policy,
            memory: Memory::new(
                frames,
                schedule.flush_period.is_some(),
                schedule.swap_keeps_copy,
            ),
            schedule,
            position: 0,
        }
    }

    /// How many of the next `available` references come before something else is due.
    fn run_length(&self, available: usize) -> usize {
        let mut length = available as u64;
        if self.position < self.schedule.warmup {
            length = length.min(self.schedule.warmup - self.position);
        }
        if let Some(period) = self.schedule.flush_period {
            length = length.min(period - self.position % period);
        }
        length as usize
    }

    fn run(&mut self, references: &[Reference]) {
        for &reference in references {
            if self.memory.is_resident(reference.page()) {
                self.policy.hit(reference, &mut self.memory);
            } else {
                self.miss(reference);
            }
            if reference.is_write() {
                self.memory.note_write(reference);
            }
        }
        self.memory.counts.references += references.len() as u64;
    }

    #[inline]
    fn miss(&mut self, reference: Reference) {
        let page = reference.page() as usize;
        if page >= self.memory.len() {
            let pages = (page + 1).max(self.memory.len() * 3 / 2);
            self.memory.grow(pages);
            self.policy.grow(pages);
        }
        self.memory.count_miss(reference);
        self.policy.miss(reference, &mut self.memory);
        debug_assert!(self.memory.is_resident(reference.page()));
        debug_assert!(self.memory.resident() <= self.memory.frames());
    }
}

impl<P: Policy> Run for Engine<P> {
    fn feed(&mut self, mut references: &[Reference]) {
        while !references.is_empty() {
            let (now, later) = references.split_at(self.run_length(references.len()));
            self.run(now);
            self.position += now.len() as u64;
            references = later;
            if self.position == self.schedule.warmup {
                self.memory.counts = Outcome::default();
            }
            if let Some(period) = self.schedule.flush_period
                && self.position.is_multiple_of(period)
            {
                self.memory.flush();
            }
        }
    }

    fn outcome(&self) -> Outcome {
        if self.position < self.schedule.warmup {
            return Outcome::default();
        }
        self.memory.counts
    }

    fn resident(&self) -> u32 {
        self.memory.resident()
    }

    fn holds(&self, page: u32) -> bool {
        self.memory.is_resident(page)
    }

    fn forget(&mut self, page: u32) -> bool {
        if page as usize >= self.memory.len() {
            return true;
        }
        let can = self.policy.forget(page, &mut self.memory);
        if can {
            self.memory.forget(page);
        }
        can
    }

    fn resize(&mut self, frames: u32) -> bool {
        let before = self.memory.frames();
        self.memory.resize(frames.max(1));
        let can = self.policy.fit(&mut self.memory);
        if !can {
            self.memory.resize(before);
        }
        can
    }

    fn flush_counters(&mut self) {
        self.policy.flush_counters();
    }
}
