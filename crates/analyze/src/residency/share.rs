//! The share of an object that is in memory, over time. A state holds from the scan that saw it to the next one that saw
//! another, and an object counts from the first scan that began after it did.

use pagewise_trace::PageState;
use pagewise_trace::Residency;

use crate::address_map::AddressMap;
use crate::address_map::Range;
use crate::spaces::LAYERS;
use crate::spaces::Life;

/// Bytes of an object over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    since_ns: u64,
    live: u64,
    resident: u64,
    live_ns: f64,
    resident_ns: f64,
    most_live: u64,
    most_resident: u64,
}

impl Share {
    fn advance(&mut self, time_ns: u64) {
        let passed = time_ns.saturating_sub(self.since_ns) as f64;
        self.since_ns = self.since_ns.max(time_ns);
        self.live_ns += self.live as f64 * passed;
        self.resident_ns += self.resident as f64 * passed;
        if passed > 0.0 {
            self.most_live = self.most_live.max(self.live);
            self.most_resident = self.most_resident.max(self.resident);
        }
    }

    /// `None` if it was never looked at for any time.
    pub(super) fn in_memory(&self) -> Option<InMemory> {
        (self.live_ns > 0.0).then(|| InMemory {
            mean: (self.resident_ns / self.live_ns).clamp(0.0, 1.0),
            most: (self.most_resident as f64 / self.most_live as f64).min(1.0),
        })
    }
}

/// How much of an object was in memory, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InMemory {
    /// Its mean share over time.
    pub(crate) mean: f64,
    /// The most that was in memory at once, of the most that there was: 1 of what was filled in the end.
    pub(crate) most: f64,
}

/// In memory, and if so a page of a file: kept in the `object` of a range.
fn code(state: PageState, file: Option<bool>) -> usize {
    let in_memory = matches!(state, PageState::Resident | PageState::Huge);
    usize::from(in_memory) | usize::from(in_memory && file == Some(true)) << 1
}

const IN_MEMORY: usize = 1;
const FILE: usize = 2;

/// What part of a range was before it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) file: bool,
}

/// The page states of one address space and the objects in it, now.
#[derive(Debug, Default)]
pub(super) struct SpaceStates {
    /// What is in memory; all else is not.
    states: AddressMap,
    /// Objects that count.
    counted: [AddressMap; LAYERS],
    /// Objects that the scan going on will have seen, and those it may have missed.
    waiting: [AddressMap; LAYERS],
    fresh: [AddressMap; LAYERS],
    last_begin_ns: Option<u64>,
    begin_ns: Option<u64>,
}

impl SpaceStates {
    pub(super) fn scan_begins(&mut self, time_ns: u64) {
        self.last_begin_ns = self.begin_ns.replace(time_ns);
        for (waiting, fresh) in self.waiting.iter_mut().zip(&mut self.fresh) {
            for range in std::mem::take(fresh).ranges() {
                waiting.insert(*range);
            }
        }
    }

    /// When what is now found to have changed was still as it had been seen; `None` in the first scan.
    pub(super) fn seen_before_ns(&self) -> Option<u64> {
        self.last_begin_ns
    }

    pub(super) fn scan_ends(&mut self, time_ns: u64, shares: &mut Vec<Share>) {
        for layer in 0..LAYERS {
            for range in std::mem::take(&mut self.waiting[layer]).ranges() {
                let resident = self.resident(range.start, range.end);
                let share = share(shares, range.object, time_ns);
                share.live += range.end - range.start;
                share.resident += resident;
                self.counted[layer].insert(*range);
            }
        }
    }

    fn resident(&self, start: u64, end: u64) -> u64 {
        let states = self.states.overlaps(start, end);
        states.map(|range| range.end - range.start).sum()
    }

    /// The parts of the row's range that were in memory.
    pub(super) fn overlapped(&self, row: &Residency) -> Vec<Before> {
        let states = self
            .states
            .overlaps(row.address, row.address.saturating_add(row.bytes));
        states
            .map(|range| Before {
                start: range.start,
                end: range.end,
                file: range.object & FILE != 0,
            })
            .collect()
    }

    pub(super) fn changed(&mut self, row: &Residency, shares: &mut Vec<Share>) {
        let end = row.address.saturating_add(row.bytes);
        let gone = self.states.remove(row.address, end);
        for range in gone {
            self.count(
                range.start,
                range.end,
                row.time_ns,
                shares,
                |share, bytes| {
                    share.resident = share.resident.saturating_sub(bytes);
                },
            );
        }
        let code = code(row.state, row.file);
        if code & IN_MEMORY != 0 {
            self.states.insert(Range {
                stack: None,
                stands_for: 0,
                whole_bytes: 0,
                start: row.address,
                end,
                object: code,
                allocation: 0,
                origin: row.address,
            });
            self.count(row.address, end, row.time_ns, shares, |share, bytes| {
                share.resident += bytes;
            });
        }
    }

    /// Changes the shares of all counted objects in a range.
    fn count(
        &self,
        start: u64,
        end: u64,
        time_ns: u64,
        shares: &mut Vec<Share>,
        change: impl Fn(&mut Share, u64),
    ) {
        for layer in &self.counted {
            for part in layer.overlaps(start, end) {
                let share = share(shares, part.object, time_ns);
                change(share, part.end - part.start);
            }
        }
    }

