//! Accesses to pages while they were in memory: made up, to fit what was seen.
//!
//! Reclaim lets a page go that has not been accessed while it passed through the inactive list, half of the least time that
//! pages stay. Before that it may have been accessed at any time, and was if it stayed for longer. Where accessed bits were
//! looked at, each look says of each page whether it was accessed since they were cleared, by the program or the kernel, and
//! how soon: that tells how often it is accessed. Of what is gone through in rounds ([`crate::periods`] tells by faults,
//! [`crate::looked_rounds`] by looks), all is known.

use pagewise_trace::Spots;
use pagewise_trace::TraceError;

use crate::ages::Ages;
use crate::history::History;
use crate::history::What;
use crate::looked_rounds::RoundsOfRegions;
use crate::looks::First;
use crate::looks::Hot;
use crate::looks::Look;
use crate::looks::LookedRates;
use crate::periods::Rounds;
use crate::random::Random;
use crate::rates::Rates;
use crate::sampling::Sampling;
use crate::strings::Step;

#[cfg(test)]
mod tests;

/// Parts of the run in which a page's accesses may count once.
const FINEST: u64 = 4096;
/// No less than so many: else fewer pages have to stand for all, as hot ones would seem to be used too seldom to stay.
const COARSEST: u64 = 512;
/// Accesses at random that are made up at most.
const MOST: f64 = 4e6;
/// How much more what the region's pages say of how often a page is accessed counts than when it was itself first.
const REGION_COUNTS: f64 = 8.0;
/// The share of looks that tells that a page is accessed all the time: how often is to be told by glances.
const ALWAYS: f64 = 0.9;
/// The time of a clearing is known to such a part of an interval.
const ABOUT: u64 = 16;
/// The chance of an access so soon that tells that the page is now accessed more often than before.
const MUCH_SOONER: f64 = 0.05;
/// How often a page is taken to be accessed that was not while it was looked, in as much time.
const UNSEEN: f64 = 0.1;
/// Every so manieth page is looked at to tell how many there will be.
const SAMPLE: u32 = 16;

/// A page's stay in memory.
#[derive(Clone, Copy)]
struct Stay {
    since: u64,
    /// Until when accesses have been made up.
    told: u64,
    /// The last of them, or when it came.
    last: u64,
    here: bool,
    /// How often it is accessed, per ns, by the last look since it came,
    rate: Option<f64>,
    /// and whether that is once a round.
    in_rounds: bool,
    /// The share of looks that saw it accessed, in this stay and before: half by the last of them.
    share: Option<f64>,
    /// What the last look saw: told when it is known whether it went on until then.
    burst: Option<Burst>,
    /// Since when each look has seen it accessed.
    used: Option<u64>,
}

/// Accesses that began, and their rate, per ns; told of until so far.
#[derive(Clone, Copy)]
struct Burst {
    from: f64,
    until: u64,
    rate: f64,
    in_rounds: bool,
}

pub(crate) struct Stays<'a> {
    ages: &'a Ages,
    rates: &'a Rates,
    rounds: &'a RoundsOfRegions,
    /// Whether accesses that left no mark are made up.
    unnoticed: bool,
    stays: Vec<Stay>,
    /// Of each page, whether accesses to it are made up.
    is_sampled: Vec<bool>,
    /// When each page came back first; `None`: it never did.
    first_faults: Vec<Option<u64>>,
    /// When bits were last cleared.
    cleared: u64,
    /// Since when pages come back: before, memory was filled.
    filled: u64,
    random: Random,
    /// The least time between two accesses of a page.
    tick: u64,
    steps: &'a mut Vec<Step>,
}

/// What a recording says of how pages are used.
pub(crate) struct Told<'a> {
    pub(crate) rates: &'a Rates,
    pub(crate) ages: &'a Ages,
    pub(crate) rounds: &'a RoundsOfRegions,
    pub(crate) hot: Hot,
}

