//! The active and inactive lists of Linux 6.12, function by function as the kernel has them, of a memory cgroup at its hard
//! limit that can swap.

use std::collections::HashMap;
use std::collections::HashSet;

use pagewise_simulate::Reference;

use super::Model;

const SWAP_CLUSTER_MAX: u64 = 32;
const DEF_PRIORITY: u32 = 12;
const MAX_RECLAIM_RETRIES: u32 = 16;
const SWAPPINESS: u64 = 60;

/// `enum lru_list`.
const INACTIVE_ANON: usize = 0;
const ACTIVE_ANON: usize = 1;
const INACTIVE_FILE: usize = 2;
const ACTIVE_FILE: usize = 3;

struct Folio {
    page: u32,
    accessed: bool,
    referenced: bool,
    workingset: bool,
}

struct Shadow {
    age: u64,
    workingset: bool,
}

/// `struct scan_control`.
#[derive(Default)]
struct ScanControl {
    priority: u32,
    reclaimed: u64,
    force_deactivate: bool,
    skipped_deactivate: bool,
    may_deactivate: [bool; 2],
}

pub(crate) struct Linux {
    frames: u64,
    /// `SWAP_CLUSTER_MAX`, but for a sample.
    cluster: u64,
    /// By `enum lru_list`, from the tail, where reclaim scans, to the head.
    lists: [Vec<Folio>; 4],
    shadows: HashMap<u32, Shadow>,
    dirty: HashSet<u32>,
    nonresident_age: u64,
    /// Anonymous, file: `anon_cost` and `file_cost`, `WORKINGSET_ACTIVATE` and `refaults`.
    cost: [u64; 2],
    activated: [u64; 2],
    refaults: [u64; 2],
    /// `lruvec_page_state` as of the last flush; `None`: always as it is.
    flushed: Option<State>,
}

/// By `enum lru_list`, and `WORKINGSET_ACTIVATE`.
#[derive(Clone, Copy, Default)]
struct State {
    sizes: [u64; 4],
    activated: [u64; 2],
}

impl Linux {
    pub(crate) fn new(frames: u32) -> Linux {
        Linux {
            frames: u64::from(frames),
            cluster: SWAP_CLUSTER_MAX,
            lists: Default::default(),
            shadows: HashMap::new(),
            dirty: HashSet::new(),
            nonresident_age: 0,
            cost: [0; 2],
            activated: [0; 2],
            refaults: [0; 2],
            flushed: None,
        }
    }

    /// One of pages that stand for so many each.
    pub(crate) fn of_a_sample(frames: u32, pages_each: u32) -> Linux {
        Linux {
            cluster: (SWAP_CLUSTER_MAX / u64::from(pages_each)).max(1),
            ..Linux::new(frames)
        }
    }

    /// One whose statistics are brought up to date by [`flush`](Self::flush) only.
    pub(crate) fn with_old_statistics(frames: u32) -> Linux {
        Linux {
            flushed: Some(State::default()),
            ..Linux::new(frames)
        }
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = None;
        self.flushed = Some(self.state());
    }

    fn state(&self) -> State {
        self.flushed.unwrap_or_else(|| State {
            sizes: std::array::from_fn(|list| self.size(list)),
            activated: self.activated,
        })
    }

    pub(crate) fn forget(&mut self, page: u32) {
        for list in &mut self.lists {
            list.retain(|folio| folio.page != page);
        }
        self.shadows.remove(&page);
        self.dirty.remove(&page);
    }

    fn size(&self, list: usize) -> u64 {
        self.lists[list].len() as u64
    }

    fn listed(&self) -> u64 {
        (0..4).map(|list| self.size(list)).sum()
    }

    fn lru_note_cost(&mut self, file: usize, io: u64, rotated: u64) {
        self.cost[file] += io * SWAP_CLUSTER_MAX + rotated;
        if self.cost[0] + self.cost[1] > self.listed() / 4 {
            self.cost[0] /= 2;
            self.cost[1] /= 2;
        }
    }

