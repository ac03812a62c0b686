//! Accesses to pages while they were in memory: made up, to fit what was seen.
//!
//! Reclaim lets a page go that has not been accessed while it passed through the inactive list, half of the least time that
//! pages stay. Before that it may have been accessed at any time, and was if it stayed for longer. Where accessed bits were
//! looked at, each look says of each page whether it was accessed since they were cleared, by the program or the kernel.

use pagewise_trace::TraceError;

use crate::ages::Ages;
use crate::history::History;
use crate::history::What;
use crate::looks::Look;
use crate::random::Random;
use crate::rates::Rates;
use crate::strings::Step;

/// Parts of the run in which a page's accesses may count once.
const FINEST: u64 = 4096;
/// Accesses at random that are made up at most.
const MOST: f64 = 2e6;
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
    /// Looks at it in this stay and before, and those that saw it accessed.
    looks: u32,
    accessed: u32,
    here: bool,
}

pub(crate) struct Stays<'a> {
    ages: &'a Ages,
    rates: &'a Rates,
    /// Whether accesses that left no mark are made up.
    unnoticed: bool,
    stays: Vec<Stay>,
    /// When bits were last cleared.
    cleared: u64,
    random: Random,
    /// The least time between two accesses of a page.
    tick: u64,
    steps: &'a mut Vec<Step>,
}

/// Adds to `steps` accesses while pages were in memory.
pub(crate) fn add(
    history: &History,
    looks: impl Iterator<Item = Result<Look, TraceError>>,
    (rates, ages): (&Rates, &Ages),
    unnoticed: bool,
    seed: u64,
    steps: &mut Vec<Step>,
) -> Result<(), TraceError> {
    let nowhere = Stay {
        since: 0,
        told: 0,
        last: 0,
        looks: 0,
        accessed: 0,
        here: false,
    };
    let mut stays = Stays {
        ages,
        rates,
        unnoticed,
        stays: vec![nowhere; history.keys.len()],
        cleared: 0,
        random: Random::new(seed),
        tick: tick(history, rates),
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
                (stay.since, stay.told, stay.last, stay.here) =
                    (moment.at, moment.at, moment.at, true);
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

impl Stays<'_> {
    fn look(&mut self, look: &Look) {
        for &(page, accessed) in &look.pages {
            let stay = self.stays[page as usize];
            if !stay.here || stay.told >= look.at {
                continue;
            }
            self.at_random(page, look.cleared);
            let begin = stay.told.max(look.cleared);
            let whole = stay.since <= look.cleared;
            if !whole {
                self.at_random(page, look.at);
            } else {
                let stay = &mut self.stays[page as usize];
                stay.looks += 1;
                stay.accessed += u32::from(accessed);
                if accessed {
                    self.at_least_once(page, begin, look.at);
                } else {
                    let scanned = look.at.saturating_sub(self.since_scan(look.at));
                    self.at_random(page, scanned);
                }
            }
            self.stays[page as usize].told = look.at;
        }
        self.cleared = look.at;
    }

    /// How long ago the kernel last cleared a page's bit: at any time in the last pass through a list.
    fn since_scan(&mut self, at: u64) -> u64 {
        let pass = self.ages.longest(at) / 2;
        (pass as f64 * self.random.uniform()) as u64
    }

    /// The page left: it had not been accessed in its last pass through the inactive list.
    fn evict(&mut self, page: u32, left: u64) {
        let stay = self.stays[page as usize];
        if !stay.here {
            return;
        }
        let Some(pass) = self.ages.last_passes(left) else {
            return self.end(page, left);
        };
        let quiet = pass.last.max(self.cleared.min(left)).max(stay.since);
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
        if self.stays[page as usize].here {
            self.at_random(page, at);
            self.stays[page as usize].here = false;
        }
    }

    /// Accesses at random from when all is told until then.
    fn at_random(&mut self, page: u32, until: u64) {
        let stay = &mut self.stays[page as usize];
        let mut at = stay.told;
        if at >= until {
            return;
        }
        while at < until {
            let (rate, holds) = self.rates.rate(page, at);
            let longest = self.ages.longest(at);
            let finest = self.tick;
            // It would hardly have stayed otherwise.
            let gap = (self.random.exponential() / rate)
                .min(longest as f64 * 2.0)
                .max(finest as f64);
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

    /// Accesses at random, but one at least.
    fn at_least_once(&mut self, page: u32, begin: u64, end: u64) {
        let stay = &mut self.stays[page as usize];
        let length = (end - begin).max(1) as f64;
        let (region, _) = self.rates.rate(page, begin);
        // As often as it was seen accessed so far; two looks' worth of what its region says.
        let expected = 1.0 - (-region * length).exp();
        let share = (f64::from(stay.accessed) + 2.0 * expected) / (f64::from(stay.looks) + 2.0);
        let rate = -(1.0 - share).max(1e-3).ln() / length;
        let finest = self.tick as f64;
        // The first, given that there is one.
        let chance = 1.0 - (-rate * length).exp();
        let mut at = -(1.0 - self.random.uniform() * chance).ln() / rate;
        while at < length {
            stay.last = begin + at as u64;
            self.steps.push(Step::made_up(stay.last, page));
            at += (self.random.exponential() / rate).max(finest);
        }
        stay.told = end;
    }
}

/// A time between two accesses of a page, ns: short, and so long that there are at most [`MOST`].
fn tick(history: &History, rates: &Rates) -> u64 {
    let begin = history.moments.first().map_or(0, |moment| moment.at);
    let run = history.end.saturating_sub(begin).max(1);
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
    while finest > 16 && expected(&stays, rates, (run / finest).max(1)) > MOST {
        finest /= 2;
    }
    (run / finest).max(1)
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
