//! Clears accessed bits of some pages only, which stand for all.
//!
//! To clear all bits takes the kernel up to 0.2 us for each page, and the processor as long or longer to set it again: of a program of seconds there could
//! be a few looks. A few thousand pages tell as much of how often memory is used, and most of the program is left alone.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use pagewise_collect::AccessSensor;
use pagewise_collect::CollectError;
use pagewise_collect::access::PageSet;
use pagewise_collect::access::Pages;
use pagewise_collect::access::REGION_BYTES;
use pagewise_collect::access::Region;
use pagewise_collect::access::pages_in;
use pagewise_host::cold;
use pagewise_trace::SPOT_PAGES;
use pagewise_trace::Spots;
use rustix::process::Pid;
use rustix::process::PidfdFlags;

use super::clearing::Cleared;
use super::clearing::Clearing;
use super::clearing::both;
use super::clearing::processor_time;
use crate::record::facts::Clocks;

/// So many pages at least stand for all, if there are as many.
const LEAST_PAGES: u64 = 4096;
/// One in so many at most: what is looked at leaves memory out of its turn, and how long pages stay by themselves is told by the others.
const FEWEST: u64 = 4;
/// Beside these, while memory is exchanged, so many times fewer,
const FEWER_BESIDE: u64 = 4;
/// and one in so many at most: they leave in place of others.
const FEWEST_BESIDE: u64 = 32;
const PAGE_BYTES: u64 = 4096;

/// The smallest share of all pages that there are enough of, and none larger than `before`: of one share all looks together tell.
pub(super) fn spots_of(resident_pages: u64, before: Spots) -> Spots {
    let enough = (resident_pages / LEAST_PAGES).max(FEWEST);
    Spots::one_in(enough.max(before.pages_each()))
}

/// A few pages that are beside all those, so that looks at them change nothing of what is told by these.
pub(super) fn spots_beside(spots: Spots) -> Spots {
    let fewer = spots.pages_each() * FEWER_BESIDE;
    Spots::beside_one_in(fewer.max(FEWEST_BESIDE))
}

/// Clears the bits of the spots' pages that are in memory.
pub(super) fn clear_spots(
    sensor: &mut AccessSensor,
    processes: &[u32],
    spots: Spots,
) -> Result<Clearing, CollectError> {
    let mut clearing = Clearing::default();
    // What a process has forked and what it was forked from have pages in common.
    let may_share = processes.len() > 1;
    for &pid in processes {
        let Some(pages) = Pages::open(pid)? else {
            continue;
        };
        // What another one has cleared, it wants to look at itself; it claims the bits for no longer than that takes.
        if !pages.claim() {
            clearing.watched.get_or_insert(pid);
            continue;
        }
        pages.give_up_claim();
        let begun = processor_time();
        let mut regions = Vec::new();
        sensor.walk(&pages, |region| regions.push(region))?;
        let listed_at_ns = Some(Clocks::now().monotonic_ns);
        let mut chosen = chosen_pages(
            &regions,
            spots,
            &cold::private_memory(pid).unwrap_or_default(),
        );
        if may_share {
            leave_out_shared(&pages, &mut chosen);
        }
        let (since, before) = (Instant::now(), processor_time());
        let made_cold = make_cold(pid, &chosen);
        let took = processor_time().saturating_sub(before);
        clearing.cost += processor_time().saturating_sub(begun);
        clearing.took += since.elapsed();
        match made_cold {
            Ok(cleared) if cleared.is_empty() => {}
            Ok(cleared) => clearing.cleared.push(Cleared {
                pid,
                pages,
                listed_at_ns,
                at_ns: Clocks::now().monotonic_ns,
                took,
                ran_ns: None,
                accessed: HashMap::new(),
                only: Some(cleared),
            }),
            Err(error) if has_ended(&error) => {}
            Err(source) => {
                clearing.refusals += 1;
                clearing.refused = Some(CollectError::System {
                    action: format!("making pages of process {pid} cold"),
                    source,
                });
            }
        }
    }
    Ok(clearing)
}

