//! Advice on all that was recorded: memory, input and output, huge pages.

use pagewise_analyze::Findings;
use pagewise_analyze::file_io::Thresholds;
use pagewise_analyze::file_io::analyze_file_io_by;
use pagewise_plan::Target;
use pagewise_predict::Model;
use pagewise_simulate::hugepages::Tlb;
use pagewise_trace::Trace;

use crate::Advice;
use crate::NoAdvice;
use crate::advise;
use crate::contexts::Libraries;
use crate::curve;
use crate::huge::HugeAdvice;
use crate::huge_advice;
use crate::io_advice;
use crate::targets::name_modules;
use crate::without_memory;

/// What a plan is to be for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Memory, in bytes; `None`: the recording's limit.
    pub memory_bytes: Option<u64>,
    /// What the user may lock, in bytes; `None`: as much as there is.
    pub lockable_bytes: Option<u64>,
    /// Which call paths get a rule about input and output; their memory is the one above.
    pub thresholds: Thresholds,
    /// What gains by huge pages are reckoned with; `None`: the default, with the page walks that were measured where it was recorded.
    pub tlb: Option<Tlb>,
}

/// All that `pagewise plan` has to say, with the curve over sizes of memory if there is a model.
///
/// # Errors
/// If the recording cannot be read, or lacks what any of the three needs.
pub fn advise_on_all(
    trace: &Trace,
    findings: &Findings,
    model: Option<&Model>,
    request: &Request,
) -> Result<Advice, NoAdvice> {
    let memory = request.memory_bytes;
    let thresholds = Thresholds {
        memory_bytes: memory,
        ..request.thresholds
    };
    let io = analyze_file_io_by(trace, &thresholds)?;
    let has_accesses = !findings.working_set.is_empty();
    let mut advice = match advise(trace, findings, request, model) {
        Err(NoAdvice::Lacks(_)) if io.is_some() || has_accesses => without_memory(trace, memory)?,
        of_memory => of_memory?,
    };
    let huge = huge_advice(trace, findings, &advice.plan.memory, request.tlb)?;
    if let Some(io) = io {
        let of_huge = huge.as_ref().map_or(&[][..], HugeAdvice::rules);
        let mut rules = advice.plan.rules.iter().chain(of_huge);
        // Their paths are without frames of libraries.
        let libraries = match rules.any(|rule| matches!(rule.target, Target::Allocation { .. })) {
            true => Libraries::Never,
            false => Libraries::WhereNeeded,
        };
        advice.add_io(io_advice(trace, &io, libraries)?);
    }
    if let Some(huge) = huge {
        advice.add_huge(huge);
    }
    if let Some(model) = model {
        advice.plan.curve = curve(model);
    }
    name_modules(trace, &mut advice.plan)?;
    Ok(advice)
}
