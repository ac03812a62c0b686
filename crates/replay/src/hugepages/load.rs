//! Traces of any kind as programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use pagewise_refs::RefsError;
use pagewise_simulate::hugepages::replay::Look;
use pagewise_simulate::hugepages::replay::Program;
use pagewise_simulate::hugepages::replay::Use;

use super::HugeRequest;
use super::coverage;
use super::findings::Basis;
use super::findings::ProgramFacts;
use super::recording;
use super::references;
use crate::error::ReplayError;
use crate::watch::Watch;

/// What one trace holds.
pub(super) struct Recorded {
    pub(super) programs: Vec<Named>,
    /// How long it lasts.
    pub(super) duration: Duration,
    pub(super) basis: Basis,
    pub(super) note: Option<String>,
}

/// A program of a trace.
pub(super) struct Named {
    /// `None`: it is the only one, and is called as the trace.
    pub(super) name: Option<String>,
    pub(super) program: Program,
    /// What counters of a processor said while it was recorded: the share of its cycles in page walks.
    pub(super) walks: Option<f64>,
}

/// All traces.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) programs: Vec<Program>,
    pub(super) facts: Vec<ProgramFacts>,
    /// Of each program, as it was recorded.
    walks: Vec<Option<f64>>,
    pub(super) duration: Duration,
    pub(super) notes: Vec<String>,
}

impl Loaded {
    pub(super) fn add(
        &mut self,
        path: &Path,
        request: &HugeRequest,
        watch: &mut dyn Watch,
    ) -> Result<(), ReplayError> {
        let recorded = if path.is_dir() {
            recording::read(path, &request.tlb)?
        } else if begins_as_table(path)? {
            coverage::read(path, request)?
        } else {
            references::read(path, request, watch)?
        };
        let trace = self.facts.last().map_or(0, |facts| facts.trace_number + 1);
        for Named {
            name,
            program,
            walks,
        } in recorded.programs
        {
            self.walks.push(walks);
            self.facts.push(ProgramFacts {
                trace_number: trace,
                trace: path.display().to_string(),
                name: name.unwrap_or_else(|| path.display().to_string()),
                basis: recorded.basis,
            });
            self.programs.push(program);
        }
        self.duration = self.duration.max(recorded.duration);
        self.notes.extend(recorded.note);
        Ok(())
    }

    /// Gives each program the overhead that was measured: as the request says, else as it was recorded.
    pub(super) fn calibrate(
        &mut self,
        request: &HugeRequest,
        duration: Duration,
    ) -> Result<(), ReplayError> {
        if request.overheads.is_empty() {
            self.calibrate_as_recorded(request, duration);
            return Ok(());
        }
        for (number, &measured) in request.overheads.iter().enumerate() {
            let mut any = None;
            let all = self.facts.iter_mut().zip(&mut self.programs);
            for (facts, program) in all.filter(|(facts, _)| facts.trace_number == number) {
                any = any.or_else(|| Some((facts.trace.clone(), false)));
                if program.calibrate(&request.tlb, duration, measured) {
                    facts.basis = Basis::Measured;
                    any = Some((facts.trace.clone(), true));
                }
            }
            if let Some((trace, false)) = any {
                return Err(ReplayError::asked(format!(
                    "--overhead {}%: {trace} accesses too few pages to have page walks on this TLB; leave its overhead out, or \
                     give a smaller --tlb",
                    measured * 100.0
                )));
            }
        }
        Ok(())
    }
}

impl Loaded {
    fn calibrate_as_recorded(&mut self, request: &HugeRequest, duration: Duration) {
        let all = self.facts.iter_mut().zip(&mut self.programs);
        for ((facts, program), walks) in all.zip(&self.walks) {
            let Some(measured) = *walks else { continue };
            if program.calibrate(&request.tlb, duration, measured) {
                facts.basis = Basis::Measured;
            } else {
                self.notes.push(format!(
                    "{}: its counters said {:.1} % of cycles in page walks, more than what it accesses can have on this TLB; \
                     give a smaller --tlb",
                    facts.name,
                    measured * 100.0
                ));
            }
        }
    }
}

/// Whether it is a table of coverage: that has a header.
fn begins_as_table(path: &Path) -> Result<bool, ReplayError> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| {
        file.take(coverage::HEADER.len() as u64)
            .read_to_end(&mut head)
    });
    read.map_err(|source| RefsError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(head == coverage::HEADER.as_bytes())
}

/// Looks from rows that come by time.
#[derive(Default)]
pub(super) struct Looks {
    looks: Vec<Look>,
}

impl Looks {
    /// Adds a region, with cycles of work beside its lookups, to the look of that time.
    pub(super) fn add(&mut self, time: Duration, region: Use, work: f64) {
        if self.looks.last().is_none_or(|look| look.time != time) {
            self.looks.push(Look {
                time,
                ..Look::default()
            });
        }
        if let Some(look) = self.looks.last_mut() {
            look.regions.push(region);
            look.work += work;
        }
    }

    pub(super) fn last(&self) -> Option<&Look> {
        self.looks.last()
    }

    pub(super) fn finish(self, end: Option<Duration>) -> Program {
        Program::new(self.looks, end)
    }
}
