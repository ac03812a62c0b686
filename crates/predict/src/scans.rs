//! What scans of page tables tell: pages that are new, and pages that are no more.

use std::collections::BTreeMap;
use std::ops::Range;

use pagewise_trace::PageState;
use pagewise_trace::Residency;
use pagewise_trace::SharedMemory;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::clock::Clock;
use crate::departures::Departures;
use crate::departures::UsualStays;
use crate::history::Known;
use crate::history::What;
use crate::history::key;
use crate::history::parts;
use crate::sightings::Sighting;
use crate::sightings::Sightings;
use crate::touches::Touches;

/// First touches and ends, as the scans saw them, and when shared memory left; pages of `1 << shift` bytes. Returns the time of the last
/// scan, and how long shared memory stays.
pub(crate) fn add(
    trace: &Trace,
    shift: u32,
    shared: &SharedMemory,
    clock: &Clock,
    touches: &Touches,
    known: &mut Known,
) -> Result<(u64, UsualStays), TraceError> {
    let rounds = Rounds::read(trace)?;
    let round_of = |row: &Residency| (row.space, rounds.number(row.space, row.time_ns));
    let half = (rounds.resident_bytes >> shift) as usize / 2;
    let mut last = 0;
    let sightings = Sightings::read(trace, shift, clock)?;
    let mut departures = Departures::new(shared, shift, known);
    let spaces = trace.spaces()?;
    let ended = spaces
        .iter()
        .filter_map(|space| Some((space.end_ns?, space.space)));
    let mut ended: Vec<(u64, u32)> = ended.collect();
    ended.sort_unstable();
    let mut ended = ended.into_iter().peekable();
    let mut add = |scan: &[Residency]| {
        if let Some(first) = scan.first() {
            while let Some((_, space)) = ended.next_if(|&(end, _)| end <= first.time_ns) {
                departures.note_end(space);
            }
            let since = rounds.before(first.space, first.time_ns);
            let round = Round {
                clock,
                touches,
                sightings: &sightings,
                since_ns: since,
                half,
            };
            last = last.max(round.add(scan, shift, &mut departures, known));
        }
    };
    let mut scan: Vec<Residency> = Vec::new();
    for row in trace.residency()? {
        let row = row?;
        if scan
            .first()
            .is_some_and(|first| round_of(first) != round_of(&row))
        {
            add(&scan);
            scan.clear();
        }
        scan.push(row);
    }
    add(&scan);
    let share = (rounds.resident_bytes >> shift) as f64 / known.len().max(1) as f64;
    let begins = |space| rounds.own_begins(space, clock);
    let stays = departures.add(share.min(1.0), begins, known);
    let spaces = spaces.into_iter();
    let ends = spaces.map(|space| (space.space, space.end_ns.map(|end| clock.own(end))));
    end_spaces(&ends.collect(), shared, shift, known);
    Ok((last, stays))
}

/// Pages are no more when their address space has ended, which no scan sees; shared memory when all that were forked from it have, too.
/// `ends`: of each space, `None` of one that outlives the recording.
fn end_spaces(
    ends: &BTreeMap<u32, Option<u64>>,
    shared: &SharedMemory,
    shift: u32,
    known: &mut Known,
) {
    let families = family_ends(ends, shared);
    for (key, moments) in known {
        let (space, page) = parts(*key);
        let ends = if shared.has(space, page << shift) {
            &families
        } else {
            ends
        };
        let end = ends.get(&space).copied().flatten();
        let Some((end, &(last, what))) = end.zip(moments.last()) else {
            continue;
        };
        if what != What::Gone {
            moments.push((end.max(last), What::Gone));
        }
    }
}

/// When each address space and all that were forked from it had ended.
fn family_ends(
    ends: &BTreeMap<u32, Option<u64>>,
    shared: &SharedMemory,
) -> BTreeMap<u32, Option<u64>> {
    let mut families = ends.clone();
    for (&space, &end) in ends {
        for ancestor in shared.ancestors(space) {
            let family = families.entry(ancestor).or_insert(end);
            *family = family.zip(end).map(|(family, end)| family.max(end));
        }
    }
    families
}

/// What is known of scans as such.
#[derive(Default)]
struct Rounds {
    /// When scans of each address space began, and before them the space itself; ascending. What a scan saw has times until its
    /// end.
    begins: BTreeMap<u32, Vec<u64>>,
    /// The most that was in memory of a space.
    resident_bytes: u64,
}