    /// Whether the folio that comes back is active.
    fn workingset_refault(&mut self, folio: &mut Folio, file: usize) -> bool {
        let Some(shadow) = self.shadows.remove(&folio.page) else {
            return false;
        };
        let State { sizes, .. } = self.state();
        let mut workingset_size = sizes[ACTIVE_FILE] + sizes[ACTIVE_ANON];
        workingset_size += sizes[[INACTIVE_FILE, INACTIVE_ANON][file]];
        if self.nonresident_age - shadow.age > workingset_size {
            return false;
        }
        self.nonresident_age += 1;
        self.activated[file] += 1;
        if shadow.workingset {
            folio.workingset = true;
            self.lru_note_cost(file, 1, 0);
        }
        true
    }

    fn inactive_is_low(&self, file: usize) -> bool {
        // Below 1 GiB inactive_ratio is 1.
        let State { sizes, .. } = self.state();
        sizes[2 * file] < sizes[2 * file + 1]
    }

    fn get_scan_count(&self, sc: &ScanControl) -> [u64; 4] {
        let State { sizes, .. } = self.state();
        let cache_trim_mode = sizes[INACTIVE_FILE] >> sc.priority > 0 && !sc.may_deactivate[1];
        let total_cost = self.cost[0] + self.cost[1];
        let anon_cost = total_cost + self.cost[0];
        let file_cost = total_cost + self.cost[1];
        let total_cost = anon_cost + file_cost;
        let ap = SWAPPINESS * (total_cost + 1) / (anon_cost + 1);
        let fp = (200 - SWAPPINESS) * (total_cost + 1) / (file_cost + 1);
        std::array::from_fn(|list| {
            let scan = self.size(list) >> sc.priority;
            let file = list >= INACTIVE_FILE;
            if sc.priority == 0 {
                scan
            } else if cache_trim_mode {
                if file { scan } else { 0 }
            } else {
                scan * if file { fp } else { ap } / (ap + fp)
            }
        })
    }

    fn shrink_lruvec(&mut self, sc: &mut ScanControl) {
        let targets = self.get_scan_count(sc);
        let mut nr = targets;
        let mut reclaimed = 0;
        while nr[INACTIVE_ANON] > 0 || nr[ACTIVE_FILE] > 0 || nr[INACTIVE_FILE] > 0 {
            for list in [INACTIVE_ANON, ACTIVE_ANON, INACTIVE_FILE, ACTIVE_FILE] {
                let to_scan = nr[list].min(self.cluster);
                nr[list] -= to_scan;
                if to_scan > 0 {
                    reclaimed += self.shrink_list(list, to_scan, sc);
                }
            }
            if reclaimed < self.cluster {
                continue;
            }
            let file = nr[INACTIVE_FILE] + nr[ACTIVE_FILE];
            let anon = nr[INACTIVE_ANON] + nr[ACTIVE_ANON];
            if file == 0 || anon == 0 {
                break;
            }
            // "Stop scanning the smaller of the LRU", and nudge the other towards proportionality.
            let (smaller, larger) = if file > anon { (0, 2) } else { (2, 0) };
            let percentage = file.min(anon) * 100 / (targets[smaller] + targets[smaller + 1] + 1);
            (nr[smaller], nr[smaller + 1]) = (0, 0);
            for list in [larger, larger + 1] {
                let scanned = targets[list] - nr[list];
                nr[list] = targets[list] * (100 - percentage) / 100;
                nr[list] -= nr[list].min(scanned);
            }
        }
        sc.reclaimed += reclaimed;
        if self.inactive_is_low(0) {
            self.shrink_active_list(ACTIVE_ANON, self.cluster);
        }
    }

