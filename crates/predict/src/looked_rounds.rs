//! What is gone through in rounds while it is in memory, in order of addresses or in none: all looks at a region together tell, as one
//! that is gone through in order is accessed all at once, wherever the round is just then.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::TraceError;

use crate::looks::Look;
use crate::looks::MOSTLY;
use crate::waits::SURE;
use crate::waits::Waits;

/// Looks that tell that a region is gone through in order, and how many of them saw its pages together.
const LEAST_LOOKS: f64 = 4.0;
const MOSTLY_TOGETHER: f64 = 0.5;

/// So many regions at least tell how long rounds take at the time of one look.
const LEAST_REGIONS: f64 = 8.0;

/// Of each region of 2 MiB that is gone through in rounds while in memory, how long one takes.
#[derive(Default)]
pub(crate) struct RoundsOfRegions {
    regions: HashMap<u64, Length, RandomState>,
    /// How long those take that most regions are gone through in, at the time of each look, ns.
    common: HashMap<u64, f64, RandomState>,
}

/// How long rounds take by all looks together.
#[derive(Clone, Copy, Debug)]
struct Length {
    ns: f64,
    /// As long as those of most regions.
    is_common: bool,
}

/// What all looks at a region say together.
#[derive(Default)]
struct Region {
    /// Those that saw it all accessed, and of these, those that saw nearly all pages between the same two glances.
    looks: f64,
    together: f64,
    longest: f64,
    /// By how much likelier, as a natural logarithm, rounds are than accesses at random: of each look, whose rounds or rates are its own.
    evidence: f64,
    /// Of each look as a whole.
    of_looks: Waits,
}

impl Region {
    fn add(&mut self, look: &Look) {
        let firsts = look.pages.iter().filter_map(|&(_, first)| first);
        let accessed = firsts.clone().count() as f64;
        // Of a region that is hardly used in this part of the run it tells nothing.
        if accessed == 0.0 || accessed < look.pages.len() as f64 * MOSTLY {
            return;
        }
        let mut waits = Waits::default();
        firsts.for_each(|first| waits.add(look.wait_of(first), 1.0 / accessed));
        self.looks += 1.0;
        self.together += f64::from(u8::from(waits.iter().any(|wait| wait.pages > MOSTLY)));
        self.longest = self.longest.max(look.interval());
        for wait in waits.iter() {
            self.of_looks.add((wait.from, wait.to), wait.pages);
        }
        let of_pages = waits.times(accessed);
        let round = of_pages.round(look.interval());
        self.evidence += round.map_or(0.0, |(_, likelihood)| {
            likelihood - of_pages.rate(look.interval()).1
        });
    }

    /// Its pages are accessed one soon after the other: each look finds them together, and not all between the same glances.
    fn is_in_order(&self) -> bool {
        let most = self.of_looks.most_at_a_time();
        self.looks >= LEAST_LOOKS
            && self.together >= self.looks * MOSTLY_TOGETHER
            && most < self.looks * MOSTLY
    }

    /// Rounds, in no order, are likelier than accesses at random.
    fn is_in_no_order(&self) -> bool {
        self.evidence > SURE
    }

    /// How long its rounds are: as long as most, if that may be.
    fn length(&self, common: Option<f64>) -> Option<Length> {
        let (own, likelihood) = self.of_looks.round(self.longest)?;
        let may_be = |&length: &f64| {
            self.of_looks.likelihood_of_round(length, self.longest) > likelihood - SURE
        };
        let common = common.filter(may_be);
        Some(Length {
            ns: common.unwrap_or(own),
            is_common: common.is_some(),
        })
    }
}

impl RoundsOfRegions {
    /// `looks`: all, from the first on, each time it is called.
    pub(crate) fn find<L, E>(looks: impl Fn() -> Result<L, E>) -> Result<Self, E>
    where
        L: Iterator<Item = Result<Look, TraceError>>,
        E: From<TraceError>,
    {
        let mut regions: HashMap<u64, Region, RandomState> = HashMap::default();
        for look in looks()? {
            let look = look?;
            match regions.get_mut(&look.region) {
                Some(region) => region.add(&look),
                // While it is filled, it is not gone through as later.
                None => _ = regions.insert(look.region, Region::default()),
            }
        }
        regions.retain(|_, region| region.is_in_order() || region.is_in_no_order());
        // Few looks tell little of how long the rounds of one region are, but most are gone through in the same.
        let mut all = Region::default();
        for region in regions.values() {
            all.longest = all.longest.max(region.longest);
            let waits = region.of_looks.iter();
            waits.for_each(|wait| all.of_looks.add((wait.from, wait.to), wait.pages));
        }
        let common = all.of_looks.round(all.longest).map(|(length, _)| length);
        let rounds = regions
            .into_iter()
            .filter_map(|(number, region)| Some((number, region.length(common)?)));
        let regions = rounds.collect();
        let common = common_lengths(&regions, looks()?)?;
        Ok(Self { regions, common })
    }

