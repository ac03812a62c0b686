//! Looks at accessed bits, page by page, and when a page was first seen accessed after they had been cleared.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::Access;
use pagewise_trace::Glance;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::history::History;
use crate::history::key;

/// Pages of 2 MiB.
const PAGES: usize = 512;

/// Pages are hot that are accessed more often than this in an interval.
const HOT: f64 = 16.0;
/// Of pages that are accessed more often in an interval, nearly all were before the first glance, and how often is not told any more.
const MOST_TOLD: f64 = 1000.0;
/// By how much likelier, as a logarithm, a rate must be than none to be believed.
const SURE: f64 = 3.0;
/// Of pages that are gone through in rounds, so many come at some other time.
const ASTRAY: f64 = 0.05;
/// Of a region's pages, so many are accessed where all are.
const MOSTLY: f64 = 0.9;
/// Looks that tell that a region is gone through in order, and how many of them saw its pages together.
const LEAST_LOOKS: f64 = 4.0;
const MOSTLY_TOGETHER: f64 = 0.5;
/// Lengths of a round that are tried.
const LENGTHS: usize = 128;

/// What a look saw of some neighbouring pages; times are own times.
#[derive(Clone)]
pub(crate) struct Look {
    /// Which 2 MiB.
    pub(crate) region: u64,
    /// When the bits had been cleared, and when it was looked.
    pub(crate) cleared: u64,
    pub(crate) at: u64,
    /// Pages in memory, and for each that was accessed between when and when that was first.
    pub(crate) pages: Vec<(u32, Option<First>)>,
}

/// The first access after the clearing: after one glance, before the next one or the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) after: u64,
    pub(crate) by: u64,
}

impl Look {
    /// How often its pages are accessed; of those for which `is_whole`: in memory all the time. `None`: there are none.
    pub(crate) fn rates(
        &self,
        rounds: &RoundsOfRegions,
        is_whole: impl Fn(u32) -> bool,
    ) -> Option<LookedRates> {
        let interval = self.interval();
        let (mut pages, mut accessed) = (0.0, 0.0);
        let mut waits = Waits::default();
        for &(_, first) in self.pages.iter().filter(|&&(page, _)| is_whole(page)) {
            pages += 1.0;
            if let Some(first) = first {
                accessed += 1.0;
                waits.add(self.wait_of(first), 1.0);
            }
        }
        if pages == 0.0 {
            return None;
        }
        let any = accessed / (waits.sum() + (pages - accessed) * interval).max(1.0);
        let length = rounds.of(self.region);
        let length = length.filter(|&length| accessed >= pages * MOSTLY && waits.fit(length));
        Some(LookedRates {
            any,
            accessed: match length {
                Some(length) => 1.0 / length,
                None => any.max(waits.rate(interval).0),
            },
            in_rounds: length.is_some(),
        })
    }

    /// From clearing to looking, ns.
    fn interval(&self) -> f64 {
        (self.at - self.cleared).max(1) as f64
    }

    /// Between which times after the clearing a page was first accessed, ns.
    fn wait_of(&self, first: First) -> (f64, f64) {
        let since = |at: u64| at.saturating_sub(self.cleared) as f64;
        (since(first.after), since(first.by))
    }
}

/// Of each region of 2 MiB that is gone through in rounds while in memory, how long one takes, ns.
#[derive(Default)]
pub(crate) struct RoundsOfRegions(HashMap<u64, f64, RandomState>);

/// What all looks at a region say together.
#[derive(Default)]
struct Told {
    /// Those that saw it all accessed, and of these, those that saw nearly all pages between the same two glances.
    looks: f64,
    together: f64,
    longest: f64,
    /// Of all pages, and of each look as a whole.
    of_pages: Waits,
    of_looks: Waits,
}

