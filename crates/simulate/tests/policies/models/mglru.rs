//! The multi-generational LRU, after mm/vmscan.c of Linux 6.12, without lists: pages carry the number of their generation
//! and of their place in it.

use std::collections::HashSet;

use pagewise_simulate::Reference;

use super::Model;

const MIN_NR_GENS: u64 = 2;
const MAX_NR_GENS: u64 = 4;
const SWAPPINESS: f64 = 60.0;

struct Page {
    number: u32,
    file: bool,
    generation: u64,
    /// Least first within a generation.
    place: i64,
    accessed: bool,
}

pub(crate) struct Mglru {
    frames: usize,
    pages: Vec<Page>,
    max_seq: u64,
    /// Anonymous, file.
    min_seq: [u64; 2],
    evicted: [f64; 2],
    refaulted: [f64; 2],
    gone: HashSet<u32>,
    places: i64,
}

impl Mglru {
    pub(crate) fn new(frames: u32) -> Mglru {
        Mglru {
            frames: frames as usize,
            pages: Vec::new(),
            max_seq: MIN_NR_GENS - 1,
            min_seq: [0; 2],
            evicted: [0.0; 2],
            refaulted: [0.0; 2],
            gone: HashSet::new(),
            places: 0,
        }
    }

    fn next_place(&mut self) -> i64 {
        self.places += 1;
        self.places
    }

    /// Pages of one kind and generation, those that leave first at the front.
    fn in_order(&self, file: bool, generation: u64) -> Vec<usize> {
        let here = |page: &Page| page.file == file && page.generation == generation;
        let mut positions: Vec<usize> = (0..self.pages.len())
            .filter(|&position| here(&self.pages[position]))
            .collect();
        positions.sort_by_key(|&position| self.pages[position].place);
        positions
    }

    /// try_to_inc_min_seq(): oldest generations without pages end, as long as enough are left.
    fn drop_empty(&mut self, file: bool) {
        let oldest = &mut self.min_seq[usize::from(file)];
        let empty = |generation| {
            let mut pages = self.pages.iter();
            !pages.any(|page| page.file == file && page.generation == generation)
        };
        while *oldest + MIN_NR_GENS <= self.max_seq && empty(*oldest) {
            *oldest += 1;
        }
    }

    /// inc_min_seq(): one page after the other moves from the oldest generation to the old end of the next.
    fn merge_oldest(&mut self, file: bool) {
        let oldest = self.min_seq[usize::from(file)];
        for position in self.in_order(file, oldest) {
            let into = self.in_order(file, oldest + 1);
            let first = into.first().map(|&first| self.pages[first].place);
            self.pages[position].place = first.unwrap_or(0) - 1;
            self.pages[position].generation += 1;
        }
        self.min_seq[usize::from(file)] += 1;
    }

    /// try_to_inc_max_seq(): the walk moves what was accessed to the youngest generation; then a new one begins, for
    /// what faults in.
    fn age(&mut self) {
        for file in [false, true] {
            let oldest = self.min_seq[usize::from(file)];
            for generation in oldest..=self.max_seq {
                for position in self.in_order(file, generation) {
                    let accessed = std::mem::take(&mut self.pages[position].accessed);
                    if accessed && generation < self.max_seq {
                        self.pages[position].generation = self.max_seq;
                        self.pages[position].place = self.next_place();
                    }
                }
            }
        }
        for file in [false, true] {
            if self.max_seq - self.min_seq[usize::from(file)] + 1 == MAX_NR_GENS {
                self.merge_oldest(file);
            }
        }
        self.max_seq += 1;
        self.drop_empty(false);
        self.drop_empty(true);
    }

    /// get_type_to_scan(): whether file pages are evicted next.
    fn scan_files(&self) -> bool {
        let has = |file: bool| self.pages.iter().any(|page| page.file == file);
        if !has(false) || !has(true) {
            return has(true);
        }
        let [anon_seq, file_seq] = self.min_seq;
        if anon_seq != file_seq {
            return file_seq < anon_seq;
        }
        let [anon, file] = [0, 1].map(|kind| self.refaulted[kind] / (self.evicted[kind] + 1.0));
        anon * (200.0 - SWAPPINESS) >= file * SWAPPINESS
    }

    fn evict(&mut self) {
        loop {
            let file = self.scan_files();
            self.drop_empty(file);
            let kind = usize::from(file);
            if self.min_seq[kind] + MIN_NR_GENS > self.max_seq {
                self.age();
                continue;
            }
            let position = self.in_order(file, self.min_seq[kind])[0];
            if !self.pages[position].accessed {
                self.evicted[kind] += 1.0;
                let page = self.pages.remove(position);
                self.gone.insert(page.number);
                return;
            }
            let place = self.next_place();
            let page = &mut self.pages[position];
            (page.accessed, page.generation, page.place) = (false, self.max_seq, place);
        }
    }
}

impl Model for Mglru {
    fn access(&mut self, reference: Reference) {
        let mut known = self.pages.iter_mut();
        if let Some(page) = known.find(|page| page.number == reference.page()) {
            page.accessed = true;
            return;
        }
        if self.pages.len() == self.frames {
            self.evict();
        }
        if self.gone.contains(&reference.page()) {
            self.refaulted[usize::from(reference.is_file())] += 1.0;
        }
        let page = Page {
            number: reference.page(),
            file: reference.is_file(),
            generation: self.max_seq,
            place: self.next_place(),
            accessed: true,
        };
        self.pages.push(page);
    }
    fn resident(&self) -> Vec<u32> {
        self.pages.iter().map(|page| page.number).collect()
    }
}
