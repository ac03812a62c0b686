//! The program's faults in short bursts: enough to see that all goes on as before, at a small part of what it costs to hear of each.

use pagewise_interpose::FaultEvents;
use pagewise_interpose::system;

/// So long faults are heard,
pub(super) const BURST_NS: u64 = 1_000_000;
/// and so long they are not.
pub(super) const SILENCE_NS: u64 = 20_000_000;

pub(super) struct Bursts {
    is_silent: bool,
    /// The kernel refused to be silent for a while.
    is_refused: bool,
    /// Of the whole process but this thread, when they were last counted.
    faults: u64,
}

impl Bursts {
    pub(super) const fn new() -> Self {
        Self {
            is_silent: false,
            is_refused: false,
            faults: 0,
        }
    }

    /// Whether there can be any.
    pub(super) fn are_possible(&self) -> bool {
        !self.is_refused
    }

    /// Nothing is told just now.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// From here on faults are counted that are not all heard.
    pub(super) fn begin(&mut self) {
        self.faults = system::faults_of_others();
    }

    /// How many faults there were since this was last asked, heard or not.
    pub(super) fn count(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.faults, system::faults_of_others());
        self.faults.saturating_sub(before)
    }

    /// The end of a burst. False: there is none, as the kernel refuses.
    pub(super) fn be_silent(&mut self, events: &FaultEvents) -> bool {
        self.is_refused = events.pause().is_err();
        self.is_silent = !self.is_refused;
        self.is_silent
    }

    /// Faults are told again. If the kernel refuses that, nobody is followed any more, so that the next look for threads asks anew.
    pub(super) fn listen(&mut self, events: &mut FaultEvents) {
        if std::mem::take(&mut self.is_silent) && events.go_on().is_err() {
            self.is_refused = true;
            events.stop();
        }
    }

    /// Nobody is followed any more: who is from here on is heard.
    pub(super) fn forget(&mut self) {
        self.is_silent = false;
    }
}
