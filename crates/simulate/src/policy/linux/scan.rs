//! Scanning the lists (mm/vmscan.c).

use super::ACTIVE;
use super::ANON;
use super::FILE;
use super::FILES;
use super::Linux;
use super::REFERENCED;
use super::SHADOW;
use super::WORKINGSET;
use super::YOUNG;
use crate::lists::NONE;
use crate::memory::Memory;
use crate::policy::Policy;

/// `SWAP_CLUSTER_MAX`: pages scanned at a time, and pages to free before a charge succeeds. As many pages of a sample would be a larger share
/// of memory, with which less of it is of use.
pub(super) const CLUSTER: u32 = 32;
/// `DEF_PRIORITY`: the first pass scans 1/4096 of each list, the last all of it.
const FIRST_PRIORITY: u32 = 12;
/// `MAX_RECLAIM_RETRIES` of mm/memcontrol.c.
const RETRIES: u32 = 16;

/// What one pass may do: `struct scan_control`.
struct Pass {
    priority: u32,
    may_deactivate: [bool; 2],
    skipped_deactivate: bool,
}

/// What is left to scan, by kind.
struct Targets {
    inactive: [u64; 2],
    active: [u64; 2],
}

impl Linux {
    /// Frees at least one page: `try_charge_memcg`.
    pub(super) fn reclaim(&mut self, memory: &mut Memory) {
        for _ in 0..RETRIES {
            self.try_to_free(memory);
            if !memory.is_full() {
                return;
            }
        }
        // By old statistics all may have become active. Who looks after the limit has them brought up to date then.
        self.flush_counters();
        self.try_to_free(memory);
        if memory.is_full() {
            self.evict_by_force(memory);
        }
    }

    /// Where the kernel would kill a process: lets the oldest page go that any list has.
    fn evict_by_force(&mut self, memory: &mut Memory) {
        let lists = self.inactive.iter().chain(&self.active);
        let oldest = lists.map(|list| list.oldest()).find(|&page| page != NONE);
        let page = oldest.expect("a full memory has pages");
        self.unlist(page);
        self.evict(page, memory);
    }

    /// Takes a page in memory off its list.
    pub(super) fn unlist(&mut self, page: u32) {
        let flags = self.flags[page as usize];
        let lists = if flags & ACTIVE != 0 {
            &mut self.active
        } else {
            &mut self.inactive
        };
        lists[usize::from(flags & FILE != 0)].remove(page, &mut self.links);
    }

    /// `try_to_free_mem_cgroup_pages`: passes of growing depth until a cluster is free.
    fn try_to_free(&mut self, memory: &mut Memory) {
        let mut skipped = self.passes(false, memory);
        if !memory.is_full() {
            skipped = false;
        }
        if skipped {
            self.passes(true, memory);
        }
        self.activations_seen = self.statistics().activations;
    }

    /// Whether active lists were spared.
    fn passes(&mut self, force: bool, memory: &mut Memory) -> bool {
        let mut freed = 0;
        let mut skipped = false;
        for priority in (0..=FIRST_PRIORITY).rev() {
            let may_deactivate = [ANON, FILES].map(|kind| {
                force
                    || self.statistics().activations[kind] != self.activations_seen[kind]
                    || self.inactive_is_low(kind)
            });
            let mut pass = Pass {
                priority,
                may_deactivate,
                skipped_deactivate: false,
            };
            freed += self.shrink(&mut pass, memory);
            skipped |= pass.skipped_deactivate;
            if freed >= self.cluster() {
                break;
            }
        }
        skipped
    }

    /// `inactive_is_low`: below 1 GiB the inactive list should be as long as the active one, above it shorter.
    fn inactive_is_low(&self, kind: usize) -> bool {
        let told = self.statistics();
        let (inactive, active) = (told.inactive[kind], told.active[kind]);
        let gib = ((u64::from(inactive) + u64::from(active)) * u64::from(self.pages_each)) >> 18;
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        u64::from(inactive) * ratio < u64::from(active)
    }

    /// `get_scan_count`.
    fn targets(&self, pass: &Pass) -> Targets {
        let inactive_files = u64::from(self.statistics().inactive[FILES]);
        let trim_cache = inactive_files >> pass.priority > 0 && !pass.may_deactivate[FILES];
        let (shares, sum) = self.balance.shares();
        let target = |length: u32, kind: usize| {
            let scan = u64::from(length) >> pass.priority;
            match kind {
                _ if pass.priority == 0 => scan,
                ANON if trim_cache => 0,
                FILES if trim_cache => scan,
                _ => scan * shares[kind] / sum,
            }
        };
        Targets {
            inactive: [ANON, FILES].map(|kind| target(self.inactive[kind].len(), kind)),
            active: [ANON, FILES].map(|kind| target(self.active[kind].len(), kind)),
        }
    }

