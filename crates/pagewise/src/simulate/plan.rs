//! What is to be simulated.

use pagewise_host::MemorySize;
use pagewise_refs::DEFAULT_PAGE_BYTES;
use pagewise_refs::Options;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Settings;
use pagewise_simulate::Storage;

use super::arguments::PolicyChoice;
use super::arguments::SimulateArguments;
use super::sizes;
use super::storage::StorageChoice;
use super::storage::with_ratio;
use crate::failure::Failure;

/// All that is asked for, before the trace is known.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policies: Vec<PolicyKind>,
    pub(crate) sizes: Vec<MemorySize>,
    pub(crate) page_bytes: u64,
    pub(crate) devices: StorageChoice,
    /// With the cost of a write to swap in reads, if that is swept.
    pub(crate) storages: Vec<(Option<u32>, Storage)>,
    pub(crate) warmup: u64,
    pub(crate) flush_period: Option<u64>,
    pub(crate) jobs: usize,
    /// Whether whole curves are wanted, too.
    pub(crate) curve: bool,
    pub(crate) reading: Options,
}

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Index into [`Plan::sizes`].
    pub(crate) size: usize,
    pub(crate) settings: Settings,
}

impl Plan {
    pub(crate) fn new(arguments: &SimulateArguments) -> Result<Self, Failure> {
        let asked_page = arguments.page_size.map(page_bytes).transpose()?;
        let page_bytes = asked_page.unwrap_or(DEFAULT_PAGE_BYTES);
        let models = arguments.storage_models.as_deref();
        let storage = arguments.storage.resolve(models, page_bytes)?;
        let storages = match &arguments.sweep {
            None => vec![(None, storage)],
            Some(sweep) => (sweep.ratios.iter())
                .map(|ratio| (Some(*ratio), with_ratio(storage, *ratio)))
                .collect(),
        };
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            policies: policies(&arguments.policy),
            sizes: arguments.memory.clone(),
            page_bytes,
            devices: arguments.storage.clone(),
            storages,
            warmup: arguments.warmup,
            flush_period: arguments.flush.0,
            jobs: arguments.jobs.map_or(available, usize::from),
            curve: arguments.curve,
            reading: Options {
                format: arguments.format,
                classify: arguments.classify,
                page_bytes: asked_page,
                columns: arguments.columns,
                skip_bad: arguments.skip_bad,
            },
        })
    }

    /// Whether the footprint must be known first.
    pub(crate) fn needs_footprint(&self) -> bool {
        sizes::needs_footprint(&self.sizes)
    }

    /// Whether the trace must be held in memory whatever its length: for the future, or for curves.
    pub(crate) fn needs_all(&self) -> bool {
        self.curve || self.policies.iter().any(|policy| policy.needs_future())
    }

    /// The simulations, none twice. CLOCK is among them, as the others are compared with it.
    pub(crate) fn cells(&self, footprint: Option<u32>) -> Result<Vec<Cell>, Failure> {
        let mut cells = Vec::new();
        for (size, memory) in self.sizes.iter().enumerate() {
            let frames = sizes::frames(*memory, self.page_bytes, footprint)?;
            for policy in self.simulated() {
                for (_, storage) in self.storages_of(policy) {
                    let settings = Settings {
                        policy,
                        frames,
                        storage: *storage,
                        warmup: self.warmup,
                        flush_period: self.flush_period,
                    };
                    cells.push(Cell { size, settings });
                }
            }
        }
        Ok(cells)
    }

    fn simulated(&self) -> impl Iterator<Item = PolicyKind> {
        let clock = Some(PolicyKind::Clock).filter(|clock| !self.policies.contains(clock));
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

/// The policies asked for, none twice.
fn policies(choices: &[PolicyChoice]) -> Vec<PolicyKind> {
    let mut policies = Vec::new();
    for choice in choices {
        let chosen = match choice {
            PolicyChoice::All => PolicyKind::ALL,
            PolicyChoice::One(policy) => std::slice::from_ref(policy),
        };
        for policy in chosen {
            if !policies.contains(policy) {
                policies.push(*policy);
            }
        }
    }
    policies
}

fn page_bytes(size: MemorySize) -> Result<u64, Failure> {
    match size {
        MemorySize::Bytes(bytes) if bytes.is_power_of_two() => Ok(bytes),
        size => Err(Failure::new(format!(
            "--page-size {size}: give bytes, a power of two, for example 4K or 16K"
        ))),
    }
}
