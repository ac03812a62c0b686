//! How often pages are accessed, from those of them that were not in memory: while a page is away, no access is missed.
//!
//! Of pages of one 2 MiB region in one part of the run it is the number of faults (those of sweeps apart) over the time
//! they were away, whatever was in memory meanwhile. Where nothing was away it is told from looks at accessed bits.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::Access;
use pagewise_trace::TraceError;

use crate::doubts::Doubts;
use crate::history::History;
use crate::history::What;
use crate::looks::REGION_SHIFT;
use crate::looks::bits;
use crate::looks::is_set;
use crate::periods;
use crate::periods::Rounds;
use crate::strings::Step;
use crate::sweeps::Sweeps;

/// Parts of the run.
const WINDOWS: u64 = 24;

/// What was seen of a region in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    faults: f64,
    /// Page-nanoseconds away.
    away: f64,
    /// Of pages in memory at looks, and of those accessed, times the looks' length.
    looked: f64,
    accessed: f64,
    interval: f64,
}

pub(crate) struct Rates {
    begin: u64,
    window: u64,
    /// Of each page its region, and of each region how many pages it has.
    regions: Vec<u32>,
    pages: Vec<u32>,
    seen: Vec<[Seen; WINDOWS as usize]>,
    whole: Vec<Seen>,
    /// Since when pages come back, and by looks before that what was seen of each region, and of all together: while memory is filled it is used otherwise.
    filled: u64,
    early: Vec<Seen>,
    all_early: Seen,
    /// Of each region, if it is gone through in rounds.
    rounds: Vec<Option<Rounds>>,
}

impl Rates {
    /// `looks`: those at accessed bits.
    pub(crate) fn new(
        history: &History,
        sweeps: &Sweeps,
        known: &[Step],
        looks: impl Iterator<Item = Result<Access, TraceError>>,
    ) -> Result<Rates, TraceError> {
        let begin = history.moments.first().map_or(0, |moment| moment.at);
        let window = (history.end - begin) / WINDOWS + 1;
        let mut numbers: HashMap<u64, u32, RandomState> = HashMap::default();
        let mut regions = Vec::new();
        for key in &history.keys {
            let next = numbers.len() as u32;
            regions.push(*numbers.entry(key >> REGION_SHIFT).or_insert(next));
        }
        let mut pages = vec![0; numbers.len()];
        for &region in &regions {
            pages[region as usize] += 1;
        }
        let rounds = periods::find(history, sweeps, &regions);
        let mut rates = Rates {
            begin,
            window,
            regions,
            pages,
            rounds,
            seen: vec![[Seen::default(); WINDOWS as usize]; numbers.len()],
            whole: Vec::new(),
            filled: history.filled(),
            early: vec![Seen::default(); numbers.len()],
            all_early: Seen::default(),
        };
        rates.count_faults(history, sweeps);
        rates.count_looks(looks, history, known)?;
        rates.sum();
        Ok(rates)
    }

    fn window_of(&self, at: u64) -> usize {
        (at.saturating_sub(self.begin) / self.window).min(WINDOWS - 1) as usize
    }

    fn count_faults(&mut self, history: &History, sweeps: &Sweeps) {
        const HERE: u64 = u64::MAX;
        let mut away_since = vec![HERE; history.keys.len()];
        for (moment, swept) in history.moments.iter().zip(&sweeps.swept) {
            let page = moment.page as usize;
            let since = std::mem::replace(&mut away_since[page], HERE);
            if since != HERE {
                self.count_away(page, since, moment.at);
            }
            match moment.what {
                What::Evicted => away_since[page] = moment.at,
                What::Faulted if !swept => {
                    let window = self.window_of(moment.at);
                    self.seen[self.regions[page] as usize][window].faults += 1.0;
                }
                _ => {}
            }
        }
        for (page, &since) in away_since.iter().enumerate() {
            if since != HERE {
                self.count_away(page, since, history.end);
            }
        }
    }

    fn count_away(&mut self, page: usize, since: u64, until: u64) {
        let (first, last) = (self.window_of(since), self.window_of(until));
        for window in first..=last {
            let begin = self.begin + window as u64 * self.window;
            let from = since.max(begin);
            let to = until.min(begin + self.window);
            self.seen[self.regions[page] as usize][window].away += to.saturating_sub(from) as f64;
        }
    }