/// Adds to `steps` accesses while pages were in memory: those that stand for all by `sampling`.
pub(crate) fn add(
    history: &History,
    looks: impl Iterator<Item = Result<Look, TraceError>>,
    told: &Told<'_>,
    sampling: Sampling,
    unnoticed: bool,
    seed: u64,
    steps: &mut Vec<Step>,
) -> Result<(), TraceError> {
    let Told {
        rates,
        ages,
        rounds,
        hot,
    } = *told;
    let one_in = sampling.one_in() as f64;
    let is_sampled = history.keys.iter().map(|&key| sampling.takes(key));
    let nowhere = Stay {
        since: 0,
        told: 0,
        last: 0,
        here: false,
        rate: None,
        in_rounds: false,
        share: None,
        burst: None,
        used: None,
    };
    let mut stays = Stays {
        ages,
        rates,
        rounds,
        unnoticed,
        stays: vec![nowhere; history.keys.len()],
        is_sampled: is_sampled.collect(),
        filled: history.filled(),
        first_faults: first_faults(history),
        cleared: 0,
        random: Random::new(seed),
        tick: tick(history, rates, hot, one_in),
        steps,
    };
    let mut looks = looks.peekable();
    for moment in &history.moments {
        while let Some(look) =
            looks.next_if(|look| look.as_ref().map_or(true, |look| look.at <= moment.at))
        {
            stays.look(&look?);
        }
        let stay = &mut stays.stays[moment.page as usize];
        match moment.what {
            What::Touched if stay.here => {}
            What::Touched | What::Faulted => {
                *stay = Stay {
                    since: moment.at,
                    told: moment.at,
                    last: moment.at,
                    here: true,
                    rate: None,
                    in_rounds: false,
                    share: stay.share,
                    burst: None,
                    used: Some(moment.at),
                };
            }
            What::Gone => stays.end(moment.page, moment.at),
            What::Evicted => stays.evict(moment.page, moment.at),
        }
    }
    for look in looks {
        stays.look(&look?);
    }
    for page in 0..history.keys.len() as u32 {
        stays.end(page, history.end);
    }
    Ok(())
}

fn first_faults(history: &History) -> Vec<Option<u64>> {
    let mut first = vec![None; history.keys.len()];
    let faults = history.moments.iter().rev();
    for fault in faults.filter(|moment| moment.what == What::Faulted) {
        first[fault.page as usize] = Some(fault.at);
    }
    first
}