    fn shrink_list(&mut self, list: usize, to_scan: u64, sc: &mut ScanControl) -> u64 {
        if list == INACTIVE_ANON || list == INACTIVE_FILE {
            return self.shrink_inactive_list(list, to_scan);
        }
        if sc.may_deactivate[list / 2] {
            self.shrink_active_list(list, to_scan);
        } else {
            sc.skipped_deactivate = true;
        }
        0
    }

    fn isolate(&mut self, list: usize, to_scan: u64) -> Vec<Folio> {
        let count = to_scan.min(self.size(list)) as usize;
        self.lists[list].drain(..count).collect()
    }

    fn shrink_active_list(&mut self, list: usize, to_scan: u64) {
        for mut folio in self.isolate(list, to_scan) {
            folio.accessed = false;
            folio.workingset = true;
            self.lists[list - 1].push(folio);
        }
    }

    fn shrink_inactive_list(&mut self, list: usize, to_scan: u64) -> u64 {
        let taken = self.isolate(list, to_scan);
        if taken.is_empty() {
            return 0;
        }
        let scanned = taken.len() as u64;
        let (mut reclaimed, mut pageout) = (0, 0);
        let (mut kept, mut activated) = (Vec::new(), Vec::new());
        for mut folio in taken {
            // folio_check_references(): the second time a folio is found accessed, it is activated.
            let accessed = std::mem::take(&mut folio.accessed);
            let referenced = std::mem::replace(&mut folio.referenced, accessed);
            if !accessed {
                pageout += u64::from(self.dirty.remove(&folio.page));
                reclaimed += 1;
                self.workingset_eviction(&folio);
            } else if referenced {
                activated.push(folio);
            } else {
                kept.push(folio);
            }
        }
        // move_folios_to_lru().
        self.nonresident_age += activated.len() as u64;
        self.lists[list].append(&mut kept);
        self.lists[list + 1].append(&mut activated);
        self.lru_note_cost(list / 2, pageout, scanned - reclaimed);
        reclaimed
    }

    fn workingset_eviction(&mut self, folio: &Folio) {
        let shadow = Shadow {
            age: self.nonresident_age,
            workingset: folio.workingset,
        };
        self.nonresident_age += 1;
        self.shadows.insert(folio.page, shadow);
    }

    fn do_try_to_free_pages(&mut self) {
        let mut sc = ScanControl::default();
        loop {
            for priority in (0..=DEF_PRIORITY).rev() {
                sc.priority = priority;
                sc.may_deactivate = [0, 1].map(|file| {
                    sc.force_deactivate
                        || self.state().activated[file] != self.refaults[file]
                        || self.inactive_is_low(file)
                });
                self.shrink_lruvec(&mut sc);
                if sc.reclaimed >= self.cluster {
                    break;
                }
            }
            self.refaults = self.state().activated;
            if sc.reclaimed > 0 || !sc.skipped_deactivate {
                return;
            }
            sc.force_deactivate = true;
            sc.skipped_deactivate = false;
        }
    }
}

impl Model for Linux {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        let file = usize::from(reference.is_file());
        let mut everywhere = self.lists.iter_mut().flatten();
        if let Some(folio) = everywhere.find(|folio| folio.page == page) {
            folio.accessed = true;
        } else {
            for _ in 0..MAX_RECLAIM_RETRIES {
                if self.listed() == self.frames {
                    self.do_try_to_free_pages();
                }
            }
            if self.listed() == self.frames && self.flushed.is_some() {
                // Whoever holds the killer.
                self.flush();
                self.do_try_to_free_pages();
            }
            assert!(self.listed() < self.frames, "the kernel would kill");
            let mut folio = Folio {
                page,
                accessed: true,
                referenced: false,
                workingset: false,
            };
            let active = self.workingset_refault(&mut folio, file);
            self.lists[2 * file + usize::from(active)].push(folio);
        }
        if reference.is_write() {
            self.dirty.insert(page);
        }
    }
    fn resident(&self) -> Vec<u32> {
        self.lists
            .iter()
            .flatten()
            .map(|folio| folio.page)
            .collect()
    }
}
