//! Which pages looks at accessed bits saw to be there. Between two scans that tells when pages came, where it is not in order of address:
//! what a program fills at random is there everywhere long before it is there altogether.

use std::collections::BTreeMap;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::SpotLook;
use pagewise_trace::Spots;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::clock::Clock;
use crate::looked;
use crate::looks::Bits;
use crate::looks::REGION_SHIFT;
use crate::looks::bits;
use crate::looks::is_set;

const REGION_PAGES: u64 = 1 << REGION_SHIFT;

/// Of each address space what its looks saw, in order of time.
#[derive(Default)]
pub(crate) struct Sightings(BTreeMap<u32, Vec<Sighting>>);

/// What one look saw that was there when it was listed what to look at, and still is.
pub(crate) struct Sighting {
    /// In own time, as that of the look.
    pub(crate) listed: u64,
    looked: u64,
    spots: Spots,
    here: HashMap<u64, Bits, RandomState>,
}

impl Sightings {
    /// Pages have `1 << shift` bytes.
    pub(crate) fn read(trace: &Trace, shift: u32, clock: &Clock) -> Result<Self, TraceError> {
        let mut sightings = Self::default();
        for look in trace.spot_looks()? {
            sightings.add(&look?, shift, clock);
        }
        Ok(sightings)
    }

    fn add(&mut self, look: &SpotLook, shift: u32, clock: &Clock) {
        let (Some(listed_ns), Some(map)) = (look.listed_ns, bits(Some(&look.looked_map))) else {
            return;
        };
        let of_space = self.0.entry(look.space).or_default();
        let looked = clock.own(look.time_ns);
        if of_space.last().is_none_or(|last| last.looked != looked) {
            of_space.push(Sighting {
                listed: clock.own(look.time_ns.saturating_sub(listed_ns)),
                looked,
                spots: Spots::one_in(look.pages_each.into()),
                here: HashMap::default(),
            });
        }
        let Some(sighting) = of_space.last_mut() else {
            return;
        };
        if looked::is_beside(look.address, &look.looked_map) == Some(true) {
            sighting.spots = Spots::beside_one_in(look.pages_each.into());
        }
        let region = look.address >> (shift + REGION_SHIFT);
        sighting.here.insert(region, map);
    }

    /// Those of a space that were listed after `since` and before `now`.
    pub(crate) fn between(&self, space: u32, since: u64, now: u64) -> &[Sighting] {
        let all = self.0.get(&space).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|sighting| sighting.listed <= since);
        let after = all.partition_point(|sighting| sighting.listed < now);
        &all[first..after.max(first)]
    }
}

impl Sighting {
    /// The page that stands for this one, which may be itself.
    pub(crate) fn stands_for(&self, page: u64) -> u64 {
        self.spots.nearest(page)
    }

    /// Whether a page that was looked for was there when it was listed, if it left at that time. What is looked at is made cold, and leaves first: what
    /// is gone by the look was there.
    pub(crate) fn saw(&self, page: u64, left: Option<u64>) -> bool {
        let map = self.here.get(&(page >> REGION_SHIFT));
        let is_here = map.is_some_and(|map| is_set(map, page % REGION_PAGES));
        is_here || left.is_some_and(|left| left <= self.looked)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const REGION_BYTES: u64 = 2 << 20;

    /// Of one address space, what looks saw of its first 4 MiB, that were listed at these times: every fourth spot, if it was there then.
    pub(crate) fn sightings(listed: &[u64], here: impl Fn(u64, u64) -> bool) -> Sightings {
        let spots = Spots::one_in(4);
        let mut sightings = Sightings::default();
        let clock = Clock::new(std::iter::empty());
        for &at_ns in listed {
            for region in [0, 1] {
                let is_here = |at: u64| {
                    let page = region * REGION_PAGES + at;
                    spots.takes(page) && here(page, at_ns)
                };
                let digit = |digit: u64| {
                    let bits = (0..4).map(|bit| u32::from(is_here(digit * 4 + bit)) << bit);
                    char::from_digit(bits.sum(), 16).expect("four bits")
                };
                let look = SpotLook {
                    time_ns: at_ns + 7,
                    interval_ns: 5 - region,
                    listed_ns: Some(7),
                    space: 1,
                    address: region * REGION_BYTES,
                    pages_each: 4,
                    looked_map: (0..REGION_PAGES / 4).map(digit).collect(),
                    accessed_map: None,
                };
                sightings.add(&look, 12, &clock);
            }
        }
        sightings
    }

    #[test]
    fn a_look_tells_what_was_there_when_it_was_listed() {
        let all = sightings(&[10, 30], |page, at_ns| page < 600 || at_ns > 20);
        let times = |since, now| {
            let between = all.between(1, since, now).iter();
            between.map(|look| look.listed).collect::<Vec<_>>()
        };
        assert_eq!(times(9, 31), [10, 30]);
        assert_eq!(times(10, 30), [0; 0]);
        assert_eq!(times(10, 31), [30]);
        assert_eq!(all.between(2, 0, 100).len(), 0, "another address space");
        let both = all.between(1, 0, 100);
        for page in 0..2 * REGION_PAGES {
            let spot = both[0].stands_for(page);
            assert!(Spots::one_in(4).takes(spot));
            assert_eq!(both[0].saw(spot, None), spot < 600);
            assert!(both[1].saw(spot, None));
            assert!(both[0].saw(spot, Some(17)), "gone by the look");
            assert_eq!(both[0].saw(spot, Some(18)), spot < 600);
        }
        assert!(!both[1].saw(3 * REGION_PAGES, None), "nobody looked");
    }
}
