//! What the simulations say, as all outputs show it.

use std::path::PathBuf;

use pagewise_refs::Classify;
use pagewise_refs::Format;
use pagewise_simulate::IoTime;
use pagewise_simulate::Outcome;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Storage;

use crate::curves;
use crate::curves::Curve;
use crate::error::ReplayError;
use crate::load::Facts;
use crate::load::Input;
use crate::load::References;
use crate::plan::Cell;
use crate::plan::Plan;
use crate::selection::SampleRate;
use crate::watch::Watch;

/// Pages of memory below which a sample's simulations are noise.
const FEW_FRAMES: u32 = 100;

/// A trace's simulations.
#[derive(Debug)]
pub struct Findings {
    /// What was simulated.
    pub plan: Plan,
    /// On what.
    pub trace: TraceFacts,
    /// By size, then storage, then policy.
    pub rows: Vec<Row>,
    /// Whole curves, if they are wanted.
    pub curves: Vec<Curve>,
    /// What is to be said beside it.
    pub notes: Vec<String>,
}

/// The trace that was replayed.
#[derive(Clone, Debug)]
pub struct TraceFacts {
    /// Where it is.
    pub path: PathBuf,
    /// As told, or found.
    pub format: Format,
    /// How files were told from anonymous memory; `None`: the format says it.
    pub classify: Option<Classify>,
    /// What is in it.
    pub facts: Facts,
}

/// A policy at one size on one storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of replacement.
    pub policy: PolicyKind,
    /// Index into [`Plan::sizes`].
    pub size: usize,
    /// That size in pages.
    pub frames: u32,
    /// The cost of a write to swap in reads, if that is swept.
    pub write_read_ratio: Option<u32>,
    /// What was counted, or what the counts of a sample stand for.
    pub outcome: Outcome,
    /// Standard error of the miss ratio: that of LRU from the same sample; `None`: it is exact.
    pub miss_ratio_error: Option<f64>,
    /// What that takes on the storage.
    pub io: IoTime,
    /// I/O time over CLOCK's; `None` if CLOCK needs none.
    pub io_vs_clock: Option<f64>,
    /// Misses over those of the optimum; `None` if it was not simulated.
    pub misses_vs_optimum: Option<f64>,
}

impl Findings {
    pub(crate) fn new(
        plan: Plan,
        input: Input,
        cells: &[Cell],
        counted: &[Outcome],
        watch: &mut dyn Watch,
    ) -> Result<Self, ReplayError> {
        let references = input.facts.references;
        if plan.warmup >= references {
            return Err(ReplayError::asked(format!(
                "--warmup {}: the trace has {references} references, so none would count; give less",
                plan.warmup
            )));
        }
        let table = Table {
            cells,
            counted,
            input: &input,
        };
        let mut rows = Vec::new();
        for (size, _) in plan.sizes.iter().enumerate() {
            for (ratio, storage) in &plan.storages {
                for policy in &plan.policies {
                    rows.extend(table.row(*policy, size, *ratio, storage));
                }
            }
        }
        let mut findings = Self {
            rows,
            curves: whole_curves(&plan, &input, watch)?,
            notes: input.facts.notes.clone(),
            plan,
            trace: TraceFacts {
                path: input.path,
                format: input.format,
                classify: input.classify,
                facts: input.facts,
            },
        };
        findings.notes.extend(findings.roomy());
        findings.notes.extend(findings.too_small_a_sample());
        Ok(findings)
    }

    /// Sizes that hold the whole footprint say little.
    fn roomy(&self) -> Option<String> {
        let pages = self.trace.facts.pages?;
        let roomy = |row: &&Row| row.frames >= pages;
        let size = self.plan.sizes[self.rows.iter().find(roomy)?.size];
        Some(format!(
            "a memory of {size} holds all {} pages of the trace: nothing is evicted, and only first touches miss",
            pagewise_report::count(pages.into())
        ))
    }

    /// Small memories of a sample are few pages.
    fn too_small_a_sample(&self) -> Option<String> {
        let sampler = self.plan.sampler()?;
        let few = |row: &&Row| sampler.frames(row.frames) < FEW_FRAMES;
        let row = self.rows.iter().find(few)?;
        Some(format!(
            "the sample leaves {} pages of a memory of {}, and fewer than {FEW_FRAMES} tell little: give a larger one",
            sampler.frames(row.frames),
            self.plan.sizes[row.size],
        ))
    }

    /// The share of the pages that was simulated; 1: all.
    pub fn sampling_rate(&self) -> f64 {
        self.plan.sample.map_or(1.0, SampleRate::get)
    }

    /// Bytes of all distinct pages; `None`: not known.
    pub fn footprint_bytes(&self) -> Option<u64> {
        let pages = self.trace.facts.pages?;
        Some(u64::from(pages) * self.plan.page_bytes)
    }
}

fn whole_curves(
    plan: &Plan,
    input: &Input,
    watch: &mut dyn Watch,
) -> Result<Vec<Curve>, ReplayError> {
    match (&input.references, input.facts.pages) {
        (References::Held(references), Some(pages)) if plan.curve => {
            curves::curves(plan, references, pages, watch)
        }
        _ => Ok(Vec::new()),
    }
}

struct Table<'a> {
    cells: &'a [Cell],
    counted: &'a [Outcome],
    input: &'a Input,
}

impl Table<'_> {
    /// What was counted for a policy at a size; of a policy that goes by costs, with this storage.
    fn find(&self, policy: PolicyKind, size: usize, storage: &Storage) -> Option<(u32, Outcome)> {
        let wanted = |cell: &Cell| {
            cell.size == size
                && cell.settings.policy == policy
                && (!policy.uses_costs() || cell.settings.storage == *storage)
        };
        let at = self.cells.iter().position(wanted)?;
        Some((self.cells[at].frames, self.counted[at]))
    }

    fn row(
        &self,
        policy: PolicyKind,
        size: usize,
        write_read_ratio: Option<u32>,
        storage: &Storage,
    ) -> Option<Row> {
        let (frames, outcome) = self.find(policy, size, storage)?;
        let io = outcome.io(storage);
        let clock = self.find(PolicyKind::Clock, size, storage);
        let clock_ns = clock.map(|(_, outcome)| outcome.io(storage).io_ns());
        let optimum = self.find(PolicyKind::Belady, size, storage);
        let fewest = optimum.map(|(_, outcome)| outcome.misses());
        Some(Row {
            policy,
            size,
            frames,
            write_read_ratio,
            outcome,
            miss_ratio_error: (self.input.sampled.as_ref())
                .and_then(|sampled| sampled.error(frames)),
            io,
            io_vs_clock: ratio(io.io_ns(), clock_ns),
            misses_vs_optimum: ratio(outcome.misses(), fewest),
        })
    }
}

/// `None` if there is nothing to compare with.
fn ratio(value: u64, base: Option<u64>) -> Option<f64> {
    let base = base.filter(|base| *base > 0)?;
    Some(value as f64 / base as f64)
}