impl Stays<'_> {
    fn look(&mut self, look: &Look) {
        // What is not used while memory is filled may be used then.
        let is_early = look.cleared < self.filled;
        // When the bits of each were cleared is known about only, and what came just then is accessed.
        let before = look
            .cleared
            .saturating_sub((look.at - look.cleared) / ABOUT);
        let is_whole = |page: u32| {
            let stay = &self.stays[page as usize];
            stay.here && stay.since < before
        };
        let rates = look.rates(self.rounds, is_whole);
        for &(page, first) in &look.pages {
            let stay = self.stays[page as usize];
            let is_known = !stay.here || stay.told >= look.at || self.rates.rounds(page).is_some();
            let is_vain = is_early && first.is_none();
            if is_known || is_vain || !self.is_sampled[page as usize] {
                continue;
            }
            let is_whole = stay.since < before;
            match (first, rates) {
                (Some(first), Some(rates)) if is_whole => self.seen_first(page, first, look, rates),
                (None, Some(_)) if is_whole => self.unseen(page, look),
                (_, rates) => {
                    self.at_random(page, look.cleared);
                    let by_faults = self.rates.by_faults(page, look.at);
                    let by_looks = rates.map(|rates| rates.any);
                    self.set_rate(page, by_faults.or(by_looks), false);
                    self.at_random(page, look.at);
                }
            }
            self.stays[page as usize].told = look.at;
        }
        self.cleared = look.at;
    }

    fn set_rate(&mut self, page: u32, rate: Option<f64>, in_rounds: bool) {
        let stay = &mut self.stays[page as usize];
        (stay.rate, stay.in_rounds) = (rate, in_rounds);
    }

    /// No access was seen; nor is one made up, though the kernel may have cleared a bit that no glance had seen.
    fn unseen(&mut self, page: u32, look: &Look) {
        match self.stays[page as usize].burst {
            Some(burst) => {
                let end = self.end_of_use(page, burst.from as u64, look);
                self.tell_burst(page, end);
            }
            None => self.at_random(page, look.cleared),
        }
        let interval = (look.at - look.cleared).max(1) as f64;
        let stay = &mut self.stays[page as usize];
        stay.share = stay.share.map(|share| share / 2.0);
        stay.used = None;
        self.set_rate(page, Some(UNSEEN / interval), false);
    }

    /// When a use ended that was seen and that `look` sees no more: not so early that the page would have left memory by the
    /// look. How long uses are is not known, but how long this one had been, and it was seen at no special moment of it.
    fn end_of_use(&mut self, page: u32, seen: u64, look: &Look) -> u64 {
        let pass = self.ages.last_passes(look.at);
        let stayed = pass.map_or(0, |pass| pass.first.saturating_sub(pass.slack));
        let from = seen.max(stayed.min(look.cleared));
        let used = self.stays[page as usize].used.unwrap_or(from);
        let past = from.saturating_sub(used) as f64;
        let most = look.cleared.saturating_sub(from) as f64;
        from + self.random.remainder(past, most) as u64
    }

    /// The page left: it had not been accessed in its last pass through the inactive list.
    fn evict(&mut self, page: u32, left: u64) {
        let stay = self.stays[page as usize];
        if !stay.here || !self.is_sampled[page as usize] {
            self.stays[page as usize].here = false;
            return;
        }
        self.tell_burst(page, left);
        let Some(pass) = self.ages.last_passes(left) else {
            return self.end(page, left);
        };
        let quiet = pass.last.max(self.cleared.min(left)).max(stay.since);
        if let Some(rounds) = self.rates.rounds(page) {
            let quiet = pass.last.max(stay.since);
            // In the first round its turn is known by that in which it came back, and our looks may have cleared its bit since.
            let until = match stay.last < rounds.begin && rounds.are_many() {
                true => quiet.max(left.min(rounds.begin + rounds.length)),
                false => quiet,
            };
            self.in_rounds(page, rounds, until);
            self.stays[page as usize].here = false;
            return;
        }
        if self.unnoticed || pass.first > stay.since {
            self.at_random(page, quiet);
        }
        // It would have left a pass earlier if it had not been accessed.
        let earlier = pass.first.max(stay.since);
        if pass.first.saturating_sub(pass.slack) > stay.since
            && self.stays[page as usize].last < earlier
        {
            let at = earlier + ((quiet - earlier) as f64 * self.random.uniform()) as u64;
            self.steps.push(Step::made_up(at, page));
        }
        self.stays[page as usize].here = false;
    }

    fn end(&mut self, page: u32, at: u64) {
        if self.stays[page as usize].here && self.is_sampled[page as usize] {
            self.tell_burst(page, at);
            match self.rates.rounds(page) {
                Some(rounds) => self.in_rounds(page, rounds, at),
                None => self.at_random(page, at),
            }
        }
        self.stays[page as usize].here = false;
    }

    /// One access in each round since the last one that is known, until then.
    fn in_rounds(&mut self, page: u32, rounds: Rounds, until: u64) {
        let stay = &mut self.stays[page as usize];
        let mut at = match stay.last.checked_sub(rounds.begin) {
            Some(_) => stay.last + rounds.length,
            // It came before the first of them: its turn is as in the round in which it came back.
            None => match self.first_faults[page as usize] {
                Some(fault) => rounds.begin + fault.saturating_sub(rounds.begin) % rounds.length,
                None => rounds.begin + (rounds.length as f64 * self.random.uniform()) as u64,
            },
        };
        while at < until.min(rounds.end) {
            self.steps.push(Step::made_up(at, page));
            stay.last = at;
            at += rounds.length;
        }
        stay.told = until;
    }

    /// Accesses at random from when all is told until then.
    fn at_random(&mut self, page: u32, until: u64) {
        let stay = &mut self.stays[page as usize];
        let mut at = stay.told;
        if at >= until {
            return;
        }
        if let (true, Some(rate)) = (stay.in_rounds, stay.rate) {
            // The round that it is in goes on.
            at = stay.last.max(at.saturating_sub((1.0 / rate) as u64));
        }
        while at < until {
            let (rate, holds) = match stay.rate {
                Some(rate) => (rate, u64::MAX),
                None => self.rates.rate(page, at),
            };
            let longest = self.ages.longest(at);
            let finest = self.tick;
            // It would hardly have stayed otherwise.
            let wait = match stay.in_rounds {
                true => 1.0,
                false => self.random.exponential(),
            };
            let gap = (wait / rate).min(longest as f64 * 2.0).max(finest as f64);
            let next = at.saturating_add(gap as u64);
            if next >= holds.min(until) {
                // Memoryless: from the end of the window on it is another rate.
                at = holds.min(until);
                if rate * (finest as f64) < 1.0 {
                    continue;
                }
            } else {
                at = next;
            }
            if at < until {
                self.steps.push(Step::made_up(at, page));
                stay.last = at;
            }
        }
        stay.told = until;
    }

    /// Accesses at random, the first of which was seen.
    fn seen_first(&mut self, page: u32, first: First, look: &Look, rates: LookedRates) {
        let after = first.after.max(look.cleared);
        let uncertain = first.by.saturating_sub(after) as f64;
        let waited = match rates.in_rounds {
            // Within a round of the clearing it came.
            true => {
                let left = 1.0 / rates.accessed - after.saturating_sub(look.cleared) as f64;
                self.random.uniform() * uncertain.min(left.max(1.0))
            }
            false => self.random.exponential_below(rates.accessed, uncertain),
        };
        let at = after as f64 + waited;
        let rate = self.rate_from(page, at - look.cleared as f64, look, rates);
        // Between the looks it went over to this rate from that of the look before, at some time.
        self.tell_burst(page, u64::MAX);
        let told = self.stays[page as usize].told.min(look.cleared);
        let turn = told + ((look.cleared - told) as f64 * self.random.uniform()) as u64;
        self.at_random(page, turn);
        self.set_rate(page, Some(rate), rates.in_rounds);
        self.at_random(page, look.cleared);
        let stay = &mut self.stays[page as usize];
        stay.used = stay.used.or(Some(turn));
        stay.burst = Some(Burst {
            from: at,
            until: look.at,
            rate,
            in_rounds: rates.in_rounds,
        });
    }

    /// Accesses as the last look saw them, until its end, or until `end` if that is sooner.
    fn tell_burst(&mut self, page: u32, end: u64) {
        let Some(burst) = self.stays[page as usize].burst.take() else {
            return;
        };
        let mut at = burst.from;
        loop {
            self.stays[page as usize].last = at as u64;
            self.steps.push(Step::made_up(at as u64, page));
            let wait = match burst.in_rounds {
                true => 1.0,
                false => 0.5 + self.random.uniform(),
            };
            at += (wait / burst.rate).max(self.tick as f64);
            if at >= burst.until.min(end) as f64 {
                return;
            }
        }
    }

    /// How often a page is accessed that was first after `waited` ns: as looks before say, if they do and it did not come much
    /// sooner than that; else as often as this was soon, and others' of the region were. In rounds, once in each.
    fn rate_from(&mut self, page: u32, waited: f64, look: &Look, rates: LookedRates) -> f64 {
        if rates.in_rounds {
            return rates.accessed;
        }
        let around = self.rates.by_faults(page, look.at).unwrap_or(rates.any);
        let stay = &mut self.stays[page as usize];
        let interval = (look.at - look.cleared).max(1) as f64;
        let often = |share: f64| -(1.0 - share).max(1e-3).ln() / interval;
        let of_others = 1.0 - (-around * interval).exp();
        let before = stay.share.unwrap_or(of_others);
        let share = (before + 1.0) / 2.0;
        stay.share = Some(share);
        match before > ALWAYS || often(before) * waited < MUCH_SOONER {
            true => (REGION_COUNTS + 1.0) / (REGION_COUNTS / rates.accessed + waited).max(1.0),
            // Few looks scatter, and the logarithm makes more of what is above than of what is below.
            false => often((share + of_others) / 2.0),
        }
    }
}