    /// `shrink_lruvec`: pages freed.
    fn shrink(&mut self, pass: &mut Pass, memory: &mut Memory) -> u32 {
        let mut left = self.targets(pass);
        let (inactive, active) = (left.inactive, left.active);
        let mut freed = 0;
        while left.inactive[ANON] > 0 || left.active[FILES] > 0 || left.inactive[FILES] > 0 {
            for kind in [ANON, FILES] {
                let count = left.inactive[kind].min(u64::from(self.cluster()));
                left.inactive[kind] -= count;
                freed += self.shrink_inactive(kind, count as u32, memory);
                let count = left.active[kind].min(u64::from(self.cluster()));
                left.active[kind] -= count;
                if count > 0 && pass.may_deactivate[kind] {
                    self.shrink_active(kind, count as u32, memory);
                } else {
                    pass.skipped_deactivate |= count > 0;
                }
            }
            if freed >= self.cluster() {
                let rest = [ANON, FILES].map(|kind| left.inactive[kind] + left.active[kind]);
                if rest[ANON] == 0 || rest[FILES] == 0 {
                    break;
                }
                left.finish(rest, inactive, active);
            }
        }
        if self.inactive_is_low(ANON) {
            self.shrink_active(ANON, self.cluster(), memory);
        }
        freed
    }

    /// [`CLUSTER`], of pages that stand for several each.
    fn cluster(&self) -> u32 {
        (CLUSTER / self.pages_each).max(1)
    }

    /// `shrink_inactive_list` and `shrink_folio_list`.
    fn shrink_inactive(&mut self, kind: usize, count: u32, memory: &mut Memory) -> u32 {
        let count = count.min(self.inactive[kind].len());
        if count == 0 {
            // Nothing was taken off the list, so nothing fades what its reclaim has cost.
            return 0;
        }
        let (mut freed, mut written, mut activated) = (0, 0, 0);
        for _ in 0..count {
            let page = self.inactive[kind].pop(&mut self.links);
            let young = memory.bits(page) & YOUNG != 0;
            memory.set_bits(page, 0);
            let flags = &mut self.flags[page as usize];
            if !young {
                written += u64::from(memory.is_dirty(page));
                freed += 1;
                self.evict(page, memory);
            } else if *flags & REFERENCED == 0 {
                *flags |= REFERENCED;
                self.inactive[kind].push(page, &mut self.links);
            } else {
                *flags |= ACTIVE;
                activated += 1;
                self.active[kind].push(page, &mut self.links);
            }
        }
        // The lists age when what stays is put back (`move_folios_to_lru`), after the evictions.
        self.age = self.age.wrapping_add(activated);
        let listed = self.listed();
        let rotations = u64::from(count - freed);
        self.balance.note(kind, written, rotations, listed);
        freed
    }

    /// `shrink_active_list`: pages pass to the inactive list whether they were used or not, and have to prove it there.
    fn shrink_active(&mut self, kind: usize, count: u32, memory: &mut Memory) {
        for _ in 0..count.min(self.active[kind].len()) {
            let page = self.active[kind].pop(&mut self.links);
            memory.set_bits(page, 0);
            let flags = &mut self.flags[page as usize];
            *flags = *flags & !ACTIVE | WORKINGSET;
            self.inactive[kind].push(page, &mut self.links);
        }
    }

    /// `workingset_eviction`: leaves a shadow entry.
    fn evict(&mut self, page: u32, memory: &mut Memory) {
        memory.evict(page);
        memory.set_bits(page, 0);
        self.evicted_at[page as usize] = self.age;
        self.age = self.age.wrapping_add(1);
        let flags = &mut self.flags[page as usize];
        *flags = *flags & WORKINGSET | SHADOW;
    }
}

impl Targets {
    /// Enough is free: the kind with less left to scan is done, and the other is scanned as far as this one was.
    fn finish(&mut self, rest: [u64; 2], inactive: [u64; 2], active: [u64; 2]) {
        let (done, other) = if rest[FILES] > rest[ANON] {
            (ANON, FILES)
        } else {
            (FILES, ANON)
        };
        let percentage = rest[done] * 100 / (inactive[done] + active[done] + 1);
        (self.inactive[done], self.active[done]) = (0, 0);
        let remain = |target: u64, left: u64| {
            (target * (100 - percentage) / 100).saturating_sub(target - left)
        };
        self.inactive[other] = remain(inactive[other], self.inactive[other]);
        self.active[other] = remain(active[other], self.active[other]);
    }
}