impl Told {
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
        self.together += f64::from(u8::from(waits.0.iter().any(|wait| wait.2 > MOSTLY)));
        self.longest = self.longest.max(look.interval());
        for &(from, to, share) in &waits.0 {
            self.of_looks.add((from, to), share);
            self.of_pages.add((from, to), share * accessed);
        }
    }

    /// Its pages are accessed one soon after the other: each look finds them together, and not all between the same glances.
    fn is_in_order(&self) -> bool {
        let first = |&&(from, ..): &&(f64, f64, f64)| from == 0.0;
        let before_first = self.of_looks.0.iter().filter(first);
        let before_first: f64 = before_first.map(|wait| wait.2).sum();
        let at_times = (1.0 - MOSTLY)..MOSTLY;
        self.looks >= LEAST_LOOKS
            && self.together >= self.looks * MOSTLY_TOGETHER
            && at_times.contains(&(before_first / self.looks))
    }

    /// Rounds, in no order, are likelier than accesses at random.
    fn is_in_no_order(&self) -> bool {
        let round = self.of_pages.round(self.longest);
        round.is_some_and(|(_, likelihood)| likelihood > self.of_pages.rate(self.longest).1 + SURE)
    }

    /// How long its rounds are: as long as most, if that may be.
    fn length(&self, common: Option<f64>) -> Option<f64> {
        let (own, likelihood) = self.of_looks.round(self.longest)?;
        let may_be = |&length: &f64| {
            self.of_looks.likelihood_of_round(length, self.longest) > likelihood - SURE
        };
        Some(common.filter(may_be).unwrap_or(own))
    }
}

impl RoundsOfRegions {
    pub(crate) fn find(
        looks: impl Iterator<Item = Result<Look, TraceError>>,
    ) -> Result<Self, TraceError> {
        let mut regions: HashMap<u64, Told, RandomState> = HashMap::default();
        for look in looks {
            let look = look?;
            regions.entry(look.region).or_default().add(&look);
        }
        regions.retain(|_, told| told.is_in_order() || told.is_in_no_order());
        // Few looks tell little of how long the rounds of one region are, but most are gone through in the same.
        let mut all = Told::default();
        for told in regions.values() {
            all.longest = all.longest.max(told.longest);
            let waits = told.of_looks.0.iter();
            waits.for_each(|&(from, to, looks)| all.of_looks.add((from, to), looks));
        }
        let common = all.of_looks.round(all.longest).map(|(length, _)| length);
        let rounds = regions
            .into_iter()
            .filter_map(|(region, told)| Some((region, told.length(common)?)));
        Ok(Self(rounds.collect()))
    }

    fn of(&self, region: u64) -> Option<f64> {
        self.0.get(&region).copied()
    }
}

/// Of pages that are hot, together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hot {
    /// For how long they were, page-ns.
    pub(crate) time: f64,
    /// How often they were accessed, as far as that is told.
    pub(crate) accesses: f64,
}

impl Hot {
    pub(crate) fn sum(
        looks: impl Iterator<Item = Result<Look, TraceError>>,
        rounds: &RoundsOfRegions,
    ) -> Result<Self, TraceError> {
        let mut hot = Self::default();
        for look in looks {
            let look = look?;
            let interval = look.interval();
            let rates = look.rates(rounds, |_| true);
            let times = rates.map_or(0.0, |rates| rates.accessed * interval);
            if times > HOT {
                let accessed = look.pages.iter().filter(|(_, first)| first.is_some());
                let accessed = accessed.count() as f64;
                hot.time += accessed * interval;
                hot.accesses += accessed * times.min(MOST_TOLD);
            }
        }
        Ok(hot)
    }
}

/// How long pages waited for their first access: between which times, ns, and how many did.
#[derive(Default)]
struct Waits(Vec<(f64, f64, f64)>);

impl Waits {
    fn add(&mut self, (from, to): (f64, f64), pages: f64) {
        let same = |wait: &&mut (f64, f64, f64)| (wait.0, wait.1) == (from, to);
        match self.0.iter_mut().find(same) {
            Some(wait) => wait.2 += pages,
            None => self.0.push((from, to, pages)),
        }
    }

    /// All times together.
    fn sum(&self) -> f64 {
        let waits = self.0.iter();
        waits
            .map(|(from, to, pages)| pages * (from + to) / 2.0)
            .sum()
    }

