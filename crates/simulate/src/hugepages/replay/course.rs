//! What came of a replay.

use std::time::Duration;

/// Within so much of the time that all in huge pages takes, a program counts as fast.
const NEAR: f64 = 1.05;

/// A program for a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Page-walk cycles over cycles, 0 to 1.
    pub overhead: f64,
    /// How many times as long it takes as without any translation,
    pub slow_down: f64,
    /// as it would without any huge page,
    pub slow_down_of_base: f64,
    /// and with all that can be.
    pub slow_down_of_huge: f64,
    /// Huge pages it has.
    pub huge_pages: u64,
    /// Bytes of these that were not in memory as base pages.
    pub bloat_bytes: u64,
}

/// All programs for a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Since the beginning.
    pub time: Duration,
    /// How long this held.
    pub length: Duration,
    /// In the programs' order; `None`: it did not run.
    pub programs: Vec<Option<State>>,
}

impl Sample {
    fn running(&self) -> impl Iterator<Item = &State> {
        self.programs.iter().flatten()
    }

    /// Bytes that were not in memory as base pages.
    pub fn bloat_bytes(&self) -> u64 {
        self.running().map(|state| state.bloat_bytes).sum()
    }

    /// Of all programs, the mean page-walk cycles over cycles. `None`: none ran.
    pub fn overhead(&self) -> Option<f64> {
        let all = self.running().count();
        (all > 0).then(|| self.running().map(|state| state.overhead).sum::<f64>() / all as f64)
    }

    /// Whether what runs takes hardly longer than all in huge pages would.
    fn is_near(&self) -> bool {
        let sum = |of: fn(&State) -> f64| self.running().map(of).sum::<f64>();
        sum(|state| state.slow_down / state.slow_down_of_base)
            <= NEAR * sum(|state| state.slow_down_of_huge / state.slow_down_of_base)
    }
}

/// Of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramCourse {
    /// Regions made huge pages.
    pub promotions: u64,
    /// Huge pages split.
    pub demotions: u64,
    /// How long it ran as recorded, s: on base pages.
    pub recorded_s: f64,
    /// What it needs for the same, s.
    pub needed_s: f64,
}

/// Step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// By time.
    pub samples: Vec<Sample>,
    /// In their order.
    pub programs: Vec<ProgramCourse>,
}

impl Course {
    pub(super) fn new(programs: usize) -> Self {
        Self {
            samples: Vec::new(),
            programs: vec![ProgramCourse::default(); programs],
        }
    }

    pub(super) fn push(
        &mut self,
        time: Duration,
        length: Duration,
        states: impl Iterator<Item = Option<State>>,
    ) {
        let programs: Vec<Option<State>> = states.collect();
        let seconds = length.as_secs_f64();
        for (of, state) in self.programs.iter_mut().zip(&programs) {
            if let Some(state) = state {
                of.recorded_s += seconds;
                of.needed_s += seconds * state.slow_down / state.slow_down_of_base;
            }
        }
        self.samples.push(Sample {
            time,
            length,
            programs,
        });
    }

    /// Regions made huge pages.
    pub fn promotions(&self) -> u64 {
        self.programs.iter().map(|of| of.promotions).sum()
    }

    /// Huge pages split.
    pub fn demotions(&self) -> u64 {
        self.programs.iter().map(|of| of.demotions).sum()
    }

    /// The mean page-walk cycles over cycles, over time and programs. `None`: none ran.
    pub fn overhead(&self) -> Option<f64> {
        let known = self.samples.iter().filter_map(|sample| {
            let seconds = sample.length.as_secs_f64();
            Some((sample.overhead()? * seconds, seconds))
        });
        let (sum, seconds) = known.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        (seconds > 0.0).then(|| sum / seconds)
    }

    /// From when on, to the end, all programs together take at most 5 % longer than all in huge pages would. `None`: they do
    /// not in the end, or none runs.
    pub fn near_huge_from(&self) -> Option<Duration> {
        let running = || {
            self.samples
                .iter()
                .filter(|sample| sample.running().next().is_some())
        };
        let first = running().next()?.time;
        match running().rfind(|sample| !sample.is_near()) {
            None => Some(first),
            Some(last) => running()
                .map(|sample| sample.time)
                .find(|time| *time > last.time),
        }
    }

    /// The most bytes in huge pages that were not in memory as base pages.
    pub fn most_bloat_bytes(&self) -> u64 {
        let samples = self.samples.iter();
        samples.map(Sample::bloat_bytes).max().unwrap_or(0)
    }

    /// The same in the end.
    pub fn last_bloat_bytes(&self) -> u64 {
        self.samples.last().map_or(0, Sample::bloat_bytes)
    }

    /// How much less time all programs together need than on base pages, s.
    pub fn saved_s(&self) -> f64 {
        let programs = self.programs.iter();
        programs.map(|of| of.recorded_s - of.needed_s).sum()
    }

    /// How many times as fast they are together as on base pages. `None`: none ran.
    pub fn speed_up(&self) -> Option<f64> {
        let needed: f64 = self.programs.iter().map(|of| of.needed_s).sum();
        let recorded: f64 = self.programs.iter().map(|of| of.recorded_s).sum();
        (needed > 0.0).then(|| recorded / needed)
    }

    /// Time saved by a promotion on average, s. `None`: nothing was promoted.
    pub fn saved_by_promotion_s(&self) -> Option<f64> {
        let promotions = self.promotions();
        (promotions > 0).then(|| self.saved_s() / promotions as f64)
    }
}
