//! One round: accessed bits are cleared, and some time later it is looked which are set again.
//!
//! How soon a page is accessed after the clearing tells how often it is. So it is glanced soon, and at known times: by a thread that has
//! nothing else to do, while events are drained. A walk holds up nobody.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::AccessSensor;
use pagewise_collect::CollectError;
use pagewise_collect::Spaces;
use pagewise_collect::access::Region;
use pagewise_collect::access::Walked;
use pagewise_collect::access::pages_in;
use pagewise_host::process;
use pagewise_trace::Spots;

use super::super::facts::Clocks;
use super::clearing::Cleared;
use super::clearing::Clearing;
use super::clearing::clear;
use super::clearing::processor_time;
use super::spots::clear_spots;

/// Between clearing and looking it is glanced after one part in so many of the interval. The last glance stands for the look at what has ended by then.
const GLANCES: [u32; 5] = [256, 64, 16, 4, 2];

/// Nothing is ever sent: that the other end is gone says it.
#[derive(PartialEq)]
pub(super) enum Never {}

/// How long a round may take, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// From clearing to looking at least,
    pub(super) shortest: Duration,
    /// and so long that this is the share of it that the round costs: as the round before, or as clearing did in this one.
    pub(super) share: f64,
    pub(super) last: Option<Duration>,
    /// Of that, so much has been earned.
    pub(super) saved: Duration,
    /// All of it so many times as long.
    pub(super) pace: u32,
    /// What glances may take.
    pub(super) glances: Duration,
}

/// Which bits are cleared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope {
    All,
    Spots(Spots),
}

/// Walks page tables, and knows whose they are.
pub(in crate::record) struct Walker {
    pub(in crate::record) sensor: AccessSensor,
    /// `None`: nobody's are recorded.
    pub(in crate::record) spaces: Option<Spaces>,
}

/// What a round has seen.
pub(super) struct Round {
    pub(super) walker: Walker,
    pub(super) clearing: Clearing,
    /// What was new at each glance, and all of it at the look: of each process.
    pub(super) glances: Vec<Seen>,
    pub(super) looks: Vec<Seen>,
    /// Processor time.
    pub(super) glanced: Duration,
    pub(super) looked: Duration,
    /// The kernel refused to walk.
    pub(super) failed: Option<CollectError>,
}

/// One process's memory at one time.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) pid: u32,
    pub(super) time_ns: u64,
    /// Its address space; `None`: it is not recorded.
    pub(super) space: Option<u32>,
    pub(super) walked: Walked,
    pub(super) regions: Vec<Region>,
    /// Of each region, from the clearing of its bits until it was walked, ns.
    pub(super) intervals_ns: Vec<u64>,
    /// How long ago it had been seen which pages are in memory, ns, if that was before the clearing.
    pub(super) listed_ns: Option<u64>,
    /// Since the clearing, what it ran, and how long that is, ns; `None`: it has ended.
    pub(super) ran_ns: Option<(u64, u64)>,
    took: Duration,
}

impl Terms {
    /// So long that what a round costs has been earned when it is over, and the next one can follow at once. The first one is shorter, so that
    /// something is known of a program that soon ends, and the second one waits instead.
    fn interval(&self, clear_cost: Duration) -> Duration {
        let earned = match self.last {
            Some(cost) => clear_cost.max(cost),
            None => clear_cost / 4,
        };
        earned
            .saturating_sub(self.saved)
            .div_f64(self.share)
            .max(self.shortest)
            .saturating_mul(self.pace)
    }
}

