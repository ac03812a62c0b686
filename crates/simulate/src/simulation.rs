//! One policy at one memory size.

use thiserror::Error;

use crate::engine::Engine;
use crate::engine::Run;
use crate::engine::Schedule;
use crate::kind::PolicyKind;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::policy::arc::Arc;
use crate::policy::areas::four::four_areas;
use crate::policy::areas::two::two_areas;
use crate::policy::belady::Belady;
use crate::policy::cflru::CfLru;
use crate::policy::clock::Clock;
use crate::policy::clock_pro::ClockPro;
use crate::policy::fair_rent::FairRent;
use crate::policy::fifo::Fifo;
use crate::policy::linux::Linux;
use crate::policy::lirs::Lirs;
use crate::policy::lru::Lru;
use crate::policy::lru_wsr::LruWsr;
use crate::policy::mglru::Mglru;
use crate::policy::s3_fifo::S3Fifo;
use crate::policy::sieve::Sieve;
use crate::policy::two_q::TwoQ;
use crate::policy::w_tinylfu::WTinyLfu;
use crate::reference::MAX_PAGES;
use crate::reference::Reference;
use crate::storage::Storage;

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: PolicyKind,
    /// Memory (pages).
    pub frames: u32,
    /// What transfers cost; only policies that [use it](PolicyKind::uses_costs) look at it.
    pub storage: Storage,
    /// References at the beginning that fill memory but are not counted.
    pub warmup: u64,
    /// References between two flushes of dirty file pages, which stands for the kernel's flusher threads and the
    /// journal; `None`: file pages are written only when evicted.
    pub flush_period: Option<u64>,
    /// How old the statistics are that the kernel's reclaim goes by; only `linux` looks at it.
    pub counters: Counters,
    /// How many pages each one stands for, references and frames alike: 1, but for a sample of all pages. What the kernel counts by pages
    /// (it reclaims 32 at a time) is fewer of them then; only `linux` looks at it. 0 counts as 1.
    pub pages_each: u32,
}

/// How old the lengths of lists and the numbers of refaults are that `linux` goes by when it decides which pages stay active. A
/// kernel has them by cgroup and brings them up to date every two seconds, and when somebody reads them
/// (`mem_cgroup_flush_stats` and its callers, mm/memcontrol.c, 6.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counters {
    /// As they are at any time.
    #[default]
    Fresh,
    /// As they were at the last [`Simulation::flush_counters`]; before the first, nothing.
    Flushed,
}

impl Settings {
    /// `policy` on `frames` pages, everything counted, file pages flushed every 100,000 references, statistics fresh, each page itself.
    pub fn new(policy: PolicyKind, frames: u32, storage: Storage) -> Settings {
        Settings {
            policy,
            frames,
            storage,
            warmup: 0,
            flush_period: Some(DEFAULT_FLUSH_PERIOD),
            counters: Counters::default(),
            pages_each: 1,
        }
    }
}

/// References between two flushes of dirty file pages, unless told otherwise.
pub const DEFAULT_FLUSH_PERIOD: u64 = 100_000;

/// Why a simulation cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// No memory at all.
    #[error("a memory of 0 pages can hold nothing; give at least one page")]
    NoMemory,
    /// More memory than pages can be numbered.
    #[error("a memory of {0} pages is more than the {MAX_PAGES} that can be simulated")]
    TooLarge(u32),
    /// A flush after every 0 references.
    #[error("file pages cannot be flushed every 0 references; give at least 1")]
    NoFlushPeriod,
    /// The policy looks ahead, and was given no trace.
    #[error("`{0}` must know the whole trace in advance and cannot run on a stream")]
    NeedsFuture(PolicyKind),
}

/// A running simulation. Its memory is bounded by the footprint of what it was fed, not by its length.
pub struct Simulation {
    run: Box<dyn Run>,
}

impl Simulation {
    /// A simulation of a policy that goes by the past alone.
    pub fn new(settings: &Settings) -> Result<Simulation, SimulationError> {
        if settings.policy.needs_future() {
            return Err(SimulationError::NeedsFuture(settings.policy));
        }
        Simulation::start(settings, &[])
    }

