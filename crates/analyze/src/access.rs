//! What was accessed: the working set over time, and the share of each object that was in use.

use pagewise_trace::Access;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::coverage::Coverage;
use crate::coverage::CoverageSums;
use crate::spaces::Spaces;

const REGION_PAGES: u64 = 512;
/// Hexadecimal digits of a map: four pages each.
const MAP_DIGITS: usize = 128;

/// One look at all recorded processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// When it was looked, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Since when accesses counted, ns before that; the longest of the processes'.
    pub interval_ns: u64,
    /// Bytes of pages accessed in the interval. Pages that processes share count for each.
    pub accessed_bytes: u64,
    /// Bytes of pages in memory.
    pub resident_bytes: u64,
}

/// All that follows from accessed bits; empty if they were not recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    pub(crate) working_set: Vec<WorkingSet>,
    pub(crate) coverage: Vec<Coverage>,
    /// By the objects' numbers.
    shares: Vec<Share>,
}

/// Pages times ns.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    accessed: u128,
    resident: u128,
}

impl Accesses {
    /// Goes through `spaces` once more.
    pub(crate) fn read(trace: &Trace, spaces: &mut Spaces) -> Result<Self, TraceError> {
        let mut rows = trace.accesses()?.peekable();
        let mut accesses = Self::default();
        if rows.peek().is_none() {
            return Ok(accesses);
        }
        let page_bytes = trace.meta().host.page_bytes.unwrap_or(4096);
        spaces.rewind();
        let mut coverage = CoverageSums::default();
        for row in rows {
            let row = row?;
            coverage.add(&row);
            spaces.advance(row.time_ns);
            accesses.add_to_working_set(&row, page_bytes);
            add_to_shares(&row, spaces, page_bytes, &mut accesses.shares);
        }
        accesses.coverage = coverage.finish(trace)?;
        Ok(accesses)
    }

    /// The share of the object's resident pages that was accessed in an interval, over all looks, each weighted by its
    /// interval. `None`: it was never looked at, or never resident.
    pub(crate) fn share(&self, object: usize) -> Option<f64> {
        let share = self.shares.get(object)?;
        (share.resident > 0).then(|| share.accessed as f64 / share.resident as f64)
    }

    fn add_to_working_set(&mut self, row: &Access, page_bytes: u64) {
        let look = match self.working_set.last_mut() {
            Some(look) if look.time_ns == row.time_ns => look,
            _ => {
                self.working_set.push(WorkingSet {
                    time_ns: row.time_ns,
                    ..WorkingSet::default()
                });
                let last = self.working_set.len() - 1;
                &mut self.working_set[last]
            }
        };
        look.interval_ns = look.interval_ns.max(row.interval_ns);
        look.accessed_bytes += u64::from(row.accessed_pages) * page_bytes;
        look.resident_bytes += u64::from(row.resident_pages) * page_bytes;
    }
}

/// A map that makes no sense tells nothing about objects.
fn add_to_shares(row: &Access, spaces: &Spaces, page_bytes: u64, shares: &mut Vec<Share>) {
    let resident = match &row.resident_map {
        Some(map) => parse(map),
        None if row.resident_pages == 0 => Some(PageSet::default()),
        None => Some(PageSet([u64::MAX; 8])),
    };
    let Some(resident) = resident else { return };
    let accessed = match &row.accessed_map {
        Some(map) => parse(map),
        None if row.accessed_pages == 0 => Some(PageSet::default()),
        None => Some(resident),
    };
    let Some(accessed) = accessed else { return };
    let mut page = 0;
    while page < REGION_PAGES {
        let address = row.address.saturating_add(page * page_bytes);
        let (object, end) = spaces.find_run(row.space, address);
        let pages = (end.saturating_sub(address) / page_bytes).clamp(1, REGION_PAGES - page);
        if object >= shares.len() {
            shares.resize_with(object + 1, Share::default);
        }
        let time = u128::from(row.interval_ns.max(1));
        let share = &mut shares[object];
        share.accessed += time * u128::from(accessed.count(page, page + pages));
        share.resident += time * u128::from(resident.count(page, page + pages));
        page += pages;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PageSet([u64; 8]);

impl PageSet {
    /// Pages in the set from `first` to before `end`.
    fn count(&self, first: u64, end: u64) -> u32 {
        let words = self.0.iter().zip(0u64..);
        let in_word = |(word, number): (&u64, u64)| {
            let bits = |pages: u64| {
                let pages = pages.saturating_sub(number * 64).min(64);
                u64::MAX.checked_shr(64 - pages as u32).unwrap_or(0)
            };
            (word & bits(end) & !bits(first)).count_ones()
        };
        words.map(in_word).sum()
    }
}

/// The form of `accesses.resident_map`.
fn parse(map: &str) -> Option<PageSet> {
    if map.len() != MAP_DIGITS {
        return None;
    }
    let mut set = PageSet::default();
    for (number, digit) in map.chars().enumerate() {
        set.0[number / 16] |= u64::from(digit.to_digit(16)?) << (number % 16 * 4);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_from_the_first_page_on() {
        let map = format!("21{}8", "0".repeat(125));
        let set = parse(&map).expect("well formed");
        assert_eq!(set.0, [0b1_0010, 0, 0, 0, 0, 0, 0, 1 << 63]);
        assert_eq!(parse("21"), None);
        assert_eq!(parse(&"g".repeat(128)), None);
        assert_eq!(parse(&"\u{e9}".repeat(64)), None, "128 bytes, not digits");
    }

    #[test]
    fn pages_are_counted_in_ranges() {
        let all = PageSet([u64::MAX; 8]);
        for (first, end) in [
            (0, 512),
            (0, 0),
            (63, 64),
            (60, 70),
            (64, 128),
            (511, 512),
            (5, 5),
        ] {
            assert_eq!(
                u64::from(all.count(first, end)),
                end - first,
                "{first}..{end}"
            );
        }
        let few = PageSet([1 << 63, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            (few.count(0, 64), few.count(63, 65), few.count(65, 512)),
            (1, 2, 0)
        );
    }
}