    /// Whether all may have come within a round of this length, but for a few.
    fn fit(&self, length: f64) -> bool {
        let all: f64 = self.0.iter().map(|wait| wait.2).sum();
        let later = self.0.iter().filter(|wait| wait.0 >= length);
        later.map(|wait| wait.2).sum::<f64>() <= all * (1.0 - MOSTLY)
    }

    /// The rate of the exponentially distributed waits of which only those up to the look are seen that makes these likeliest, per ns, and
    /// the logarithm of how likely they are. The rate is 0 if waits that are evenly spread are nearly as likely.
    fn rate(&self, interval: f64) -> (f64, f64) {
        if self.0.is_empty() {
            return (0.0, 0.0);
        }
        // ln(exp(-x) - exp(-y)), given that it is at most the interval.
        let likelihood = |rate: f64| -> f64 {
            let below = |x: f64| (-(-x).exp_m1()).ln();
            let of = |&(from, to, pages): &(f64, f64, f64)| {
                let length = (to - from).max(1.0);
                pages * (below(rate * length) - rate * from - below(rate * interval))
            };
            self.0.iter().map(of).sum()
        };
        // By logarithms: from evenly spread to all at the first of a thousand parts.
        let (evenly, most) = (1e-3 / interval, 1e4 / interval);
        let (mut low, mut high) = (evenly.ln(), most.ln());
        // To a thousandth.
        for _ in 0..24 {
            let third = (high - low) / 3.0;
            match likelihood((low + third).exp()) < likelihood((high - third).exp()) {
                true => low += third,
                false => high -= third,
            }
        }
        let rate = low.exp();
        match likelihood(rate) > likelihood(evenly) + SURE {
            true => (rate, likelihood(rate)),
            false => (0.0, likelihood(evenly)),
        }
    }

    /// Pages that are accessed once a round, in whatever order, wait for no longer than one takes, and for any time up to that alike: the
    /// length of a round that makes their waits likeliest, ns, and the logarithm of how likely they are. `None`: all came before the
    /// first glance, so that it may be any shorter time.
    fn round(&self, interval: f64) -> Option<(f64, f64)> {
        let ends = self.0.iter().filter(|wait| wait.0 == 0.0);
        let soonest = ends.map(|wait| wait.1).min_by(f64::total_cmp)?;
        if self.0.iter().all(|wait| wait.0 == 0.0) {
            return None;
        }
        let ratio = (interval / soonest).max(1.0).powf(1.0 / LENGTHS as f64);
        let lengths = (0..=LENGTHS).map(|step| soonest * ratio.powi(step as i32));
        lengths
            .map(|length| (length, self.likelihood_of_round(length, interval)))
            .max_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn likelihood_of_round(&self, length: f64, interval: f64) -> f64 {
        let of = |&(from, to, pages): &(f64, f64, f64)| {
            let within = (to.min(length) - from).max(0.0) / length;
            let astray = (to - from).max(1.0) / interval;
            pages * ((1.0 - ASTRAY) * within + ASTRAY * astray).ln()
        };
        self.0.iter().map(of).sum()
    }
}

/// How often pages are accessed, per ns. Of times at random the first comes after exponentially distributed waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LookedRates {
    /// Any of the pages: if all are equal.
    pub(crate) any: f64,
    /// Those that were: the rate that makes likeliest how soon they were. Pages that are never accessed have no part in it.
    pub(crate) accessed: f64,
    /// They are accessed once a round.
    pub(crate) in_rounds: bool,
}

/// The looks of a recording, in order of time, with the glances before them; pages of `1 << page_shift` bytes.
pub(crate) fn read(
    rows: impl Iterator<Item = Result<Access, TraceError>>,
    glances: impl Iterator<Item = Result<Glance, TraceError>>,
    page_shift: u32,
    history: &History,
) -> impl Iterator<Item = Result<Look, TraceError>> {
    see(rows, glances).map(move |seen| {
        let (row, look) = seen?;
        let first = key(row.space, row.address >> page_shift);
        let number = |at: u32| {
            let found = history.keys.binary_search(&(first + u64::from(at)));
            found.ok().map(|page| page as u32)
        };
        let own = |first: First| First {
            after: history.clock.own(first.after),
            by: history.clock.own(first.by),
        };
        let pages = look.pages.into_iter();
        Ok(Look {
            region: first / PAGES as u64,
            cleared: history.clock.own(look.cleared),
            at: history.clock.own(look.at),
            pages: pages
                .filter_map(|(at, first)| Some((number(at)?, first.map(own))))
                .collect(),
        })
    })
}

