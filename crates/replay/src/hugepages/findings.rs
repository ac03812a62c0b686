//! What huge page policies would have made of the traces.

use std::time::Duration;

use pagewise_simulate::hugepages::Tlb;
use pagewise_simulate::hugepages::replay::Course;
use pagewise_simulate::hugepages::replay::Workload;

use super::HugeArm;
use super::HugeRequest;

/// What is known of how often a program needs translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Counters of a processor said what page walks cost it.
    Measured,
    /// Its references were recorded.
    References,
    /// Nothing: it is taken to access its pages at random, with [`Tlb::work`] beside.
    Assumed,
}

impl Basis {
    /// The word for it in JSON and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::References => "references",
            Self::Assumed => "assumed",
        }
    }
}

/// A program that was replayed.
#[derive(Clone, Debug)]
pub struct ProgramFacts {
    /// Which of the traces holds it.
    pub trace_number: usize,
    /// Its path.
    pub trace: String,
    /// What it is called.
    pub name: String,
    /// What its overhead is based on.
    pub basis: Basis,
}

/// A policy, and what came of it.
#[derive(Clone, Debug)]
pub struct ArmFindings {
    /// The policy.
    pub arm: HugeArm,
    /// Step by step.
    pub course: Course,
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct HugeFindings {
    /// The TLB.
    pub tlb: Tlb,
    /// From one look of the manager to the next.
    pub interval: Duration,
    /// Its rate.
    pub promotions_per_second: f64,
    /// How long was replayed.
    pub duration: Duration,
    /// Memory of the machine, bytes. `None`: always enough.
    pub memory_bytes: Option<u64>,
    /// Of free memory, the share in pieces too small for a huge page, 0 to 1. `None`: unknown.
    pub fragmentation: Option<f64>,
    /// The programs.
    pub programs: Vec<ProgramFacts>,
    /// Page-walk cycles over cycles of each without huge pages. `None`: it did not run in that time.
    pub base_overheads: Vec<Option<f64>>,
    /// In the order asked for.
    pub arms: Vec<ArmFindings>,
    /// What is to be said about the traces.
    pub notes: Vec<String>,
}

impl HugeFindings {
    pub(super) fn new(
        request: &HugeRequest,
        duration: Duration,
        programs: Vec<ProgramFacts>,
        arms: Vec<ArmFindings>,
        notes: Vec<String>,
        workload: &Workload,
    ) -> Self {
        let of = workload.programs().iter();
        Self {
            tlb: request.tlb,
            interval: request.interval,
            promotions_per_second: request.settings.promotions_per_second,
            duration,
            memory_bytes: request.memory_bytes,
            fragmentation: request.fragmentation,
            programs,
            base_overheads: of
                .map(|program| program.base_overhead(workload.tlb(), duration))
                .collect(),
            arms,
            notes,
        }
    }
}
