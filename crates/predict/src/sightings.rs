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
use crate::looks::bits;
use crate::looks::is_set;

const REGION_SHIFT: u32 = 9;
const REGION_PAGES: u64 = 1 << REGION_SHIFT;

/// Of each address space what its looks saw, in order of time.
#[derive(Default)]
pub(crate) struct Sightings(BTreeMap<u32, Vec<Sighting>>);

/// What one look saw; times are own times.
pub(crate) struct Sighting {
    /// When bits were cleared, and when it was looked: what it saw was there from then to then.
    pub(crate) cleared: u64,
    pub(crate) looked: u64,
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
        let of_space = self.0.entry(look.space).or_default();
        let looked = clock.own(look.time_ns);
        let cleared = clock.own(look.time_ns.saturating_sub(look.interval_ns));
        if of_space.last().is_none_or(|last| last.looked != looked) {
            of_space.push(Sighting {
                cleared,
                looked,
                spots: Spots::one_in(look.pages_each.into()),
                here: HashMap::default(),
            });
        }
        let (Some(sighting), Some(map)) = (of_space.last_mut(), bits(Some(&look.looked_map)))
        else {
            return;
        };
        // One region is cleared after the other.
        sighting.cleared = sighting.cleared.max(cleared);
        if looked::is_beside(look.address, &look.looked_map) == Some(true) {
            sighting.spots = Spots::beside_one_in(look.pages_each.into());
        }
        let region = look.address >> shift >> REGION_SHIFT;
        sighting.here.insert(region, map);
    }

    /// Those of a space for which bits were cleared after `since` and before `now`.
    pub(crate) fn between(&self, space: u32, since: u64, now: u64) -> &[Sighting] {
        let all = self.0.get(&space).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|sighting| sighting.cleared <= since);
        let after = all.partition_point(|sighting| sighting.cleared < now);
        &all[first..after.max(first)]
    }
}

impl Sighting {
    /// The page that stands for this one, which may be itself.
    pub(crate) fn stands_for(&self, page: u64) -> u64 {
        self.spots.nearest(page)
    }

    /// Whether a page that was looked for was there.
    pub(crate) fn saw(&self, page: u64) -> bool {
        let map = self.here.get(&(page >> REGION_SHIFT));
        map.is_some_and(|map| is_set(map, page % REGION_PAGES))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const REGION_BYTES: u64 = 2 << 20;

    /// Of one address space, what looks saw of its first 4 MiB: every fourth spot, those at `here` in memory.
    pub(crate) fn sightings(looks: &[(u64, u64)], here: impl Fn(u64, u64) -> bool) -> Sightings {
        let spots = Spots::one_in(4);
        let mut sightings = Sightings::default();
        let clock = Clock::new(std::iter::empty());
        for &(cleared, looked) in looks {
            for region in [0, 1] {
                let is_here = |at: u64| {
                    let page = region * REGION_PAGES + at;
                    spots.takes(page) && here(page, cleared)
                };
                let digit = |digit: u64| {
                    let bits = (0..4).map(|bit| u32::from(is_here(digit * 4 + bit)) << bit);
                    char::from_digit(bits.sum(), 16).expect("four bits")
                };
                let look = SpotLook {
                    time_ns: looked,
                    interval_ns: looked - cleared - region,
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
    fn a_look_tells_what_was_there_when_bits_were_cleared() {
        let all = sightings(&[(10, 20), (30, 40)], |page, cleared| {
            page < 600 || cleared > 20
        });
        let between = all.between(1, 11, 31);
        // One region is cleared after the other.
        assert_eq!(between.len(), 0);
        let both = all.between(1, 10, 32);
        let times: Vec<_> = both
            .iter()
            .map(|look| (look.cleared, look.looked))
            .collect();
        assert_eq!(times, [(11, 20), (31, 40)]);
        assert_eq!(all.between(1, 11, 32).len(), 1);
        assert_eq!(all.between(2, 0, 100).len(), 0, "another address space");
        for page in 0..2 * REGION_PAGES {
            let spot = both[0].stands_for(page);
            assert!(Spots::one_in(4).takes(spot));
            assert_eq!(both[0].saw(spot), spot < 600);
            assert!(both[1].saw(spot));
        }
        assert!(!both[1].saw(3 * REGION_PAGES), "nobody looked");
    }
}