    /// How long a round of this region takes at the time of the look at `at`, ns; `None`: it is not gone through in rounds, as far as is
    /// known.
    pub(crate) fn of(&self, region: u64, at: u64) -> Option<f64> {
        let length = self.regions.get(&region)?;
        let now = self.common.get(&at).filter(|_| length.is_common);
        Some(now.copied().unwrap_or(length.ns))
    }
}

/// A program may take longer for a round later on, as what it does changes: what the regions that most are gone through with say together,
/// look by look.
fn common_lengths(
    regions: &HashMap<u64, Length, RandomState>,
    looks: impl Iterator<Item = Result<Look, TraceError>>,
) -> Result<HashMap<u64, f64, RandomState>, TraceError> {
    let mut of_looks: HashMap<u64, Region, RandomState> = HashMap::default();
    for look in looks {
        let look = look?;
        if regions
            .get(&look.region)
            .is_some_and(|length| length.is_common)
        {
            of_looks.entry(look.at).or_default().add(&look);
        }
    }
    let told = of_looks
        .into_iter()
        .filter(|(_, all)| all.looks >= LEAST_REGIONS);
    let lengths = told.filter_map(|(at, all)| Some((at, all.of_looks.round(all.longest)?.0)));
    Ok(lengths.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::First;

    const MS: f64 = 1e6;

    /// What a look of 600 ms with glances at 18 and 45 sees of waits, ns.
    fn seen_of(waits: impl Iterator<Item = f64>) -> Look {
        let ends = [0.0, 18.0 * MS, 45.0 * MS, 600.0 * MS];
        let first = |wait: f64| {
            let after = ends.iter().rposition(|&end| end <= wait)?;
            Some(First {
                after: ends[after] as u64,
                by: *ends.get(after + 1)? as u64,
            })
        };
        Look {
            region: 7,
            cleared: 0,
            at: ends[3] as u64,
            pages: waits.map(|wait| (0, first(wait))).collect(),
        }
    }

    /// What ten such looks tell of their region: whether it is gone through in rounds, and how long pages wait for each other on average, or
    /// how long a round is, ms.
    fn told_by(looks: [Look; 10]) -> (bool, f64) {
        let all = || Ok::<_, TraceError>(looks.iter().cloned().map(Ok));
        let rounds = RoundsOfRegions::find(all).expect("nothing is read");
        let rates = looks[0].rates(&rounds, |_| true).expect("there are pages");
        (rates.in_rounds, 1.0 / rates.accessed / MS)
    }

    #[test]
    fn rounds_are_told_from_accesses_at_random() {
        let places = || (0..512).map(|number| (f64::from(number) + 0.5) / 512.0);
        // In no order, all within 28 ms but for a few pages of something else; and in order, so that each look finds the sweep elsewhere.
        let permuted = [(); 10].map(|()| {
            seen_of(places().map(|place| match place < 0.005 {
                true => 300.0 * MS,
                false => place * 28.0 * MS,
            }))
        });
        let mut place = 0.0;
        let ordered = [(); 10].map(|()| {
            place = (place + 0.382) % 1.0;
            let wait = place * 28.0 * MS;
            seen_of(places().map(move |place| wait + place * MS / 10.0))
        });
        for looks in [permuted, ordered] {
            let (in_rounds, length) = told_by(looks);
            assert!(in_rounds && (length - 28.0).abs() < 4.0, "{length}");
        }
        let random = [(); 10].map(|()| seen_of(places().map(|place| -28.0 * MS * place.ln())));
        let (in_rounds, mean) = told_by(random);
        assert!(!in_rounds && (mean - 28.0).abs() < 2.0, "{mean}");
    }

    #[test]
    fn rounds_that_take_longer_later_are_told_by_each_look() {
        let places = || (0..512).map(|number| (f64::from(number) + 0.5) / 512.0);
        // 20 regions gone through one after the other, in 22 ms in the first five looks and in 40 ms in the others.
        let looks: Vec<Look> = (0..10_u32)
            .flat_map(|number| {
                let length = if number < 5 { 22.0 } else { 40.0 } * MS;
                (0..20_u32).map(move |region| {
                    let place = (f64::from(number) * 0.382 + f64::from(region) / 20.0) % 1.0;
                    let wait = place * length;
                    let mut look = seen_of(places().map(move |within| wait + within * MS / 10.0));
                    (look.region, look.at) = (region.into(), look.at + u64::from(number));
                    look
                })
            })
            .collect();
        let all = || Ok::<_, TraceError>(looks.iter().cloned().map(Ok));
        let rounds = RoundsOfRegions::find(all).expect("nothing is read");
        for (look, expected) in [(&looks[3], 22.0), (&looks[150], 40.0)] {
            let length = rounds.of(look.region, look.at).expect("in rounds") / MS;
            assert!(
                (length / expected - 1.0).abs() < 0.1,
                "{length} of {expected}"
            );
        }
    }
}
