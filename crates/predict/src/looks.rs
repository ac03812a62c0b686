//! Looks at accessed bits, page by page, and when a page was first seen accessed after they had been cleared.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::Access;
use pagewise_trace::Glance;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::history::History;
use crate::looked_rounds::RoundsOfRegions;
use crate::waits::Waits;

/// Pages of a region, which are looked at and told of together: 2 MiB, as an entry of the middle level maps.
pub(crate) const REGION_SHIFT: u32 = 9;
const PAGES: usize = 1 << REGION_SHIFT;

/// Of a region's pages, so many are accessed where all are.
pub(crate) const MOSTLY: f64 = 0.9;
/// So large a part of a region's pages tells for all.
const LEAST_WHOLE: f64 = 1.0 / 16.0;
/// Pages are hot that are accessed more often than this in an interval.
const HOT: f64 = 16.0;
/// Of pages that are accessed more often in an interval, nearly all were before the first glance, and how often is not told any more.
const MOST_TOLD: f64 = 1000.0;

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
    /// How often its pages are accessed; of those for which `is_whole`: in memory all the time. `None`: too few are, so that they may be what
    /// came just when bits were cleared.
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
        if pages == 0.0 || pages < self.pages.len() as f64 * LEAST_WHOLE {
            return None;
        }
        let any = accessed / (waits.sum() + (pages - accessed) * interval).max(1.0);
        let length = rounds.of(self.region, self.at);
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
    pub(crate) fn interval(&self) -> f64 {
        (self.at - self.cleared).max(1) as f64
    }

    /// Between which times after the clearing a page was first accessed, ns.
    pub(crate) fn wait_of(&self, first: First) -> (f64, f64) {
        let since = |at: u64| at.saturating_sub(self.cleared) as f64;
        let (from, to) = (since(first.after), since(first.by));
        // Own time stands still in a wait for a page.
        (from, to.max(from + 1.0))
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

/// The looks of a recording, in order of time, with the glances before them.
pub(crate) fn read(
    rows: impl Iterator<Item = Result<Access, TraceError>>,
    glances: impl Iterator<Item = Result<Glance, TraceError>>,
    history: &History,
) -> impl Iterator<Item = Result<Look, TraceError>> {
    see(rows, glances).map(move |seen| {
        let (row, look) = seen?;
        let first = history.key_at(row.space, row.address);
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

pub(crate) type Bits = [u64; PAGES / 64];

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

/// Whether the page of this number is among these.
pub(crate) fn is_set(bits: &Bits, at: u64) -> bool {
    bits[at as usize / 64] >> (at % 64) & 1 != 0
}

/// Of a map: hexadecimal digits, the first digit's lowest bit the first page.
pub(crate) fn bits(map: Option<&str>) -> Option<Bits> {
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
    use crate::history::key;

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

    fn none_known() -> RoundsOfRegions {
        RoundsOfRegions::default()
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
        let looks: Vec<Look> = read(looks.into_iter(), glances.into_iter(), &history)
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
