//! What is to be simulated.

use std::path::PathBuf;

use pagewise_host::MemorySize;
use pagewise_refs::Classify;
use pagewise_refs::Columns;
use pagewise_refs::DEFAULT_PAGE_BYTES;
use pagewise_refs::Format;
use pagewise_refs::Options;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Sampler;
use pagewise_simulate::Settings;
use pagewise_simulate::Storage;

use crate::error::ReplayError;
use crate::selection::SampleRate;
use crate::selection::Sampled;
use crate::sizes;
use crate::storage::StorageChoice;
use crate::storage::Sweep;
use crate::storage::with_ratio;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// At least one.
    pub policies: Vec<PolicyKind>,
    /// Of memory; at least one. Percentages are of the footprint.
    pub sizes: Vec<MemorySize>,
    /// Bytes of a page, a power of two; `None`: 4 KiB for addresses, while blocks and objects are pages themselves.
    pub page_bytes: Option<u64>,
    /// The devices by name.
    pub devices: StorageChoice,
    /// A file of storage models in place of the built-in ones.
    pub storage_models: Option<PathBuf>,
    /// Costs of a write to swap, in reads, each to be tried.
    pub sweep: Option<Sweep>,
    /// References that only fill memory.
    pub warmup: u64,
    /// References between two flushes of written file pages; `None`: they are written when they leave memory.
    pub flush_period: Option<u64>,
    /// Simulations at once; `None`: one for each processor.
    pub jobs: Option<usize>,
    /// Whether whole curves are wanted, too.
    pub curve: bool,
    /// Simulate only so large a share of the pages, in memory as much smaller, and scale what they count; `None`: all.
    pub sample: Option<SampleRate>,
    /// Whether CLOCK is simulated, too, where it is not asked for, as the others are compared with it.
    pub beside_clock: bool,
    /// `None`: by content.
    pub format: Option<Format>,
    /// How files are told from anonymous memory; `None`: by what the trace has.
    pub classify: Option<Classify>,
    /// Of a csv without header.
    pub columns: Option<Columns>,
    /// Leave out lines that are not of the format.
    pub skip_bad: bool,
}

impl Default for Request {
    /// As of `pagewise simulate` without options, but for its policies and sizes: there are none.
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            sizes: Vec::new(),
            page_bytes: None,
            devices: StorageChoice::default(),
            storage_models: None,
            sweep: None,
            warmup: 0,
            flush_period: Some(pagewise_simulate::DEFAULT_FLUSH_PERIOD),
            jobs: None,
            curve: false,
            sample: None,
            beside_clock: true,
            format: None,
            classify: None,
            columns: None,
            skip_bad: false,
        }
    }
}

/// What is to be simulated, before the trace is known.
#[derive(Debug)]
pub struct Plan {
    /// None twice.
    pub policies: Vec<PolicyKind>,
    /// As asked for.
    pub sizes: Vec<MemorySize>,
    /// Of a page.
    pub page_bytes: u64,
    /// The devices by name.
    pub devices: StorageChoice,
    /// At least one; with the cost of a write to swap in reads, if that is swept.
    pub storages: Vec<(Option<u32>, Storage)>,
    /// References that only fill memory.
    pub warmup: u64,
    /// References between two flushes.
    pub flush_period: Option<u64>,
    pub(crate) jobs: usize,
    pub(crate) curve: bool,
    /// The share of the pages that is simulated; `None`: all.
    pub sample: Option<SampleRate>,
    pub(crate) beside_clock: bool,
    pub(crate) reading: Options,
}

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Index into [`Plan::sizes`].
    pub(crate) size: usize,
    /// That size in pages; of a sample, the settings have fewer.
    pub(crate) frames: u32,
    pub(crate) settings: Settings,
}