/// The same beside their rows, with times and pages as they were recorded: pages by their place in the row's 2 MiB.
fn see(
    rows: impl Iterator<Item = Result<Access, TraceError>>,
    glances: impl Iterator<Item = Result<Glance, TraceError>>,
) -> impl Iterator<Item = Result<(Access, Look), TraceError>> {
    let mut glances = glances.peekable();
    let mut round = Round::default();
    rows.map(move |row| {
        let row = row?;
        while let Some(glance) = glances.next_if(|glance| {
            glance
                .as_ref()
                .map_or(true, |glance| glance.time_ns <= row.time_ns)
        }) {
            round.add(glance?);
        }
        let cleared = row.time_ns.saturating_sub(row.interval_ns);
        let glanced = round.take(&row, cleared);
        let all = |count: u16| [if count > 0 { u64::MAX } else { 0 }; PAGES / 64];
        let resident = bits(row.resident_map.as_deref()).unwrap_or(all(row.resident_pages));
        let accessed = bits(row.accessed_map.as_deref()).unwrap_or(all(row.accessed_pages));
        let first_of = |at: u32| {
            let mut after = cleared;
            for (time, seen) in &glanced {
                match is_set(seen, at.into()) {
                    true => return First { after, by: *time },
                    false => after = *time,
                }
            }
            First {
                after,
                by: row.time_ns,
            }
        };
        let pages = (0..PAGES as u32)
            .filter(|&at| is_set(&resident, at.into()))
            .map(|at| (at, is_set(&accessed, at.into()).then(|| first_of(at))))
            .collect();
        let look = Look {
            region: row.address / (PAGES as u64 * 4096),
            cleared,
            at: row.time_ns,
            pages,
        };
        Ok((row, look))
    })
}

/// How often a recorded program looks up pages: those that are told by their accessed bits, so those that its TLB had not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookupRate {
    /// All lookups of base pages in a ns of the time that was looked at.
    pub per_ns: f64,
    /// Whether some pages were accessed so often that it may be more.
    pub at_least: bool,
}

/// From how soon pages were accessed after their bits had been cleared. `None`: nothing was looked at, or not in between.
///
/// # Errors
/// If the recording cannot be read.
pub fn lookup_rate(trace: &Trace) -> Result<Option<LookupRate>, TraceError> {
    let mut sum = LookupSum::default();
    if trace.glances()?.next().is_none() {
        return Ok(None);
    }
    for seen in see(trace.accesses()?, trace.glances()?) {
        let (row, look) = seen?;
        // Of a huge page there is one bit.
        if !row.huge {
            sum.add(&look);
        }
    }
    Ok(sum.rate())
}

#[derive(Default)]
struct LookupSum {
    lookups: f64,
    time: f64,
    /// When it was looked last, and for how long: regions of one look have the same time.
    last: Option<(u64, f64)>,
    at_least: bool,
}

impl LookupSum {
    fn add(&mut self, look: &Look) {
        let interval = (look.at - look.cleared).max(1) as f64;
        let last = self.last.unwrap_or((look.at, 0.0));
        let of_this = if last.0 == look.at { last.1 } else { 0.0 };
        self.time += (interval - of_this).max(0.0);
        self.last = Some((look.at, interval.max(of_this)));
        let accessed = look.pages.iter().filter(|(_, first)| first.is_some());
        let Some(rates) = look.rates(&RoundsOfRegions::default(), |_| true) else {
            return;
        };
        // Where no rate is believed, each of them was accessed once.
        let most = MOST_TOLD / interval;
        let rate = rates.accessed.max(1.0 / interval);
        self.at_least |= rate > most;
        self.lookups += accessed.count() as f64 * rate.min(most) * interval;
    }

