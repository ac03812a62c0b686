//! What the simulations say, as all outputs show it.

use pagewise_simulate::IoTime;
use pagewise_simulate::Outcome;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Storage;

use super::curves;
use super::curves::Curve;
use super::load::Input;
use super::load::References;
use super::plan::Cell;
use super::plan::Plan;
use crate::failure::Failure;

/// A trace's simulations.
pub(crate) struct Findings<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) input: &'a Input,
    pub(crate) rows: Vec<Row>,
    /// Whole curves, if they are wanted.
    pub(crate) curves: Vec<Curve>,
    /// What is to be said on standard error.
    pub(crate) notes: Vec<String>,
}

/// A policy at one size on one storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) policy: PolicyKind,
    /// Index into [`Plan::sizes`].
    pub(crate) size: usize,
    pub(crate) frames: u32,
    /// The cost of a write to swap in reads, if that is swept.
    pub(crate) write_read_ratio: Option<u32>,
    pub(crate) outcome: Outcome,
    pub(crate) io: IoTime,
    /// I/O time over CLOCK's; `None` if CLOCK needs none.
    pub(crate) io_vs_clock: Option<f64>,
    /// Misses over those of the optimum; `None` if it was not simulated.
    pub(crate) misses_vs_optimum: Option<f64>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        input: &'a Input,
        cells: &[Cell],
        counted: &[Outcome],
    ) -> Result<Self, Failure> {
        let references = input.facts.references;
        if plan.warmup >= references {
            return Err(Failure::new(format!(
                "--warmup {}: the trace has {references} references, so none would count; give less",
                plan.warmup
            )));
        }
        let table = Table { cells, counted };
        let mut rows = Vec::new();
        for (size, _) in plan.sizes.iter().enumerate() {
            for (ratio, storage) in &plan.storages {
                for policy in &plan.policies {
                    rows.extend(table.row(*policy, size, *ratio, storage));
                }
            }
        }
        let mut findings = Self {
            plan,
            input,
            rows,
            curves: whole_curves(plan, input)?,
            notes: input.facts.notes.clone(),
        };
        findings.notes.extend(findings.roomy());
        Ok(findings)
    }

    /// Sizes that hold the whole footprint say little.
    fn roomy(&self) -> Option<String> {
        let pages = self.input.facts.pages?;
        let roomy = |row: &&Row| row.frames >= pages;
        let size = self.plan.sizes[self.rows.iter().find(roomy)?.size];
        Some(format!(
            "a memory of {size} holds all {} pages of the trace: nothing is evicted, and only first touches miss",
            pagewise_report::count(pages.into())
        ))
    }

    /// Bytes of all distinct pages.
    pub(crate) fn footprint_bytes(&self) -> Option<u64> {
        let pages = self.input.facts.pages?;
        Some(u64::from(pages) * self.plan.page_bytes)
    }
}

fn whole_curves(plan: &Plan, input: &Input) -> Result<Vec<Curve>, Failure> {
    match (&input.references, input.facts.pages) {
        (References::Held(references), Some(pages)) if plan.curve => {
            curves::curves(plan, references, pages)
        }
        _ => Ok(Vec::new()),
    }
}

struct Table<'a> {
    cells: &'a [Cell],
    counted: &'a [Outcome],
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
        Some((self.cells[at].settings.frames, self.counted[at]))
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