/// Clears, glances and looks; returns after that, or once the other end of `until` is gone.
/// `clearing_ns`: what clearing took, told at once, as the program may end before the round.
pub(super) fn go_round(
    mut walker: Walker,
    processes: &[u32],
    scope: Scope,
    terms: Terms,
    clearing_ns: &AtomicU64,
    until: &Receiver<Never>,
) -> Round {
    let (clearing, failed) = match scope {
        Scope::All => (clear(processes), None),
        Scope::Spots(spots) => match clear_spots(&mut walker.sensor, processes, spots) {
            Ok(clearing) => (clearing, None),
            Err(error) => (Clearing::default(), Some(error)),
        },
    };
    clearing_ns.store(clearing.cost.as_nanos() as u64, Ordering::Relaxed);
    let cleared = Instant::now();
    let mut round = Round {
        glances: Vec::new(),
        looks: Vec::new(),
        glanced: Duration::ZERO,
        looked: Duration::ZERO,
        failed,
        clearing,
        walker,
    };
    if round.clearing.cleared.is_empty() {
        return round;
    }
    if let Err(error) = round.look_until(cleared, &terms, until) {
        round.failed = Some(error);
    }
    round
}

impl Round {
    fn look_until(
        &mut self,
        since: Instant,
        terms: &Terms,
        until: &Receiver<Never>,
    ) -> Result<(), CollectError> {
        let interval = terms.interval(self.clearing.cost);
        let mut glanced = Vec::new();
        for part in GLANCES {
            let after = interval / part;
            // One more is expected to take as long as the last.
            let last: Duration = self.glances.last().map_or(Duration::ZERO, |seen| seen.took);
            if after < since.elapsed() || self.glanced + last > terms.glances {
                continue;
            }
            if is_over(since + after, until) {
                self.look_back(glanced, terms.shortest);
                return Ok(());
            }
            glanced = self.glance()?;
        }
        if is_over(since + interval, until) {
            self.look_back(glanced, terms.shortest);
            return Ok(());
        }
        let time_ns = Clocks::now().monotonic_ns;
        let mut ended = Vec::new();
        for memory in &self.clearing.cleared {
            let mut seen = Seen::walk(&mut self.walker, memory, time_ns)?;
            self.looked += seen.took;
            if seen.walked == Walked::Gone {
                ended.extend(glanced.extract_if(.., |glanced| glanced.pid == memory.pid));
                continue;
            }
            for region in &mut seen.regions {
                *region = memory.with_glances(std::mem::take(region));
            }
            self.looks.push(seen);
        }
        self.look_back(ended, terms.shortest);
        Ok(())
    }

    /// Returns what a look would have seen now.
    fn glance(&mut self) -> Result<Vec<Seen>, CollectError> {
        let time_ns = Clocks::now().monotonic_ns;
        let mut looks = Vec::new();
        for memory in &mut self.clearing.cleared {
            let mut seen = Seen::walk(&mut self.walker, memory, time_ns)?;
            self.glanced += seen.took;
            let mut look = seen.clone();
            for (region, whole) in seen.regions.iter_mut().zip(&mut look.regions) {
                *region = memory.what_is_new(std::mem::take(region));
                *whole = memory.with_glances(std::mem::take(whole));
            }
            self.glances.push(seen);
            looks.push(look);
        }
        Ok(looks)
    }

    fn look_back(&mut self, glanced: Vec<Seen>, shortest: Duration) {
        let looks = late_glances(&mut self.glances, glanced, shortest);
        self.looks.extend(looks);
    }
}

/// What there is no looking at any more is taken as it was last glanced, if that was so long after the clearing: then it is no glance.
fn late_glances(glances: &mut Vec<Seen>, mut last: Vec<Seen>, shortest: Duration) -> Vec<Seen> {
    last.retain(|seen| u128::from(seen.longest_ns()) >= shortest.as_nanos());
    let is_same = |one: &Seen, other: &Seen| (one.pid, one.time_ns) == (other.pid, other.time_ns);
    glances.retain(|glance| !last.iter().any(|look| is_same(glance, look)));
    last
}

/// Waits for the time; whether the other end has gone meanwhile.
fn is_over(time: Instant, until: &Receiver<Never>) -> bool {
    let left = time.saturating_duration_since(Instant::now());
    until.recv_timeout(left) != Err(RecvTimeoutError::Timeout)
}

