//! A model of Linux' multi-generational LRU: pages age in generations, a walk of the page tables moves what was used to
//! the youngest there is before a new one begins, the oldest is evicted.
//!
//! After mm/vmscan.c of Linux 6.12 (`lru_gen`): up to four generations, at least two; a page faulted in is of the youngest;
//! evicting looks at the reference bit once more. The kind to evict is the one with the older generation, else the one
//! that refaults less by swappiness. Not modelled: tiers of pages read by system calls, Bloom filters, min_ttl, batches.

use crate::lists::Links;
use crate::lists::List;
use crate::lists::NONE;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// `MAX_NR_GENS` and `MIN_NR_GENS`.
const MOST: u32 = 4;
const LEAST: u32 = 2;
/// vm.swappiness: weight of anonymous pages against that of file pages, of 200.
const SWAPPINESS: u64 = 60;

const ANON: usize = 0;
const FILES: usize = 1;

/// The memory's bits: used since it was last looked at; its kind; its generation, modulo four.
const YOUNG: u8 = 1;
const FILE: u8 = 2;
const GENERATION_SHIFT: u32 = 2;

/// Nine bytes a page.
pub(crate) struct Mglru {
    links: Links,
    /// By kind and generation modulo four, oldest page first.
    generations: [[List; MOST as usize]; 2],
    youngest: u32,
    oldest: [u32; 2],
    /// Pages evicted and come back, by kind.
    evicted: [u64; 2],
    refaulted: [u64; 2],
    gone: Vec<bool>,
}

impl Mglru {
    pub(crate) fn new() -> Mglru {
        Mglru {
            links: Links::default(),
            generations: [[List::new(); MOST as usize]; 2],
            youngest: LEAST - 1,
            oldest: [0; 2],
            evicted: [0; 2],
            refaulted: [0; 2],
            gone: Vec::new(),
        }
    }

    fn list(&mut self, kind: usize, generation: u32) -> &mut List {
        &mut self.generations[kind][(generation % MOST) as usize]
    }

    fn push(&mut self, page: u32, kind: usize, young: u8, memory: &mut Memory) {
        let generation = self.youngest % MOST;
        self.generations[kind][generation as usize].push(page, &mut self.links);
        memory.set_bits(
            page,
            young | (kind as u8 * FILE) | (generation as u8) << GENERATION_SHIFT,
        );
    }

    /// Drops empty old generations.
    fn advance(&mut self, kind: usize) {
        while self.oldest[kind] + LEAST <= self.youngest
            && self.list(kind, self.oldest[kind]).is_empty()
        {
            self.oldest[kind] += 1;
        }
    }

    /// The walk of the page tables moves what was used since the last one to the youngest generation; then a new one
    /// begins, for what faults in (`try_to_inc_max_seq`).
    fn age(&mut self, memory: &mut Memory) {
        for kind in [ANON, FILES] {
            self.walk(kind, memory);
            if self.youngest + 1 - self.oldest[kind] >= MOST {
                self.merge_oldest(kind, memory);
            }
        }
        self.youngest += 1;
        self.advance(ANON);
        self.advance(FILES);
    }

    fn walk(&mut self, kind: usize, memory: &mut Memory) {
        let mut page = self.list(kind, self.youngest).oldest();
        while page != NONE {
            memory.set_bits(page, memory.bits(page) & !YOUNG);
            page = self.links.newer(page);
        }
        for generation in self.oldest[kind]..self.youngest {
            let mut list = std::mem::replace(self.list(kind, generation), List::new());
            let mut unused = List::new();
            while !list.is_empty() {
                let page = list.pop(&mut self.links);
                if memory.bits(page) & YOUNG != 0 {
                    self.push(page, kind, 0, memory);
                } else {
                    unused.push(page, &mut self.links);
                }
            }
            *self.list(kind, generation) = unused;
        }
    }

    /// There is no room for a fifth generation: the oldest joins the next, at its old end (`inc_min_seq`).
    fn merge_oldest(&mut self, kind: usize, memory: &mut Memory) {
        let mut oldest = std::mem::replace(self.list(kind, self.oldest[kind]), List::new());
        self.oldest[kind] += 1;
        let into = self.oldest[kind] % MOST;
        while !oldest.is_empty() {
            let page = oldest.pop(&mut self.links);
            self.generations[kind][into as usize].push_oldest(page, &mut self.links);
            let kept = memory.bits(page) & (YOUNG | FILE);
            memory.set_bits(page, kept | (into as u8) << GENERATION_SHIFT);
        }
    }

    /// `get_type_to_scan`: the kind whose refaults, weighted by swappiness, are fewer.
    fn kind_to_evict(&self) -> usize {
        let empty = |kind: usize| self.generations[kind].iter().all(|list| list.is_empty());
        if empty(ANON) || empty(FILES) {
            return if empty(ANON) { FILES } else { ANON };
        }
        if self.oldest[ANON] != self.oldest[FILES] {
            return if self.oldest[ANON] < self.oldest[FILES] {
                ANON
            } else {
                FILES
            };
        }
        let rate = |kind: usize| self.refaulted[kind] as f64 / (self.evicted[kind] + 1) as f64;
        let anon = rate(ANON) * (200 - SWAPPINESS) as f64;
        let files = rate(FILES) * SWAPPINESS as f64;
        if anon < files { ANON } else { FILES }
    }

    fn evict(&mut self, memory: &mut Memory) {
        loop {
            let kind = self.kind_to_evict();
            self.advance(kind);
            if self.youngest + 1 - self.oldest[kind] <= LEAST {
                self.age(memory);
                continue;
            }
            let oldest = self.oldest[kind];
            let mut list = *self.list(kind, oldest);
            let page = list.pop(&mut self.links);
            *self.list(kind, oldest) = list;
            if memory.bits(page) & YOUNG != 0 {
                self.push(page, kind, 0, memory);
                continue;
            }
            memory.evict(page);
            self.evicted[kind] += 1;
            self.gone[page as usize] = true;
            return;
        }
    }
}

impl Policy for Mglru {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
        self.gone.resize(pages, false);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let bits = memory.bits(reference.page());
        memory.set_bits(reference.page(), bits | YOUNG);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.is_full() {
            self.evict(memory);
        }
        let page = reference.page();
        let kind = usize::from(reference.is_file());
        self.refaulted[kind] += u64::from(self.gone[page as usize]);
        memory.admit(page);
        self.push(page, kind, YOUNG, memory);
    }
}