impl Rounds {
    fn read(trace: &Trace) -> Result<Rounds, TraceError> {
        let mut rounds = Rounds::default();
        for space in trace.spaces()? {
            let begins = rounds.begins.entry(space.space);
            begins.or_insert(vec![space.begin_ns]);
        }
        // A scan that was not complete is gone on with by the next one: both are one round.
        let mut goes_on: BTreeMap<u32, bool> = BTreeMap::new();
        for scan in trace.residency_scans()? {
            let scan = scan?;
            rounds.resident_bytes = rounds.resident_bytes.max(scan.resident_bytes);
            if goes_on.insert(scan.space, !scan.complete) != Some(true) {
                rounds.add(scan.space, scan.time_ns);
            }
        }
        Ok(rounds)
    }

    fn add(&mut self, space: u32, begin: u64) {
        let begins = self.begins.entry(space).or_insert(vec![begin]);
        begins.push(begin);
    }

    /// When those of a space began, in own time.
    fn own_begins(&self, space: u32, clock: &Clock) -> Vec<u64> {
        let begins = self.begins.get(&space).into_iter().flatten();
        begins.map(|&begin| clock.own(begin)).collect()
    }

    /// The number of the round that saw something at `time`.
    fn number(&self, space: u32, time: u64) -> usize {
        let begins = self.begins.get(&space).map_or(&[][..], Vec::as_slice);
        begins.partition_point(|&begin| begin <= time)
    }

    /// When the round before that one began, that has not seen it yet.
    fn before(&self, space: u32, time: u64) -> u64 {
        let before = self.number(space, time).saturating_sub(2);
        let begins = self
            .begins
            .get(&space)
            .and_then(|begins| begins.get(before));
        begins.map_or(time, |&begin| begin.min(time))
    }
}

/// One scan of an address space.
struct Round<'a> {
    clock: &'a Clock,
    touches: &'a Touches,
    sightings: &'a Sightings,
    /// When the one before began.
    since_ns: u64,
    /// Half of the pages that memory holds.
    half: usize,
}

impl Round<'_> {
    /// New pages came one after the other since the scan before began: after looks that did not see them and before those that did, if they are
    /// looked at at all, which shared memory and huge pages are not; and in between in order of address, but those that left again before half of memory had, as they left. Returns when the scan had ended.
    fn add(
        &self,
        scan: &[Residency],
        shift: u32,
        departures: &mut Departures,
        known: &mut Known,
    ) -> u64 {
        let now = scan.iter().map(|row| row.time_ns).max();
        let now = self.clock.own(now.unwrap_or(self.since_ns));
        let since = self.clock.own(self.since_ns).min(now);
        let (mut new, mut never_looked_at) = (Vec::new(), Vec::new());
        for row in scan {
            let from = row.address >> shift;
            let shared = departures.memory();
            let pages = from..from + (row.bytes >> shift);
            let pages = pages.map(|page| key(shared.home(row.space, page << shift), page));
            match row.state {
                PageState::Absent => pages.for_each(|key| {
                    let Some(moments) = known.get_mut(&key) else {
                        return;
                    };
                    if row.mapped == Some(true) && departures.is_shared(key) {
                        departures.note_absent(row.space, key, since, now);
                        return;
                    }
                    let at = moments.partition_point(|&(at, _)| at <= now);
                    if at == moments.len() || moments[at].1 != What::Gone {
                        moments.insert(at, (now, What::Gone));
                    }
                }),
                PageState::Zero => {}
                PageState::Resident | PageState::Huge | PageState::Swapped => {
                    let is_file = row.file == Some(true);
                    for key in pages {
                        if is_file && !departures.is_shared(key) {
                            continue;
                        }
                        if is_file {
                            departures.note_here(row.space, key);
                        }
                        if exists(known.get(&key), since) {
                            continue;
                        }
                        match row.state == PageState::Huge || departures.is_shared(key) {
                            true => never_looked_at.push(key),
                            false => new.push(key),
                        }
                    }
                }
            }
        }
        departures.end_scan();
        new.sort_unstable();
        never_looked_at.sort_unstable();
        let unseen = departures.unseen_among(&never_looked_at, since);
        if !unseen.is_empty() {
            never_looked_at.extend(unseen);
            never_looked_at.sort_unstable();
            never_looked_at.dedup();
        }
        let space = scan.first().map_or(0, |row| row.space);
        let sightings = self.sightings.between(space, since, now);
        self.touch(&new, sightings, since..now, known);
        self.touch(&never_looked_at, &[], since..now, known);
        now
    }

    /// Adds to what is `known` when each of these pages, which are new and ascending, came in that time.
    fn touch(&self, new: &[u64], sightings: &[Sighting], time: Range<u64>, known: &mut Known) {
        let since = time.start;
        let bound = self.touches.evicted(self.half, since);
        let by_looks = by_sightings(new, sightings, |key| next_after(known, key, since));
        let listed = sightings.iter().map(|sighting| sighting.listed);
        let mut from = since;
        for (to, part) in listed.chain([time.end]).zip(by_looks) {
            let part = as_they_left(part, |key| {
                let after = known.get(&key)?.iter().filter(|&&(at, _)| at > since);
                let mut left = after.filter(|&&(at, what)| what == What::Evicted && at < bound);
                left.next().map(|&(at, _)| at)
            });
            let times = self.touches.of(part.len() as u64, from, to);
            for (spread, key) in times.into_iter().zip(part) {
                let moments = known.entry(key).or_default();
                let at = moments.partition_point(|&(at, _)| at <= since);
                let bound = moments.get(at).map_or(time.end, |&(at, _)| at);
                moments.insert(at, (spread.min(bound), What::Touched));
            }
            from = to;
        }
    }
}