    fn rate(&self) -> Option<LookupRate> {
        (self.time > 0.0 && self.lookups > 0.0).then(|| LookupRate {
            per_ns: self.lookups / self.time,
            at_least: self.at_least,
        })
    }
}

type Bits = [u64; PAGES / 64];

/// Glances since the last look but one.
#[derive(Default)]
struct Round {
    look: u64,
    /// Of each address space and region, when something new was seen, and which pages.
    seen: HashMap<(u32, u64), Vec<(u64, Bits)>, RandomState>,
    /// Of each address space, when it was glanced.
    times: HashMap<u32, Vec<u64>, RandomState>,
}

impl Round {
    fn add(&mut self, glance: Glance) {
        let times = self.times.entry(glance.space).or_default();
        if times.last() != Some(&glance.time_ns) {
            times.push(glance.time_ns);
        }
        let map = bits(glance.map.as_deref()).unwrap_or([u64::MAX; PAGES / 64]);
        let region = self.seen.entry((glance.space, glance.address));
        region.or_default().push((glance.time_ns, map));
    }

    /// The glances at a look's region since its bits were cleared: when, and what was new.
    fn take(&mut self, row: &Access, cleared: u64) -> Vec<(u64, Bits)> {
        if row.time_ns != self.look {
            let before = std::mem::replace(&mut self.look, row.time_ns);
            // Regions that were not there any more have no look.
            self.seen
                .retain(|_, seen| seen.last().is_some_and(|&(time, _)| time > before));
            for times in self.times.values_mut() {
                times.retain(|&time| time > before);
            }
        }
        let seen = self.seen.remove(&(row.space, row.address));
        let mut seen = seen.unwrap_or_default().into_iter().peekable();
        let times = self.times.get(&row.space).into_iter().flatten();
        times
            .filter(|&&time| time > cleared)
            .map(|&time| {
                while seen.next_if(|&(earlier, _)| earlier < time).is_some() {}
                let new = seen.next_if(|&(other, _)| other == time);
                (time, new.map_or([0; PAGES / 64], |(_, map)| map))
            })
            .collect()
    }
}

fn is_set(bits: &Bits, at: u64) -> bool {
    bits[at as usize / 64] >> (at % 64) & 1 != 0
}