    /// A simulation of any policy, that will be [fed](Simulation::feed) exactly `trace`.
    pub fn with_future(
        settings: &Settings,
        trace: &[Reference],
    ) -> Result<Simulation, SimulationError> {
        Simulation::start(settings, trace)
    }

    /// Consumes the next references, in any number.
    pub fn feed(&mut self, references: &[Reference]) {
        self.run.feed(references);
    }

    /// The program gave a page back: it takes no memory any more, and when it is accessed again, it is new. Returns
    /// whether the policy can do that: `linux` can; with the others the page stays until it is evicted.
    pub fn forget(&mut self, page: u32) -> bool {
        self.run.forget(page)
    }

    /// From now on memory holds so many pages, one at least: what does not fit any more leaves. Returns whether the policy can do that: `linux`
    /// can; the others go on with as many as before.
    pub fn resize(&mut self, frames: u32) -> bool {
        self.run.resize(frames)
    }

    /// The kernel brings its statistics up to date: what [`Counters::Flushed`] goes by from now on.
    pub fn flush_counters(&mut self) {
        self.run.flush_counters();
    }

    /// What was counted up to now.
    pub fn outcome(&self) -> Outcome {
        self.run.outcome()
    }

    /// Whether a page is in memory now.
    pub fn holds(&self, page: u32) -> bool {
        self.run.holds(page)
    }

    /// Pages in memory now.
    pub fn resident(&self) -> u32 {
        self.run.resident()
    }

    fn start(settings: &Settings, trace: &[Reference]) -> Result<Simulation, SimulationError> {
        settings.check()?;
        let frames = settings.frames;
        let run: Box<dyn Run> = match settings.policy {
            PolicyKind::Fifo => settings.engine(Fifo::new()),
            PolicyKind::Clock => settings.engine(Clock::new(false)),
            PolicyKind::ClockRef1 => settings.engine(Clock::new(true)),
            PolicyKind::Lru => settings.engine(Lru::new()),
            PolicyKind::TwoQ => settings.engine(TwoQ::new(frames)),
            PolicyKind::Arc => settings.engine(Arc::new()),
            PolicyKind::Lirs => settings.engine(Lirs::new(frames)),
            PolicyKind::S3Fifo => settings.engine(S3Fifo::new(frames)),
            PolicyKind::Sieve => settings.engine(Sieve::new()),
            PolicyKind::Linux => {
                settings.engine(Linux::new(settings.counters, settings.pages_each))
            }
            PolicyKind::CfLru => settings.engine(CfLru::new(frames)),
            PolicyKind::LruWsr => settings.engine(LruWsr::new()),
            PolicyKind::TwoArea => settings.engine(two_areas(frames, &settings.storage)),
            PolicyKind::FourArea => settings.engine(four_areas(frames, &settings.storage)),
            PolicyKind::FairRent => settings.engine(FairRent::new(&settings.storage)),
            PolicyKind::ClockPro => settings.engine(ClockPro::new()),
            PolicyKind::WTinyLfu => settings.engine(WTinyLfu::new(frames)),
            PolicyKind::Mglru => settings.engine(Mglru::new()),
            PolicyKind::Belady => settings.engine(Belady::new(trace)),
        };
        Ok(Simulation { run })
    }
}

impl Settings {
    fn check(&self) -> Result<(), SimulationError> {
        match self {
            Settings { frames: 0, .. } => Err(SimulationError::NoMemory),
            Settings { frames, .. } if *frames > MAX_PAGES => {
                Err(SimulationError::TooLarge(*frames))
            }
            Settings {
                flush_period: Some(0),
                ..
            } => Err(SimulationError::NoFlushPeriod),
            _ => Ok(()),
        }
    }

    fn engine<P: Policy + 'static>(&self, policy: P) -> Box<dyn Run> {
        let schedule = Schedule {
            warmup: self.warmup,
            flush_period: self.flush_period,
            swap_keeps_copy: self.storage.swap_keeps_copy,
        };
        Box::new(Engine::new(policy, self.frames, schedule))
    }
}