/// When something is known of a page next after that time.
fn next_after(known: &Known, key: u64, since: u64) -> Option<u64> {
    let moments = known.get(&key)?;
    let after = moments.partition_point(|&(at, _)| at <= since);
    moments.get(after).map(|&(at, _)| at)
}

/// New pages, ascending, by the looks between which they came: those that were there by the first, then by the second, and so on, and those that came
/// after the last. A page that was not looked for came when the one did that stands for it, and where that is not new, with those before it.
/// `next`: when something is known of a page next, before which it came.
fn by_sightings(
    new: &[u64],
    sightings: &[Sighting],
    next: impl Fn(u64) -> Option<u64>,
) -> Vec<Vec<u64>> {
    let mut by_looks = vec![Vec::new(); sightings.len() + 1];
    let seen = |&key: &u64| {
        let page = parts(key).1;
        let mut is_told = false;
        let first = sightings.iter().position(|sighting| {
            let spot = sighting.stands_for(page);
            let of_spot = key - page + spot;
            let is_new = spot == page || new.binary_search(&of_spot).is_ok();
            is_told |= is_new;
            is_new && sighting.saw(spot, next(of_spot))
        });
        first.or(is_told.then_some(sightings.len()))
    };
    let seen: Vec<Option<usize>> = new.iter().map(seen).collect();
    let mut usual = seen.iter().flatten().next().copied().unwrap_or(0);
    for (&key, seen) in new.iter().zip(seen) {
        usual = seen.unwrap_or(usual);
        let is_over = |at: u64| sightings.partition_point(|sighting| sighting.listed < at);
        let part = next(key).map_or(usual, |at| usual.min(is_over(at)));
        by_looks[part].push(key);
    }
    by_looks
}

/// Puts pages of which it is known when they left in that order, in each other's places. A page that was accessed again goes through
/// the list of active pages, half of memory, before it can leave; what leaves sooner has been in a queue (mm/vmscan.c).
fn as_they_left(mut pages: Vec<u64>, left: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let (places, mut known): (Vec<usize>, Vec<(u64, u64)>) = (0..)
        .zip(&pages)
        .filter_map(|(place, &page)| Some((place, (left(page)?, page))))
        .unzip();
    known.sort_unstable();
    for (place, (_, page)) in places.into_iter().zip(known) {
        pages[place] = page;
    }
    pages
}

/// Whether the page was there before this scan's interval, and is not new since.
fn exists(moments: Option<&Vec<(u64, What)>>, since: u64) -> bool {
    let Some(moments) = moments else {
        return false;
    };
    let before = moments.partition_point(|&(at, _)| at <= since);
    before > 0 && moments[before - 1].1 != What::Gone
}

#[cfg(test)]
mod tests {
    use pagewise_trace::Spots;

    use super::*;

    #[test]
    fn pages_go_with_their_address_space() {
        let mut known: Known = [
            (key(1, 7), vec![(10, What::Touched)]),
            (key(1, 8), vec![(10, What::Touched), (60, What::Gone)]),
            (key(1, 9), vec![(10, What::Touched), (120, What::Evicted)]),
            (key(2, 7), vec![(10, What::Touched)]),
        ]
        .into_iter()
        .collect();
        let ends = BTreeMap::from([(1, Some(100)), (2, None)]);
        end_spaces(&ends, &SharedMemory::default(), 12, &mut known);
        assert_eq!(known[&key(1, 7)][1..], [(100, What::Gone)]);
        assert_eq!(known[&key(1, 8)][1..], [(60, What::Gone)]);
        assert_eq!(known[&key(1, 9)][2..], [(120, What::Gone)]);
        assert_eq!(known[&key(2, 7)].len(), 1);
    }

