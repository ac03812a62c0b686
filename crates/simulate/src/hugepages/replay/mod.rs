//! What each policy would have made of programs whose use of memory was recorded.
//!
//! ```text
//!   Program (looks) --\                             /-> Controller -> promotions, demotions --\
//!   Tlb --------------+-> Workload --look by look--+                                           +-> Course
//!                      \                             \-> cost of translation, bloat ----------/
//! ```
//!
//! What was recorded goes on as it was: a program that runs faster does not get to its next phase sooner. Each has a processor,
//! and so a TLB, of its own. Promotion itself costs nothing here, and never fails.

mod course;
mod program;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use course::Course;
pub use course::ProgramCourse;
pub use course::Sample;
pub use course::State;
pub use program::Look;
pub use program::Program;
pub use program::Use;

use super::Action;
use super::Controller;
use super::Cycles;
use super::MemoryState;
use super::Processes;
use super::Settings;
use super::Tlb;
use state::Running;

/// How often the manager keeps house, and so how long a step of a replay is.
const STEP: Duration = Duration::from_secs(1);
/// Bytes of a base page.
pub const PAGE_BYTES: u64 = 4096;

/// What is replayed, with what it costs without any huge page, and with all that can be.
#[derive(Clone, Debug)]
pub struct Workload {
    programs: Vec<Program>,
    tlb: Tlb,
    bounds: Vec<Vec<Bounds>>,
}

/// Of one look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) base: Cycles,
    pub(crate) huge: Cycles,
}

/// How it is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The policy, its rate and its watermarks.
    pub settings: Settings,
    /// From one look of the manager at a program to the next; the first is when it begins.
    pub interval: Duration,
    /// Memory of the machine, bytes. `None`: there is always enough.
    pub memory_bytes: Option<u64>,
    /// Of free memory, the share in pieces too small for a huge page, 0 to 1, by which Ingens goes. `None`: unknown.
    pub fragmentation: Option<f64>,
    /// How long is replayed. A program whose looks end before goes on as it was last seen.
    pub duration: Duration,
}

impl Workload {
    /// These programs on processors with this TLB.
    pub fn new(programs: Vec<Program>, tlb: Tlb) -> Self {
        let bounds = programs.iter().map(|program| {
            let looks = program.looks().iter();
            let bounds = looks.map(|look| Bounds {
                base: look.cost(&tlb, |_| false),
                huge: look.cost(&tlb, Use::may_be_huge),
            });
            bounds.collect()
        });
        Self {
            bounds: bounds.collect(),
            programs,
            tlb,
        }
    }

    /// The programs, in the order in which they were given.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The TLB.
    pub fn tlb(&self) -> &Tlb {
        &self.tlb
    }

    /// What would have come of it under a policy.
    pub fn replay(&self, setup: &Setup) -> Course {
        let mut controller = Controller::new(&setup.settings);
        let mut processes = Processes::default();
        let mut running: Vec<Running<'_>> = self
            .programs
            .iter()
            .zip(&self.bounds)
            .map(|(program, bounds)| Running::new(program, bounds, &self.tlb))
            .collect();
        let step = STEP.min(setup.interval).max(Duration::from_millis(1));
        let mut course = Course::new(self.programs.len());
        let mut now = Duration::ZERO;
        while now < setup.duration {
            for one in &mut running {
                one.advance(now);
            }
            let used: u64 = running.iter().map(Running::bytes).sum();
            let total_bytes = setup.memory_bytes.unwrap_or(u64::MAX);
            controller.memory(&MemoryState {
                total_bytes,
                available_bytes: total_bytes.saturating_sub(used),
                fragmentation: setup.fragmentation,
            });
            for (id, one) in (0..).zip(&mut running) {
                if controller.is_at_first_touch() {
                    one.promote_touched();
                }
                let Some(overhead) = one.overhead() else {
                    processes.remove(id);
                    continue;
                };
                let process = processes.entry(id);
                if setup.settings.policy.needs_counters() {
                    process.set_overhead(Some(overhead));
                }
                if one.is_looked_at(now, setup.interval) {
                    process.observe(&one.seen(), now);
                }
            }
            act(&mut controller, &mut processes, &mut running, now);
            let length = step.min(setup.duration - now);
            course.push(now, length, running.iter_mut().map(Running::state));
            now += step;
        }
        for (of, one) in course.programs.iter_mut().zip(&running) {
            (of.promotions, of.demotions) = (one.promotions, one.demotions);
        }
        course
    }
}

/// Does what the policy says until it has nothing more, or the rate allows no more.
fn act(
    controller: &mut Controller,
    processes: &mut Processes,
    running: &mut [Running<'_>],
    now: Duration,
) {
    while let Some(action) = controller.next(processes, now) {
        let (Action::Promote { process, address }
        | Action::CountZeros { process, address }
        | Action::Demote { process, address }) = action;
        let one = &mut running[process as usize];
        let known = processes.entry(process);
        match action {
            Action::Promote { .. } if one.promote(address) => known.promoted(address),
            // Gone since the manager looked.
            Action::Promote { .. } => known.refused(address, now, STEP),
            Action::CountZeros { .. } => {
                known.counted(address, one.never_resident(address), now);
            }
            Action::Demote { .. } => known.demoted(address, one.demote(address), now),
        }
    }
}