impl Plan {
    pub(crate) fn new(request: &Request) -> Result<Self, ReplayError> {
        let nothing = |what| Err(ReplayError::asked(format!("{what} is asked for: name one")));
        if request.policies.is_empty() {
            return nothing("no policy");
        }
        if request.sizes.is_empty() {
            return nothing("no size of memory");
        }
        let page_bytes = request.page_bytes.unwrap_or(DEFAULT_PAGE_BYTES);
        if !page_bytes.is_power_of_two() {
            return Err(ReplayError::asked(format!(
                "a page of {page_bytes} bytes: give a power of two, for example 4K or 16K"
            )));
        }
        if request.curve && request.sample.is_some() {
            return Err(ReplayError::asked(
                "a curve of a sample: curves are made from as many pages as they need; leave out the sample",
            ));
        }
        let models = request.storage_models.as_deref();
        let storage = request.devices.resolve(models, page_bytes)?;
        let storages = match &request.sweep {
            None => vec![(None, storage)],
            Some(sweep) => (sweep.ratios.iter())
                .map(|ratio| (Some(*ratio), with_ratio(storage, *ratio)))
                .collect(),
        };
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            policies: each_once(&request.policies),
            sizes: request.sizes.clone(),
            page_bytes,
            devices: request.devices.clone(),
            storages,
            warmup: request.warmup,
            flush_period: request.flush_period,
            jobs: request.jobs.unwrap_or(available).max(1),
            curve: request.curve,
            sample: request.sample,
            beside_clock: request.beside_clock,
            reading: Options {
                format: request.format,
                classify: request.classify,
                page_bytes: request.page_bytes,
                columns: request.columns,
                skip_bad: request.skip_bad,
            },
        })
    }

    /// What chooses the pages that are simulated; `None`: all are.
    pub(crate) fn sampler(&self) -> Option<Sampler> {
        self.sample.map(|rate| Sampler::new(rate.get()))
    }

    /// Whether the footprint must be known first, or what a sample chooses of it.
    pub(crate) fn needs_a_look(&self) -> bool {
        sizes::needs_footprint(&self.sizes) || self.sample.is_some()
    }

    /// Whether the trace must be held in memory whatever its length: for the future, or for curves.
    pub(crate) fn needs_all(&self) -> bool {
        self.curve || self.policies.iter().any(|policy| policy.needs_future())
    }

    /// The simulations, none twice.
    pub(crate) fn cells(
        &self,
        footprint: Option<u32>,
        sampled: Option<&Sampled>,
    ) -> Result<Vec<Cell>, ReplayError> {
        let sampler = sampled.map_or(Sampler::new(1.0), |sampled| sampled.sampler);
        let warmup = sampled.map_or(self.warmup, |sampled| sampled.warmup);
        let mut cells = Vec::new();
        for (size, memory) in self.sizes.iter().enumerate() {
            let frames = sizes::frames(*memory, self.page_bytes, footprint)?;
            for policy in self.simulated() {
                for (_, storage) in self.storages_of(policy) {
                    let frames_simulated = sampler.frames(frames);
                    let settings = Settings {
                        warmup,
                        flush_period: self.flush_period.map(|period| sampler.period(period)),
                        pages_each: sampler.pages_each(),
                        ..Settings::new(policy, frames_simulated, *storage)
                    };
                    cells.push(Cell {
                        size,
                        frames,
                        settings,
                    });
                }
            }
        }
        Ok(cells)
    }

    fn simulated(&self) -> impl Iterator<Item = PolicyKind> {
        let missing = self.beside_clock && !self.policies.contains(&PolicyKind::Clock);
        let clock = missing.then_some(PolicyKind::Clock);
        self.policies.iter().copied().chain(clock)
    }

    /// The storages for which a policy must be simulated: all if it goes by costs, else any.
    fn storages_of(&self, policy: PolicyKind) -> &[(Option<u32>, Storage)] {
        if policy.uses_costs() {
            &self.storages
        } else {
            &self.storages[..1]
        }
    }
}

fn each_once(asked: &[PolicyKind]) -> Vec<PolicyKind> {
    let mut policies = Vec::new();
    for policy in asked {
        if !policies.contains(policy) {
            policies.push(*policy);
        }
    }
    policies
}