fn has_ended(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Of each region by address, the pages that are looked at: in a spot and in private memory.
fn chosen_pages(regions: &[Region], spots: Spots, private: &[Range<u64>]) -> Vec<(u64, PageSet)> {
    let of_region = |region: &Region| {
        let here = both(
            &spots.in_region(region.address),
            &region.resident,
            |spot, here| spot & here,
        );
        let chosen = within(region.address, here, private);
        (pages_in(&chosen) > 0).then_some((region.address, chosen))
    };
    let regions = regions.iter().filter(|region| !region.huge);
    regions.filter_map(of_region).collect()
}

/// Those of a region's pages that lie in one of the ranges, which are in order.
fn within(region: u64, pages: PageSet, ranges: &[Range<u64>]) -> PageSet {
    let mut kept = PageSet::default();
    let mut next = ranges.partition_point(|range| range.end <= region);
    for at in (0..512).filter(|at| pages[at / 64] >> (at % 64) & 1 == 1) {
        let address = region + at as u64 * PAGE_BYTES;
        while ranges.get(next).is_some_and(|range| range.end <= address) {
            next += 1;
        }
        if ranges.get(next).is_some_and(|range| range.start <= address) {
            kept[at / 64] |= 1 << (at % 64);
        }
    }
    kept
}

/// Bits of pages that others map, too, are not cleared.
fn leave_out_shared(pages: &Pages, chosen: &mut Vec<(u64, PageSet)>) {
    for (region, set) in chosen.iter_mut() {
        // Of what is not told nothing is known.
        *set = pages.unshared(*region, set).unwrap_or_default();
    }
    chosen.retain(|(_, set)| pages_in(set) > 0);
}

/// Returns what was made cold, by region.
fn make_cold(pid: u32, chosen: &[(u64, PageSet)]) -> std::io::Result<HashMap<u64, PageSet>> {
    let pid = Pid::from_raw(pid as i32).ok_or(std::io::ErrorKind::InvalidInput)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let ranges: Vec<Range<u64>> = chosen
        .iter()
        .flat_map(|&(region, pages)| runs(region, pages))
        .collect();
    let refused = cold::make_cold(process.as_fd(), &ranges)?;
    let mut cleared: HashMap<u64, PageSet> = chosen.iter().copied().collect();
    for range in refused {
        leave_out(&mut cleared, &ranges[range]);
    }
    Ok(cleared)
}

/// A range lies within one region.
fn leave_out(cleared: &mut HashMap<u64, PageSet>, range: &Range<u64>) {
    let region = range.start / REGION_BYTES * REGION_BYTES;
    let Some(pages) = cleared.get_mut(&region) else {
        return;
    };
    for at in (range.start - region) / PAGE_BYTES..(range.end - region) / PAGE_BYTES {
        pages[at as usize / 64] &= !(1 << (at % 64));
    }
    if pages_in(pages) == 0 {
        cleared.remove(&region);
    }
}

/// Runs of pages within spots.
fn runs(region: u64, pages: PageSet) -> impl Iterator<Item = Range<u64>> {
    (0..512 / SPOT_PAGES).filter_map(move |spot| {
        let at = spot * SPOT_PAGES;
        let bits = pages[at as usize / 64] >> (at % 64) & ((1 << SPOT_PAGES) - 1);
        let first = at + u64::from(bits.trailing_zeros());
        let last = at + u64::from(bits.checked_ilog2()?);
        Some(region + first * PAGE_BYTES..region + (last + 1) * PAGE_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_pages_a_quarter_at_most_and_a_share_never_grows() {
        let all = Spots::one_in(1);
        let of = |pages| spots_of(pages, all).pages_each();
        assert_eq!(
            [0, 4096, 16_384, 32_767, 32_768, 48_000, 1 << 20].map(of),
            [4, 4, 4, 4, 8, 8, 256]
        );
        assert_eq!(spots_of(5000, Spots::one_in(8)), Spots::one_in(8));
    }

    #[test]
    fn pages_are_chosen_in_spots_in_memory_that_is_no_files() {
        let region = 4 << 20;
        let spots = Spots::one_in(2);
        let all = Region {
            address: region,
            resident: [u64::MAX; 8],
            ..Region::default()
        };
        let half = region..region + (1 << 20);
        let chosen = chosen_pages(&[all], spots, std::slice::from_ref(&half));
        let [(address, pages)] = chosen[..] else {
            panic!("{chosen:?}");
        };
        assert_eq!(address, region);
        assert_eq!(pages_in(&pages), 128);
        assert_eq!(pages[4..], [0; 4]);
        let huge = Region { huge: true, ..all };
        assert_eq!(
            chosen_pages(&[huge], spots, std::slice::from_ref(&half)),
            []
        );
        assert_eq!(chosen_pages(&[all], spots, &[]), []);
        let page = region + PAGE_BYTES..region + 2 * PAGE_BYTES;
        assert_eq!(
            within(region, [0b111, 0, 0, 0, 0, 0, 0, 0], &[0..8, page])[0],
            0b010
        );
    }

    #[test]
    fn what_was_refused_is_not_looked_at() {
        let region = 4 << 20;
        let mut cleared = HashMap::from([(region, [0b1111, 0, 0, 0, 0, 0, 0, 0])]);
        leave_out(
            &mut cleared,
            &(region + PAGE_BYTES..region + 3 * PAGE_BYTES),
        );
        assert_eq!(cleared[&region][0], 0b1001);
        leave_out(&mut cleared, &(0..PAGE_BYTES));
        leave_out(&mut cleared, &(region..region + 4 * PAGE_BYTES));
        assert!(cleared.is_empty(), "{cleared:?}");
    }

    #[test]
    fn what_is_made_cold_goes_from_the_first_page_of_a_spot_to_its_last() {
        let mut pages = PageSet::default();
        pages[0] = 0b101 << 20 | 1 << 15;
        pages[7] = 1 << 63;
        let page = |number: u64| REGION_BYTES + number * PAGE_BYTES;
        let found: Vec<_> = runs(REGION_BYTES, pages).collect();
        assert_eq!(
            found,
            [page(15)..page(16), page(20)..page(23), page(511)..page(512)]
        );
    }
}
