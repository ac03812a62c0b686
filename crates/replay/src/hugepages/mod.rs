//! Recorded use of memory under huge page policies.
//!
//! ```text
//! recording (accesses) --\
//! references with addresses -+-> Program (looks) -> Workload (TLB) -> Course for each policy -> HugeFindings -> JSON, CSV
//! table of coverage ------/
//! ```

mod arm;
mod coverage;
mod csv;
mod findings;
mod json;
mod load;
mod recording;
mod references;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use pagewise_refs::Options;
use pagewise_simulate::hugepages::Settings;
use pagewise_simulate::hugepages::Tlb;
use pagewise_simulate::hugepages::replay::Setup;
use pagewise_simulate::hugepages::replay::Workload;

pub use arm::HugeArm;
pub use arm::UnknownArm;
pub use findings::ArmFindings;
pub use findings::Basis;
pub use findings::HugeFindings;
pub use findings::ProgramFacts;

use crate::error::ReplayError;
use crate::watch::Step;
use crate::watch::Watch;
use crate::watch::tell;
use load::Loaded;

/// What is to be replayed, and how.
#[derive(Clone, Debug)]
pub struct HugeRequest {
    /// The policies.
    pub arms: Vec<HugeArm>,
    /// The TLB of each processor.
    pub tlb: Tlb,
    /// Rate, watermarks and utilisation of the manager; the policy in it is not looked at.
    pub settings: Settings,
    /// From one look of the manager to the next.
    pub interval: Duration,
    /// Memory of the machine, bytes. `None`: there is always enough.
    pub memory_bytes: Option<u64>,
    /// Of free memory, the share in pieces too small for a huge page, 0 to 1. `None`: unknown.
    pub fragmentation: Option<f64>,
    /// How long is replayed; `None`: as long as the longest trace.
    pub duration: Option<Duration>,
    /// How long a reference stands for, in traces of references.
    pub reference_time: Duration,
    /// Page-walk cycles over cycles of each trace's programs on base pages, 0 to 1, as counters of a processor said; empty: not
    /// known.
    pub overheads: Vec<f64>,
    /// How traces of references are read.
    pub reading: Options,
}

/// Replays traces, each of one program or several, beside each other.
///
/// # Errors
///
/// [`ReplayError`]: a trace cannot be read, or has no coverage; an overhead that cannot be.
pub fn replay_hugepages(
    traces: &[PathBuf],
    request: &HugeRequest,
    watch: &mut dyn Watch,
) -> Result<HugeFindings, ReplayError> {
    check(traces, request)?;
    let mut loaded = Loaded::default();
    for trace in traces {
        loaded.add(trace, request, watch)?;
    }
    let duration = request.duration.unwrap_or(loaded.duration);
    loaded.calibrate(request, duration)?;
    let workload = Workload::new(loaded.programs, request.tlb);
    let mut courses = Vec::new();
    for (done, arm) in (0..).zip(&request.arms) {
        let step = Step {
            what: "simulating",
            done,
            total: Some(request.arms.len() as u64),
        };
        tell(watch, step)?;
        let course = workload.replay(&Setup {
            settings: arm.settings(&request.settings),
            interval: request.interval,
            memory_bytes: request.memory_bytes,
            fragmentation: request.fragmentation,
            duration,
        });
        courses.push(ArmFindings { arm: *arm, course });
    }
    Ok(HugeFindings::new(
        request,
        duration,
        loaded.facts,
        courses,
        loaded.notes,
        &workload,
    ))
}

/// What can be known before anything is read.
fn check(traces: &[PathBuf], request: &HugeRequest) -> Result<(), ReplayError> {
    let given = request.overheads.len();
    if given > 0 && given != traces.len() {
        return Err(ReplayError::asked(format!(
            "--overhead has {given} values for {} traces: give one for each, in their order",
            traces.len()
        )));
    }
    Ok(())
}