/// As many pages as accesses can be made up for, those of one page no further apart than a [`COARSEST`] part of the run.
/// Where only `spots` were looked at, some of these.
pub(crate) fn sampling(
    history: &History,
    rates: &Rates,
    hot: Hot,
    spots: Option<Spots>,
) -> Sampling {
    let coarsest = run_ns(history) / COARSEST;
    Sampling::first(history.keys.len(), spots, |one_in| {
        let one_in = one_in as f64;
        hot.accesses / one_in <= MOST && tick(history, rates, hot, one_in) <= coarsest
    })
}

fn run_ns(history: &History) -> u64 {
    let begin = history.moments.first().map_or(0, |moment| moment.at);
    history.end.saturating_sub(begin).max(1)
}

/// A time between two accesses of a page, ns: short, and so long that there are at most [`MOST`].
fn tick(history: &History, rates: &Rates, hot: Hot, one_in: f64) -> u64 {
    let run = run_ns(history);
    let sampled = history
        .moments
        .iter()
        .filter(|moment| moment.page % SAMPLE == 0);
    let mut here = vec![None; history.keys.len()];
    let mut stays: Vec<(u32, u64, u64)> = Vec::new();
    for moment in sampled {
        let since: &mut Option<u64> = &mut here[moment.page as usize];
        match moment.what {
            What::Touched | What::Faulted => *since = since.or(Some(moment.at)),
            What::Evicted | What::Gone => {
                stays.extend(since.take().map(|since| (moment.page, since, moment.at)))
            }
        }
    }
    stays.extend(
        (0..)
            .zip(here)
            .filter_map(|(page, since)| Some((page, since?, history.end))),
    );
    let mut finest = FINEST;
    while finest > 16 && expected(&stays, rates, (run / finest).max(1)) > MOST * one_in {
        finest /= 2;
    }
    (run / finest).max((hot.time / one_in / MOST) as u64).max(1)
}

/// Accesses in all pages' stays, by those of some pages.
fn expected(stays: &[(u32, u64, u64)], rates: &Rates, tick: u64) -> f64 {
    let mut sum = 0.0;
    for &(page, since, until) in stays {
        let mut at = since;
        while at < until {
            let (rate, holds) = rates.rate(page, at);
            let end = holds.min(until);
            sum += (end - at) as f64 * rate.min(1.0 / tick as f64);
            at = end;
        }
    }
    sum * f64::from(SAMPLE)
}