impl Seen {
    fn walk(walker: &mut Walker, memory: &Cleared, time_ns: u64) -> Result<Self, CollectError> {
        let processor = processor_time();
        let mut regions = Vec::new();
        let (walked, mm) = walker.sensor.walk(&memory.pages, |region| {
            regions.extend(memory.cleared_of(region));
        })?;
        let took = processor_time().saturating_sub(processor);
        let space = match &walker.spaces {
            Some(spaces) => spaces.space_of(mm)?,
            None => None,
        };
        let ran = process::processor_ns(memory.pid).zip(memory.ran_ns);
        Ok(Self {
            pid: memory.pid,
            time_ns,
            space,
            walked,
            intervals_ns: intervals_ns(memory, &regions, time_ns, took),
            listed_ns: memory
                .listed_at_ns
                .map(|at_ns| time_ns.saturating_sub(at_ns)),
            regions,
            ran_ns: ran.and_then(|(now, then)| {
                Some((now.checked_sub(then)?, time_ns.saturating_sub(memory.at_ns)))
            }),
            took,
        })
    }

    fn longest_ns(&self) -> u64 {
        self.intervals_ns.iter().copied().max().unwrap_or(0)
    }

    /// Each region that has been seen, with its interval, ns.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Region, u64)> {
        self.regions.iter().zip(self.intervals_ns.iter().copied())
    }
}

/// Of each region, which a walk that began at `time_ns` found, how long ago its bits were cleared then.
fn intervals_ns(memory: &Cleared, regions: &[Region], time_ns: u64, took: Duration) -> Vec<u64> {
    let pages = |region: &Region| f64::from(pages_in(&region.resident));
    let all: f64 = regions.iter().map(pages).sum();
    let mut before = 0.0;
    let interval = |region| {
        let share = (before + pages(region) / 2.0) / all.max(1.0);
        before += pages(region);
        memory.interval_ns(share, time_ns, took)
    };
    regions.iter().map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_as_long_as_what_it_costs_takes_to_earn() {
        let ms = Duration::from_millis;
        let terms = Terms {
            shortest: ms(100),
            share: 0.005,
            last: None,
            saved: Duration::ZERO,
            pace: 1,
            glances: Duration::ZERO,
        };
        assert_eq!(terms.interval(ms(1)), ms(100));
        assert_eq!(terms.interval(ms(4)), ms(200), "the first is a quarter");
        let later = Terms {
            last: Some(ms(5)),
            ..terms
        };
        assert_eq!(later.interval(ms(4)), ms(1000));
        assert_eq!(later.interval(ms(6)), ms(1200));
        let saved = |saved| Terms { saved, ..later }.interval(ms(4));
        assert_eq!([ms(3), ms(9)].map(saved), [ms(400), ms(100)]);
        assert_eq!(Terms { pace: 3, ..later }.interval(ms(6)), ms(3600));
    }

    #[test]
    fn the_last_glance_stands_for_a_look_if_it_was_late() {
        let seen = |pid, time_ns| Seen {
            pid,
            time_ns,
            space: Some(1),
            walked: Walked::Whole { changed: 0 },
            regions: vec![Region::default()],
            intervals_ns: vec![time_ns - 1000],
            listed_ns: None,
            ran_ns: None,
            took: Duration::ZERO,
        };
        let mut glances = vec![seen(1, 1010), seen(2, 1010), seen(1, 1200), seen(2, 1200)];
        let times = |seen: &[Seen]| {
            seen.iter()
                .map(|one| (one.pid, one.time_ns))
                .collect::<Vec<_>>()
        };
        let last = vec![seen(2, 1200)];
        let early = late_glances(&mut glances, last.clone(), Duration::from_nanos(201));
        assert_eq!((early.len(), glances.len()), (0, 4));
        let looks = late_glances(&mut glances, last, Duration::from_nanos(200));
        assert_eq!(times(&looks), [(2, 1200)]);
        assert_eq!(times(&glances), [(1, 1010), (2, 1010), (1, 1200)]);
    }
}