    /// `steps`: the accesses that are known, in order of time. What they explain is no access at random.
    fn count_looks(
        &mut self,
        looks: impl Iterator<Item = Result<Access, TraceError>>,
        history: &History,
        steps: &[Step],
    ) -> Result<(), TraceError> {
        let mut last = vec![0; history.keys.len()];
        let mut steps = steps.iter().peekable();
        let mut doubts = Doubts::about(&self.rounds);
        for look in looks {
            let look = look?;
            let at = history.clock.own(look.time_ns);
            let since = history
                .clock
                .own(look.time_ns.saturating_sub(look.interval_ns));
            while let Some(step) = steps.next_if(|step| step.at <= at) {
                last[step.page as usize] = step.at + 1;
            }
            let first_key = history.key_at(look.space, look.address);
            let first = history.keys.partition_point(|&key| key < first_key);
            // Of some regions no page has ever come or left.
            let is_of_it = |&key: &u64| key >> REGION_SHIFT == first_key >> REGION_SHIFT;
            if !history.keys.get(first).is_some_and(is_of_it) {
                continue;
            }
            let region = self.regions[first];
            let pages = self.regions[first..]
                .iter()
                .take_while(|&&other| other == region)
                .count();
            let map = bits(look.resident_map.as_deref());
            let is_looked_at = |page: usize| match &map {
                Some(map) => is_set(map, history.keys[page] - first_key),
                None => look.resident_pages > 0,
            };
            let known = (first..first + pages)
                .filter(|&page| last[page] > since && is_looked_at(page))
                .count() as f64;
            let others = f64::from(look.resident_pages) - known;
            let accessed = f64::from(look.accessed_pages) - known;
            let window = self.window_of(at);
            let is_early = since < self.filled;
            let seen = match is_early {
                true => &mut self.early[region as usize],
                false => &mut self.seen[region as usize][window],
            };
            if others > 0.0 {
                seen.looked += others;
                seen.accessed += accessed.max(0.0);
                seen.interval += others * (at - since) as f64;
            }
            if is_early {
                continue;
            }
            doubts.look(region as usize, since..at, (accessed.max(0.0), others));
        }
        for region in doubts.confirmed() {
            self.rounds[region] = None;
        }
        Ok(())
    }

    fn sum(&mut self) {
        for windows in &self.seen {
            let mut whole = Seen::default();
            for seen in windows {
                whole.add(seen);
            }
            self.whole.push(whole);
        }
        for seen in &self.early {
            self.all_early.add(seen);
        }
    }

    /// The rounds in each of which `page` is accessed once; `None`: its region is not gone through in rounds.
    pub(crate) fn rounds(&self, page: u32) -> Option<Rounds> {
        self.rounds[self.regions[page as usize] as usize]
    }

    /// Accesses to `page` at own time `at`, for each ns, by those to pages around it that were away. `None`: too few were.
    pub(crate) fn by_faults(&self, page: u32, at: u64) -> Option<f64> {
        let region = self.regions[page as usize] as usize;
        let seen = &self.seen[region][self.window_of(at)];
        let tells = self.tells_by_faults(region, seen, 1);
        tells.then(|| seen.faults / seen.away)
    }

    /// Whether so many of a region's pages were away in some windows that they tell of those in memory. A few that are never used tell of themselves.
    fn tells_by_faults(&self, region: usize, seen: &Seen, windows: u64) -> bool {
        let some = f64::from(self.pages[region]) * LEAST_AWAY_SHARE * windows as f64;
        seen.away >= self.window as f64 * LEAST_AWAY.max(some)
    }

    /// How often a region's pages are accessed while memory is filled, per ns: by looks at them then, or at all others. `None`: it is filled, or nobody looked.
    fn early_rate(&self, region: usize, at: u64) -> Option<f64> {
        if at >= self.filled {
            return None;
        }
        let mut looks = [&self.early[region], &self.all_early].into_iter();
        let enough = looks.find(|early| early.looked >= ENOUGH_LOOKED);
        enough.map(Seen::looked_rate)
    }

    /// Accesses to `page` at own time `at`, for each ns, 0 if no access was seen; and until when that holds.
    pub(crate) fn rate(&self, page: u32, at: u64) -> (f64, u64) {
        let window = self.window_of(at);
        let region = self.regions[page as usize] as usize;
        let until = self.begin + (window as u64 + 1) * self.window;
        let seen = &self.seen[region][window];
        let whole = &self.whole[region];
        let was_away = |seen: &Seen| seen.away >= self.window as f64 * LEAST_AWAY;
        let always = whole.always_accessed() && !was_away(whole);
        let rate = if self.tells_by_faults(region, seen, 1) {
            seen.faults / seen.away
        } else if let Some(early) = self.early_rate(region, at) {
            return (early, until.min(self.filled));
        } else if seen.looked >= ENOUGH_LOOKED && !always {
            seen.looked_rate()
        } else if always {
            f64::INFINITY
        } else if self.tells_by_faults(region, whole, WINDOWS) {
            whole.faults / whole.away
        } else if whole.looked >= FEW_LOOKED {
            whole.looked_rate()
        } else if was_away(seen) {
            seen.faults / seen.away
        } else if was_away(whole) {
            whole.faults / whole.away
        } else {
            0.0
        };
        (rate, until)
    }
}

