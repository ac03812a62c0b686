//! What pages were before a moment: the rows of `residency` before it, folded into one per range.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use crate::tables::PageState;
use crate::tables::Residency;

/// Ranges of one address space that do not overlap, by their first byte: their end, and what they are.
#[derive(Default)]
struct Ranges(BTreeMap<u64, (u64, Residency)>);

impl Ranges {
    fn set(&mut self, row: Residency) {
        let (start, end) = (row.address, row.address.saturating_add(row.bytes));
        self.clear(start, end);
        if row.state != PageState::Absent {
            self.0.insert(start, (end, row));
        }
    }

    fn clear(&mut self, start: u64, end: u64) {
        let before = self.0.range(..start).next_back();
        let first = before
            .filter(|(_, (until, _))| *until > start)
            .map_or(start, |(&from, _)| from);
        let touched: Vec<u64> = self.0.range(first..end).map(|(&from, _)| from).collect();
        for from in touched {
            let Some((until, row)) = self.0.remove(&from) else {
                continue;
            };
            if from < start {
                self.0.insert(from, (start, row.clone()));
            }
            if until > end {
                self.0.insert(end, (until, row));
            }
        }
    }
}

/// Of the rows before that moment, what still held then, of spaces that are still needed; all later rows.
pub(crate) fn fold(rows: Vec<Residency>, needed: &HashSet<u32>, before_ns: u64) -> Vec<Residency> {
    let mut spaces: HashMap<u32, Ranges> = HashMap::new();
    let mut later = Vec::new();
    for row in rows {
        if !needed.contains(&row.space) {
            continue;
        }
        if row.time_ns < before_ns {
            spaces.entry(row.space).or_default().set(row);
        } else {
            later.push(row);
        }
    }
    let mut held: Vec<Residency> = spaces
        .into_values()
        .flat_map(|ranges| ranges.0)
        .map(|(address, (end, row))| Residency {
            address,
            bytes: end - address,
            ..row
        })
        .collect();
    // The table is in order of time.
    held.sort_by_key(|row| (row.time_ns, row.space, row.address));
    held.append(&mut later);
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_ns: u64, pages: std::ops::Range<u64>, state: PageState) -> Residency {
        Residency {
            time_ns,
            space: 1,
            address: pages.start * 4096,
            bytes: (pages.end - pages.start) * 4096,
            state,
            file: None,
            mapped: None,
        }
    }

    fn folded(rows: &[Residency], before_ns: u64) -> Vec<(u64, u64, u64, PageState)> {
        fold(rows.to_vec(), &HashSet::from([1]), before_ns)
            .iter()
            .map(|row| (row.time_ns, row.address / 4096, row.bytes / 4096, row.state))
            .collect()
    }

    #[test]
    fn the_last_state_of_each_page_stays() {
        let rows = [
            row(1, 0..10, PageState::Resident),
            row(2, 3..5, PageState::Swapped),
            row(3, 8..12, PageState::Absent),
            row(9, 0..1, PageState::Absent),
        ];
        assert_eq!(
            folded(&rows, 5),
            [
                (1, 0, 3, PageState::Resident),
                (1, 5, 3, PageState::Resident),
                (2, 3, 2, PageState::Swapped),
                (9, 0, 1, PageState::Absent),
            ]
        );
    }

    #[test]
    fn spaces_that_are_not_needed_go() {
        let rows = vec![row(1, 0..1, PageState::Resident)];
        assert_eq!(fold(rows, &HashSet::from([2]), 5), []);
    }

    /// Page by page, as one would write it without thinking of ranges.
    #[test]
    fn it_agrees_with_single_pages() {
        let states = [PageState::Resident, PageState::Swapped, PageState::Absent];
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut pages = [PageState::Absent; 40];
        let mut rows = Vec::new();
        for time_ns in 0..200 {
            let start = next(36);
            let end = start + 1 + next(4);
            let state = states[next(3) as usize];
            rows.push(row(time_ns, start..end, state));
            pages[start as usize..end as usize].fill(state);
            let mut found = [PageState::Absent; 40];
            for (_, first, count, state) in folded(&rows, u64::MAX) {
                found[first as usize..(first + count) as usize].fill(state);
            }
            assert_eq!(found, pages);
        }
    }
}
