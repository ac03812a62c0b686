//! The default policy of most kernels: active and inactive lists of anonymous and file pages, refault distance, a
//! balance of the two kinds by what their reclaim has cost, reference bits looked at only when a page is scanned.
//!
//! Modelled on Linux 6.12: mm/vmscan.c, mm/swap.c, mm/workingset.c,
//! of a memory cgroup at its hard limit, with swap. Not modelled: readahead, huge pages, kswapd, mlock, batches on each
//! processor, executable file mappings (kept active longer), dirty file pages (kept until flushed; here they are
//! written and evicted). All pages count as mapped: an access sets a reference bit and calls nothing.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;
use crate::simulation::Counters;

mod balance;
mod scan;

use balance::Balance;

/// The memory's bit: the page-table entry has been used since it was last looked at.
const YOUNG: u8 = 1;

/// Bits of a page's flags, as in include/linux/page-flags.h.
const ACTIVE: u8 = 1;
const REFERENCED: u8 = 2;
const WORKINGSET: u8 = 4;
const FILE: u8 = 8;
/// The page has been evicted before, and a shadow entry remembers when.
const SHADOW: u8 = 16;

/// Kinds of pages, as they index lists, costs and scan targets.
const ANON: usize = 0;
const FILES: usize = 1;

/// 13 bytes a page.
pub(crate) struct Linux {
    links: Links,
    /// By kind.
    inactive: [List; 2],
    active: [List; 2],
    flags: Vec<u8>,
    /// Age of the lists when the page was evicted.
    evicted_at: Vec<u32>,
    /// `nonresident_age`: evictions and activations so far.
    age: u32,
    balance: Balance,
    /// `WORKINGSET_ACTIVATE`, by kind, and its value at the end of the last reclaim.
    activations: [u64; 2],
    activations_seen: [u64; 2],
    /// What reclaim knows of lists and activations; `None`: all as it is.
    told: Option<Statistics>,
    /// Each page stands for so many.
    pages_each: u32,
}

/// By kind: what a cgroup's statistics say.
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    inactive: [u32; 2],
    active: [u32; 2],
    activations: [u64; 2],
}

impl Linux {
    pub(crate) fn new(counters: Counters, pages_each: u32) -> Linux {
        Linux {
            links: Links::default(),
            inactive: [List::new(); 2],
            active: [List::new(); 2],
            flags: Vec::new(),
            evicted_at: Vec::new(),
            age: 0,
            balance: Balance::default(),
            activations: [0; 2],
            activations_seen: [0; 2],
            told: (counters == Counters::Flushed).then(Statistics::default),
            pages_each: pages_each.max(1),
        }
    }

    fn statistics_now(&self) -> Statistics {
        Statistics {
            inactive: [ANON, FILES].map(|kind| self.inactive[kind].len()),
            active: [ANON, FILES].map(|kind| self.active[kind].len()),
            activations: self.activations,
        }
    }

    /// `lruvec_page_state`: as they were when they were last brought up to date.
    fn statistics(&self) -> Statistics {
        self.told.unwrap_or_else(|| self.statistics_now())
    }

    /// Pages on the lists.
    fn listed(&self) -> u64 {
        let lists = self.inactive.iter().chain(&self.active);
        lists.map(|list| u64::from(list.len())).sum()
    }

    /// `workingset_refault`: a page that comes back sooner than the memory turns over would have been worth keeping.
    fn refault(&mut self, page: u32, kind: usize, flags: u8) -> u8 {
        if flags & SHADOW == 0 {
            return 0;
        }
        let distance = self.age.wrapping_sub(self.evicted_at[page as usize]);
        let other = 1 - kind;
        // workingset_test_recent(): all the pages this one competes with.
        let told = self.statistics();
        let competing = told.active[kind] + told.active[other] + told.inactive[other];
        if distance > competing {
            return 0;
        }
        self.age = self.age.wrapping_add(1);
        self.activations[kind] += 1;
        if flags & WORKINGSET != 0 {
            let listed = self.listed();
            self.balance.note(kind, 1, 0, listed);
        }
        ACTIVE | flags & WORKINGSET
    }
}

impl Policy for Linux {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
        self.flags.resize(pages, 0);
        self.evicted_at.resize(pages, 0);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        memory.set_bits(reference.page(), YOUNG);
    }

    fn forget(&mut self, page: u32, memory: &mut Memory) -> bool {
        if memory.is_resident(page) {
            self.unlist(page);
            memory.set_bits(page, 0);
        }
        self.flags[page as usize] = 0;
        true
    }

    fn fit(&mut self, memory: &mut Memory) -> bool {
        while memory.resident() > memory.frames() {
            self.reclaim(memory);
        }
        true
    }

    fn flush_counters(&mut self) {
        if self.told.is_some() {
            self.told = Some(self.statistics_now());
        }
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        // The charge comes before the shadow entry is read.
        if memory.is_full() {
            self.reclaim(memory);
        }
        let kind = usize::from(reference.is_file());
        let restored = self.refault(page, kind, self.flags[page as usize]);
        self.flags[page as usize] = restored | if kind == FILES { FILE } else { 0 };
        let lists = if restored & ACTIVE != 0 {
            &mut self.active
        } else {
            &mut self.inactive
        };
        lists[kind].push(page, &mut self.links);
        memory.admit(page);
        memory.set_bits(page, YOUNG);
    }
}