    pub(super) fn life(&mut self, life: &Life, shares: &mut Vec<Share>) {
        let (layer, range) = (life.layer, life.range);
        if life.begins {
            self.fresh[layer].insert(range);
            return;
        }
        self.fresh[layer].remove(range.start, range.end);
        self.waiting[layer].remove(range.start, range.end);
        for part in self.counted[layer].remove(range.start, range.end) {
            let resident = self.resident(part.start, part.end);
            let share = share(shares, part.object, life.time_ns);
            share.live = share.live.saturating_sub(part.end - part.start);
            share.resident = share.resident.saturating_sub(resident);
        }
    }

    /// All of it ends.
    pub(super) fn end(self, time_ns: u64, shares: &mut Vec<Share>) {
        for layer in &self.counted {
            for range in layer.ranges() {
                let resident = self.resident(range.start, range.end);
                let share = share(shares, range.object, time_ns);
                share.live = share.live.saturating_sub(range.end - range.start);
                share.resident = share.resident.saturating_sub(resident);
            }
        }
    }
}

/// An object's share, as of now.
fn share(shares: &mut Vec<Share>, object: usize, time_ns: u64) -> &mut Share {
    if object >= shares.len() {
        shares.resize_with(object + 1, Share::default);
    }
    let share = &mut shares[object];
    share.advance(time_ns);
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn life(time_ns: u64, start: u64, end: u64, begins: bool) -> Life {
        let range = Range {
            stack: None,
            stands_for: 0,
            whole_bytes: 0,
            start: start * PAGE,
            end: end * PAGE,
            object: 1,
            allocation: 0,
            origin: start * PAGE,
        };
        Life {
            time_ns,
            space: 1,
            layer: 0,
            range,
            begins,
        }
    }

    fn row(time_ns: u64, start: u64, end: u64, state: PageState) -> Residency {
        Residency {
            time_ns,
            space: 1,
            address: start * PAGE,
            bytes: (end - start) * PAGE,
            state,
            file: (state == PageState::Resident).then_some(false),
            mapped: None,
        }
    }

    fn mean(shares: &[Share]) -> Option<f64> {
        Some(shares.get(1)?.in_memory()?.mean)
    }

    fn most(shares: &[Share]) -> Option<f64> {
        Some(shares.get(1)?.in_memory()?.most)
    }

    #[test]
    fn a_share_is_a_mean_over_the_time_that_it_was_seen() {
        let (mut states, mut shares) = (SpaceStates::default(), Vec::new());
        states.life(&life(0, 0, 10, true), &mut shares);
        states.scan_begins(100);
        states.changed(&row(100, 0, 10, PageState::Resident), &mut shares);
        states.scan_ends(100, &mut shares);
        // One half in swap for the second half of the time.
        states.scan_begins(200);
        states.changed(&row(200, 0, 5, PageState::Swapped), &mut shares);
        states.scan_ends(200, &mut shares);
        states.end(300, &mut shares);
        assert_eq!(mean(&shares), Some(0.75));
    }

    #[test]
    fn what_is_filled_in_the_end_was_there_as_a_whole() {
        let (mut states, mut shares) = (SpaceStates::default(), Vec::new());
        states.life(&life(0, 0, 10, true), &mut shares);
        states.scan_begins(100);
        states.changed(&row(100, 0, 5, PageState::Resident), &mut shares);
        states.scan_ends(100, &mut shares);
        states.scan_begins(200);
        states.changed(&row(200, 5, 10, PageState::Resident), &mut shares);
        states.scan_ends(200, &mut shares);
        states.life(&life(300, 0, 10, false), &mut shares);
        assert_eq!(mean(&shares), Some(0.75));
        assert_eq!(most(&shares), Some(1.0));
        // Another ten, of which eight stay untouched: what there was before counts.
        states.life(&life(300, 20, 40, true), &mut shares);
        states.scan_begins(300);
        states.changed(&row(300, 20, 22, PageState::Resident), &mut shares);
        states.scan_ends(300, &mut shares);
        states.end(400, &mut shares);
        assert_eq!(most(&shares), Some(0.5));
    }

    #[test]
    fn what_no_scan_saw_is_unknown() {
        let (mut states, mut shares) = (SpaceStates::default(), Vec::new());
        states.scan_begins(10);
        states.life(&life(20, 0, 10, true), &mut shares);
        states.scan_ends(30, &mut shares);
        states.life(&life(40, 0, 10, false), &mut shares);
        states.scan_begins(50);
        states.scan_ends(60, &mut shares);
        states.end(100, &mut shares);
        assert_eq!(mean(&shares), None);
    }

    #[test]
    fn an_unmapped_part_counts_no_more() {
        let (mut states, mut shares) = (SpaceStates::default(), Vec::new());
        states.life(&life(0, 0, 10, true), &mut shares);
        states.scan_begins(100);
        states.changed(&row(100, 0, 5, PageState::Resident), &mut shares);
        states.scan_ends(100, &mut shares);
        // What was never in memory is unmapped: the rest is there as a whole.
        states.life(&life(200, 5, 10, false), &mut shares);
        states.end(400, &mut shares);
        let expected = (5.0 * 100.0 + 5.0 * 200.0) / (10.0 * 100.0 + 5.0 * 200.0);
        assert_eq!(mean(&shares), Some(expected));
    }

    #[test]
    fn a_change_tells_what_was_in_memory_before() {
        let (mut states, mut shares) = (SpaceStates::default(), Vec::new());
        states.changed(&row(1, 2, 4, PageState::Resident), &mut shares);
        states.changed(&row(1, 6, 8, PageState::Swapped), &mut shares);
        let before = states.overlapped(&row(2, 0, 10, PageState::Swapped));
        assert_eq!(
            before,
            [Before {
                start: 2 * PAGE,
                end: 4 * PAGE,
                file: false
            }]
        );
    }
}
