//! One round: accessed bits are cleared, and some time later it is looked which are set again.
//!
//! How soon a page is accessed after the clearing tells how often it is. So it is glanced soon, and at known times: by a thread that has
//! nothing else to do, while events are drained. A walk holds up nobody.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::AccessSensor;
use pagewise_collect::CollectError;
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
use super::spots::spots_of;

/// Between clearing and looking it is glanced after this share of the interval, and each time after four times as long.
const FIRST_GLANCE: u32 = 256;
const NEXT_GLANCE: u32 = 4;

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

impl Scope {
    /// For so many pages in memory.
    pub(super) fn for_pages(self, pages: u64) -> Self {
        match self {
            Self::All => Self::All,
            Self::Spots(before) => Self::Spots(spots_of(pages, before)),
        }
    }
}

/// What a round has seen.
pub(super) struct Round {
    pub(super) sensor: AccessSensor,
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
pub(super) struct Seen {
    pub(super) pid: u32,
    pub(super) time_ns: u64,
    /// The kernel's address of its `mm_struct`.
    pub(super) mm: u64,
    pub(super) walked: Walked,
    pub(super) regions: Vec<Region>,
    /// Of each region, from the clearing of its bits until it was walked, ns.
    pub(super) intervals_ns: Vec<u64>,
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

/// Clears, glances and looks; returns after that.
/// `clearing_ns`: what clearing took, told at once, as the program may end before the round.
pub(super) fn go_round(
    mut sensor: AccessSensor,
    processes: &[u32],
    scope: Scope,
    terms: Terms,
    clearing_ns: &AtomicU64,
) -> Round {
    let (clearing, failed) = match scope {
        Scope::All => (clear(processes), None),
        Scope::Spots(spots) => match clear_spots(&mut sensor, processes, spots) {
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
        sensor,
    };
    if round.clearing.cleared.is_empty() {
        return round;
    }
    let interval = terms.interval(round.clearing.cost);
    if let Err(error) = round.look_until(cleared, interval, terms.glances) {
        round.failed = Some(error);
    }
    round
}

impl Round {
    fn look_until(
        &mut self,
        since: Instant,
        interval: Duration,
        glances: Duration,
    ) -> Result<(), CollectError> {
        let mut next = interval / FIRST_GLANCE;
        while next < interval {
            sleep_until(since + next);
            // One more is expected to take as long as the last.
            let last: Duration = self.glances.last().map_or(Duration::ZERO, |seen| seen.took);
            if self.glanced + last > glances {
                break;
            }
            let time_ns = Clocks::now().monotonic_ns;
            for memory in &mut self.clearing.cleared {
                let mut seen = Seen::walk(&mut self.sensor, memory, time_ns)?;
                self.glanced += seen.took;
                for region in &mut seen.regions {
                    *region = memory.what_is_new(std::mem::take(region));
                }
                self.glances.push(seen);
            }
            while next <= since.elapsed() {
                next *= NEXT_GLANCE;
            }
        }
        sleep_until(since + interval);
        let time_ns = Clocks::now().monotonic_ns;
        for memory in &self.clearing.cleared {
            let mut seen = Seen::walk(&mut self.sensor, memory, time_ns)?;
            self.looked += seen.took;
            for region in &mut seen.regions {
                *region = memory.with_glances(std::mem::take(region));
            }
            self.looks.push(seen);
        }
        Ok(())
    }
}

fn sleep_until(time: Instant) {
    std::thread::sleep(time.saturating_duration_since(Instant::now()));
}

impl Seen {
    fn walk(
        sensor: &mut AccessSensor,
        memory: &Cleared,
        time_ns: u64,
    ) -> Result<Self, CollectError> {
        let processor = processor_time();
        let mut regions = Vec::new();
        let (walked, mm) = sensor.walk(&memory.pages, |region| {
            regions.extend(memory.cleared_of(region));
        })?;
        let took = processor_time().saturating_sub(processor);
        let ran = process::processor_ns(memory.pid).zip(memory.ran_ns);
        Ok(Self {
            pid: memory.pid,
            time_ns,
            mm,
            walked,
            intervals_ns: intervals_ns(memory, &regions, time_ns, took),
            regions,
            ran_ns: ran.and_then(|(now, then)| {
                Some((now.checked_sub(then)?, time_ns.saturating_sub(memory.at_ns)))
            }),
            took,
        })
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
}