    #[test]
    fn shared_memory_goes_with_the_last_that_has_it() {
        let shared = SharedMemory::of(1, &[(7 << 12, 8 << 12)]).with_children(&[(2, 1), (3, 2)]);
        let end_of = |youngest| {
            let mut known: Known = [7, 8]
                .map(|page| (key(1, page), vec![(10, What::Touched)]))
                .into_iter()
                .collect();
            let ends = BTreeMap::from([(1, Some(100)), (2, Some(50)), (3, youngest)]);
            end_spaces(&ends, &shared, 12, &mut known);
            assert_eq!(known[&key(1, 8)][1..], [(100, What::Gone)], "its own");
            known[&key(1, 7)].get(1).copied()
        };
        assert_eq!(end_of(Some(70)), Some((100, What::Gone)));
        assert_eq!(end_of(Some(170)), Some((170, What::Gone)));
        assert_eq!(end_of(None), None);
    }

    #[test]
    fn what_left_first_came_first() {
        // Pages 1 and 3 left at 30 and 20; the others stayed, or for so long that it says nothing.
        let left = |page| [None, Some(30), None, Some(20)][page as usize];
        assert_eq!(as_they_left(vec![0, 1, 2, 3], left), [0, 3, 2, 1]);
    }

    #[test]
    fn what_looks_saw_came_before_what_they_did_not() {
        use crate::sightings;

        // Filled at random: half of the pages are there by the first look, a quarter more by the second.
        let came = |page: u64| match page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 {
            0 | 1 => 5,
            2 => 25,
            _ => 60,
        };
        let all = sightings::tests::sightings(&[10, 30], |page, at_ns| came(page) < at_ns);
        let pages: Vec<u64> = (0..1024).map(|page| key(1, page)).collect();
        let by_looks = by_sightings(&pages, all.between(1, 0, 100), |_| None);
        let sizes: Vec<usize> = by_looks.iter().map(Vec::len).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1024);
        for (part, expected) in [(0, 512), (1, 256), (2, 256)] {
            assert!(sizes[part].abs_diff(expected) < 80, "{sizes:?}");
        }
        // Those that were looked for came when they did.
        for (part, time) in [(0, 5), (1, 25), (2, 60)] {
            let pages = by_looks[part].iter().map(|&key| parts(key).1);
            let spots = pages.filter(|&page| Spots::one_in(4).takes(page));
            assert!(spots.clone().count() > 40);
            assert!(spots.into_iter().all(|page| came(page) == time));
        }
        // What is known of a page came after it.
        let by_looks = by_sightings(&pages, all.between(1, 0, 100), |key| {
            (parts(key).1 >= 512).then_some(8)
        });
        assert_eq!(
            by_looks[0]
                .iter()
                .filter(|&&key| parts(key).1 >= 512)
                .count(),
            512
        );
        // Nobody looked: in order of address.
        let by_address = by_sightings(&pages, &[], |_| None);
        assert_eq!(by_address.concat(), pages);
        // What stands for them is not new.
        let no_spots: Vec<u64> = pages[..512]
            .iter()
            .copied()
            .filter(|&key| !Spots::one_in(4).takes(parts(key).1))
            .collect();
        let by_looks = by_sightings(&no_spots, all.between(1, 0, 100), |_| None);
        assert_eq!(by_looks, [no_spots, vec![], vec![]]);
    }

    #[test]
    fn what_one_scan_saw_piece_by_piece_is_new_since_the_scan_before() {
        let mut rounds = Rounds::default();
        rounds.begins.insert(1, vec![5]);
        for begin in [100, 200, 300] {
            rounds.add(1, begin);
        }
        // The first scan's is new since the space is there.
        assert_eq!(rounds.before(1, 100), 5);
        assert_eq!([200, 207].map(|time| rounds.before(1, time)), [100, 100]);
        assert_eq!(rounds.number(1, 200), rounds.number(1, 207));
        assert_ne!(rounds.number(1, 207), rounds.number(1, 300));
        // Nothing is known of the space.
        assert_eq!(rounds.before(2, 200), 200);
    }
}