/// Of a map: hexadecimal digits, the first digit's lowest bit the first page.
fn bits(map: Option<&str>) -> Option<Bits> {
    let digits = map?.bytes().map(|digit| (digit as char).to_digit(16));
    let mut bits = [0; PAGES / 64];
    for (at, digit) in digits.take(PAGES / 4).enumerate() {
        bits[at / 16] |= u64::from(digit.unwrap_or(0)) << (at % 16 * 4);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::history::Known;
    use crate::history::What;

    fn glance(time_ns: u64, address: u64, digit: char) -> Result<Glance, TraceError> {
        Ok(Glance {
            time_ns,
            interval_ns: time_ns - 100,
            space: 0,
            address,
            pages: 1,
            map: Some(format!("{digit}{}", "0".repeat(127))),
        })
    }

    fn look(time_ns: u64, interval_ns: u64, address: u64) -> Result<Access, TraceError> {
        Ok(Access {
            time_ns,
            interval_ns,
            space: 0,
            address,
            resident_pages: 3,
            accessed_pages: 3,
            dirty_pages: 0,
            huge: false,
            swapped_pages: 0,
            resident_map: Some(format!("7{}", "0".repeat(127))),
            accessed_map: None,
        })
    }

    #[test]
    fn the_rate_is_found_though_long_waits_are_not_seen() {
        // Of exponential waits with a mean of 1,000, those of up to 500, and as many pages that are not accessed in that time.
        let waits = (0..100_000).map(|number| -1000.0 * (f64::from(number) / 1e5).ln());
        let seen = waits.filter(|&wait| wait < 500.0).map(|wait| wait as u64);
        let first = |wait| First {
            after: 100 + wait,
            by: 100 + wait,
        };
        let pages = seen.map(|wait| (0, Some(first(wait))));
        let all = Look {
            region: 0,
            cleared: 100,
            at: 600,
            pages: pages.chain((0..100_000).map(|_| (0, None))).collect(),
        };
        let rate = all.rates(&none_known(), |_| true).unwrap().accessed;
        assert!((rate - 1e-3).abs() < 5e-5, "{rate}");
        assert_eq!(all.rates(&none_known(), |_| false), None);
        let none = Look {
            pages: vec![(0, None)],
            ..all
        };
        let rates = none.rates(&none_known(), |_| true).unwrap();
        assert_eq!((rates.any, rates.accessed), (0.0, 0.0));
    }

    const MS: f64 = 1e6;

    fn none_known() -> RoundsOfRegions {
        RoundsOfRegions::default()
    }

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
        let rounds = RoundsOfRegions::find(looks.iter().cloned().map(Ok)).expect("nothing is read");
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
    fn a_first_access_lies_between_two_glances() {
        let known: Known = (0..4)
            .map(|page| (key(0, page), vec![(0, What::Touched)]))
            .collect();
        let history = History::assemble(known, Clock::new(std::iter::empty()), 1000, 0);
        // Another region was glanced at 150 only; the next round has a glance of its own.
        let glances = [
            glance(110, 0, '1'),
            glance(150, 2 << 20, '1'),
            glance(200, 0, '2'),
            glance(510, 0, '4'),
        ];
        let looks = [look(400, 300, 0), look(900, 400, 0)];
        let looks: Vec<Look> = read(looks.into_iter(), glances.into_iter(), 12, &history)
            .map(Result::unwrap)
            .collect();
        let first = |after, by| Some(First { after, by });
        let expected = [
            (0, first(100, 110)),
            (1, first(150, 200)),
            (2, first(200, 400)),
        ];
        assert_eq!(looks[0].pages, expected);
        let expected = [
            (0, first(510, 900)),
            (1, first(510, 900)),
            (2, first(500, 510)),
        ];
        assert_eq!(looks[1].pages, expected);
    }

    #[test]
    fn lookups_are_pages_times_rates() {
        // 100 pages, each accessed at 20 times an interval of 1,000,000 ns, seen at a 256th and a 16th of it.
        let interval = 1_000_000_u64;
        let share = |at: u64| 1.0 - (-20.0 * at as f64 / interval as f64).exp();
        let ends = [interval / 256, interval / 16, interval];
        let first_of = |page: u32| {
            let place = (f64::from(page) + 0.5) / 100.0;
            let at = ends.iter().position(|&end| place < share(end)).unwrap_or(2);
            move |cleared: u64| First {
                after: cleared + if at == 0 { 0 } else { ends[at - 1] },
                by: cleared + ends[at],
            }
        };
        let look = |at: u64| Look {
            region: 0,
            cleared: at,
            at: at + interval,
            pages: (0..100)
                .map(|page| (page, Some(first_of(page)(at))))
                .chain((100..200).map(|page| (page, None)))
                .collect(),
        };
        let mut sum = LookupSum::default();
        // Two regions of one look, and a look after: twice 2,000, then 2,000 lookups in two intervals.
        for at in [0, 0, 2 * interval] {
            sum.add(&look(at));
        }
        let rate = sum.rate().expect("it was looked at");
        let expected = 3.0 * 2000.0 / (2.0 * interval as f64);
        assert!(
            (rate.per_ns / expected - 1.0).abs() < 0.1,
            "{rate:?} {expected}"
        );
        assert!(!rate.at_least);
        assert_eq!(LookupSum::default().rate(), None);
    }

    #[test]
    fn pages_that_are_accessed_all_the_time_are_at_least_so_often() {
        let mut sum = LookupSum::default();
        let pages = (0..512).map(|page| (page, Some(First { after: 0, by: 4000 })));
        sum.add(&Look {
            region: 0,
            cleared: 0,
            at: 1_024_000,
            pages: pages.collect(),
        });
        let rate = sum.rate().expect("it was looked at");
        assert!(rate.at_least, "{rate:?}");
        assert!((rate.per_ns - 512.0 * MOST_TOLD / 1_024_000.0).abs() < 1e-6);
    }
}
