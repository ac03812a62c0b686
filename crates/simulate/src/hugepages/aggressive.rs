//! Aggressive while memory is ample (HawkEye, section 3.2: bloat is recovered, and so need not be feared): what is touched for
//! the first time gets a huge page at once, and what was there before, or came while memory was short, as by HawkEye-G.
//! From outside of a program nobody is there at its first faults: that is the launcher's part.

use super::Choice;
use super::Policy;
use super::Process;
use super::Processes;
use super::hawkeye_g::HawkEyeG;

/// The order of what did not get its huge page at its first touch.
#[derive(Debug, Default)]
pub(crate) struct Aggressive(HawkEyeG);

impl Policy for Aggressive {
    fn next(&mut self, processes: &Processes) -> Option<Choice> {
        self.0.next(processes)
    }

    fn best_of(&self, process: &Process) -> Option<u64> {
        self.0.best_of(process)
    }

    fn is_at_first_touch(&self) -> bool {
        true
    }
}