/// Looks at a page that tell anything of a part of the run,
const ENOUGH_LOOKED: f64 = 64.0;
/// and of all of it, where nothing else does: else pages that are always in memory, of which there are but a few looks, would seem not to be used.
const FEW_LOOKED: f64 = 8.0;
/// Looks at a page that tell that it is accessed all the time.
const PAGES_TO_TELL: f64 = 1024.0;
/// Pages that were away for all of a window,
const LEAST_AWAY: f64 = 4.0;
/// and as a share of a region's pages, to tell of the others.
const LEAST_AWAY_SHARE: f64 = 1.0 / 16.0;

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.faults += other.faults;
        self.away += other.away;
        self.looked += other.looked;
        self.accessed += other.accessed;
        self.interval += other.interval;
    }

    /// Whether each page was accessed whenever anyone looked.
    fn always_accessed(&self) -> bool {
        self.looked >= PAGES_TO_TELL && self.accessed == self.looked
    }

    /// A page that is accessed at random times is seen to be with a probability of 1 - exp(-rate x interval).
    fn looked_rate(&self) -> f64 {
        let untouched = (1.0 - self.accessed / self.looked).max(0.5 / self.looked);
        // Of 1 it is 0, not -0: divided by that, a wait would be over at once.
        untouched.recip().ln() / (self.interval / self.looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_pages_that_no_look_saw_accessed_a_wait_never_ends() {
        let mut seen = Seen {
            looked: 512.0,
            interval: 512.0 * 1e6,
            ..Seen::default()
        };
        assert_eq!(1.0 / seen.looked_rate(), f64::INFINITY);
        seen.accessed = 256.0;
        assert!((seen.looked_rate() - 2f64.ln() / 1e6).abs() < 1e-12);
    }

    /// Of one region of 512 pages, of which as many as given were away all the time; each came back once in each of the windows. Looks
    /// saw so many pages in memory, all accessed.
    fn rates(away: f64, looked: f64) -> Rates {
        const WINDOW: u64 = 1000;
        let seen = Seen {
            faults: away,
            away: away * WINDOW as f64,
            ..Seen::default()
        };
        let mut windows = [seen; WINDOWS as usize];
        windows[5] = Seen {
            looked,
            accessed: looked,
            interval: looked * 100.0,
            ..seen
        };
        let mut rates = Rates {
            begin: 0,
            window: WINDOW,
            regions: vec![0; 512],
            pages: vec![512],
            seen: vec![windows],
            whole: Vec::new(),
            filled: 0,
            early: vec![Seen::default()],
            all_early: Seen::default(),
            rounds: vec![None],
        };
        rates.sum();
        rates
    }

    #[test]
    fn a_few_pages_that_are_away_tell_nothing_of_those_that_stay() {
        let many = rates(64.0, 40.0);
        assert_eq!(many.rate(0, 0), (0.001, 1000));
        assert_eq!(many.by_faults(0, 0), Some(0.001));
        // An eightieth was not seen accessed, at most, in 100 ns.
        let few = rates(10.0, 40.0);
        assert_eq!(few.rate(0, 0), (80f64.ln() / 100.0, 1000));
        assert_eq!(few.by_faults(0, 0), None);
        // Where nobody looked they are all that is known.
        assert_eq!(rates(10.0, 0.0).rate(0, 0), (0.001, 1000));
        assert_eq!(rates(0.0, 0.0).rate(0, 0), (0.0, 1000));
    }

    #[test]
    fn while_memory_is_filled_looks_then_tell() {
        let early = |looked, accessed| Seen {
            looked,
            accessed,
            interval: looked * 100.0,
            ..Seen::default()
        };
        // Few were away: looks at filled memory tell of it.
        let mut rates = rates(10.0, 40.0);
        let later = 80f64.ln() / 100.0;
        (rates.filled, rates.all_early) = (1500, early(512.0, 0.0));
        assert_eq!(rates.rate(0, 0), (0.0, 1000));
        assert_eq!(rates.rate(0, 1200), (0.0, 1500), "until it is filled");
        assert_eq!(rates.rate(0, 1500), (later, 2000));
        rates.early[0] = early(64.0, 32.0);
        assert_eq!(rates.rate(0, 0), (2f64.ln() / 100.0, 1000), "its own");
        (rates.early[0], rates.all_early) = (Seen::default(), Seen::default());
        assert_eq!(rates.rate(0, 0), (later, 1000), "nobody looked");
    }
}
