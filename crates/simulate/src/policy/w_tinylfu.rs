//! W-TinyLFU: a small LRU window, a segmented LRU main part, and a frequency filter between them.
//! G. Einziger, R. Friedman, B. Manes, TinyLFU: a highly efficient cache admission policy, ACM Transactions on Storage
//! 13(4), 2017. Frequencies are counted exactly (the paper's sketch approximates that), the window is fixed at 1 %.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// Share of memory of the window.
const WINDOW_SHARE: f64 = 0.01;
/// Share of the main part that is protected.
const PROTECTED_SHARE: f64 = 0.8;
/// All frequencies are halved after so many references for each frame.
const SAMPLE: u64 = 10;
/// Frequencies are counted up to this, as in four bits.
const MOST: u8 = 15;

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

/// Nine bytes a page; the segment is in the memory's bits.
pub(crate) struct WTinyLfu {
    links: Links,
    /// Window, probation, protected.
    segments: [List; 3],
    window_frames: u32,
    protected_frames: u32,
    frequencies: Vec<u8>,
    /// References until frequencies are halved.
    until_halved: u64,
    sample: u64,
}

impl WTinyLfu {
    pub(crate) fn new(frames: u32) -> WTinyLfu {
        let window_frames = ((f64::from(frames) * WINDOW_SHARE) as u32).max(1);
        let sample = SAMPLE * u64::from(frames);
        WTinyLfu {
            links: Links::default(),
            segments: [List::new(); 3],
            window_frames,
            protected_frames: (f64::from(frames - window_frames) * PROTECTED_SHARE) as u32,
            frequencies: Vec::new(),
            until_halved: sample,
            sample,
        }
    }

    fn count(&mut self, page: u32) {
        let frequency = &mut self.frequencies[page as usize];
        *frequency = (*frequency + 1).min(MOST);
        self.until_halved -= 1;
        if self.until_halved == 0 {
            self.frequencies
                .iter_mut()
                .for_each(|frequency| *frequency /= 2);
            self.until_halved = self.sample / 2;
        }
    }

    fn push(&mut self, page: u32, segment: u8, memory: &mut Memory) {
        self.segments[usize::from(segment)].push(page, &mut self.links);
        memory.set_bits(page, segment);
    }

    fn pop(&mut self, segment: u8) -> u32 {
        self.segments[usize::from(segment)].pop(&mut self.links)
    }

    fn len(&self, segment: u8) -> u32 {
        self.segments[usize::from(segment)].len()
    }

    /// The window's oldest page stays if it is used more often than the main part's.
    fn evict(&mut self, memory: &mut Memory) {
        let main = match (self.len(PROBATION), self.len(PROTECTED)) {
            (0, 0) => None,
            (0, _) => Some(PROTECTED),
            _ => Some(PROBATION),
        };
        if self.len(WINDOW) < self.window_frames
            && let Some(segment) = main
        {
            let page = self.pop(segment);
            return memory.evict(page);
        }
        let candidate = self.pop(WINDOW);
        let Some(segment) = main else {
            return memory.evict(candidate);
        };
        let victim = self.segments[usize::from(segment)].oldest();
        let frequency = |page: u32| self.frequencies[page as usize];
        if frequency(candidate) > frequency(victim) {
            self.pop(segment);
            memory.evict(victim);
            self.push(candidate, PROBATION, memory);
        } else {
            memory.evict(candidate);
        }
    }
}

impl Policy for WTinyLfu {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
        self.frequencies.resize(pages, 0);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        self.count(page);
        let segment = memory.bits(page);
        if segment != PROBATION {
            return self.segments[usize::from(segment)].renew(page, &mut self.links);
        }
        self.segments[usize::from(PROBATION)].remove(page, &mut self.links);
        self.push(page, PROTECTED, memory);
        if self.len(PROTECTED) > self.protected_frames {
            let demoted = self.pop(PROTECTED);
            self.push(demoted, PROBATION, memory);
        }
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        self.count(reference.page());
        if memory.is_full() {
            self.evict(memory);
        } else if self.len(WINDOW) >= self.window_frames {
            let moved = self.pop(WINDOW);
            self.push(moved, PROBATION, memory);
        }
        memory.admit(reference.page());
        self.push(reference.page(), WINDOW, memory);
    }
}
