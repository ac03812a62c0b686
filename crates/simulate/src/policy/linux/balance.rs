//! How hard to scan anonymous pages and how hard file pages (mm/vmscan.c `get_scan_count`, mm/swap.c `lru_note_cost`).

use super::ANON;
use super::FILES;
use super::scan::CLUSTER;

/// vm.swappiness, of 200.
const SWAPPINESS: u64 = 60;
const MAX_SWAPPINESS: u64 = 200;

/// What reclaim of each kind has cost lately.
#[derive(Debug, Default)]
pub(super) struct Balance {
    cost: [u64; 2],
}

impl Balance {
    /// `lru_note_cost`: pages written or read again count as much as a cluster of rotations; the past fades when its
    /// sum exceeds a quarter of the `listed` pages.
    pub(super) fn note(&mut self, kind: usize, transfers: u64, rotations: u64, listed: u64) {
        self.cost[kind] += transfers * u64::from(CLUSTER) + rotations;
        if self.cost[ANON] + self.cost[FILES] > listed / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// `calculate_pressure_balance`: the share of each kind, as numerators and their sum.
    pub(super) fn shares(&self) -> ([u64; 2], u64) {
        let both = self.cost[ANON] + self.cost[FILES];
        let [anon, file] = self.cost.map(|cost| both + cost);
        let total = anon + file + 1;
        let shares = [
            SWAPPINESS * total / (anon + 1),
            (MAX_SWAPPINESS - SWAPPINESS) * total / (file + 1),
        ];
        (shares, shares[ANON] + shares[FILES])
    }
}
