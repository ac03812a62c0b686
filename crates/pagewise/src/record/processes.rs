//! The program's processes, looked for from time to time where no sensor tells of them, or not of all: perf events do not
//! follow a process that runs a set-user-id program.

use std::collections::HashSet;

use pagewise_host::family;
use pagewise_host::process;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::facts::Clocks;
use super::residency::Residency;
use super::translate::Translator;

/// Whose processes they are.
#[derive(Debug)]
pub(super) struct Processes {
    /// Children of this process that are not the program's.
    others: HashSet<u32>,
    /// Processes that nobody has told of yet.
    untold: HashSet<u32>,
}

impl Processes {
    /// To be called before the program is started: what is there now is not the program's.
    pub(super) fn before_launch() -> Self {
        Self {
            others: family::children(std::process::id()).into_iter().collect(),
            untold: HashSet::new(),
        }
    }

    /// Tells the translator of processes that have come, gone, or run another program. `told`: a sensor does so too, and
    /// is given one round's time.
    pub(super) fn find(
        &mut self,
        told: bool,
        translator: &mut Translator,
        residency: Option<&Residency>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let now = Clocks::now().monotonic_ns;
        let found = family::descendants(std::process::id());
        let alive: HashSet<u32> = found
            .into_iter()
            .filter(|pid| !self.others.contains(pid) && process::is_alive(*pid))
            .collect();
        for (pid, space) in translator.live() {
            if !alive.contains(&pid) {
                translator.process_ended(pid, now, writer)?;
            } else if residency.is_some_and(|residency| residency.is_gone(space)) {
                // The memory has gone and the process lives: an exec.
                translator.introduce(pid, now, writer)?;
            }
        }
        let unknown: HashSet<u32> = alive
            .into_iter()
            .filter(|pid| !translator.knows(*pid))
            .collect();
        for &pid in &unknown {
            if !told || self.untold.contains(&pid) {
                translator.introduce(pid, now, writer)?;
            }
        }
        self.untold = unknown;
        Ok(())
    }
}
