//! A string of references that could have been the program's: what is known, what sweeps passed over, and accesses made
//! up for pages in memory ([`crate::stays`]).

use pagewise_simulate::Reference;

use crate::history::History;
use crate::history::What;
use crate::sweeps::Sweeps;

/// The place of made-up accesses among steps of the same time.
const MADE_UP: u32 = u32::MAX / 2;

/// An access, or the end of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) at: u64,
    /// Of the same time: sweeps before the fault they led to.
    order: u32,
    pub(crate) page: u32,
    pub(crate) gone: bool,
}

impl Step {
    #[cfg(test)]
    pub(crate) fn access(at: u64, page: u32) -> Step {
        Step {
            at,
            order: u32::MAX,
            page,
            gone: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn end(at: u64, page: u32) -> Step {
        Step {
            gone: true,
            ..Step::access(at, page)
        }
    }

    pub(crate) fn made_up(at: u64, page: u32) -> Step {
        Step {
            at,
            order: MADE_UP,
            page,
            gone: false,
        }
    }

    /// Nobody saw it, and it is not known of a sweep.
    pub(crate) fn is_made_up(&self) -> bool {
        self.order == MADE_UP
    }

    pub(crate) fn reference(&self) -> Option<Reference> {
        Reference::new(self.page, true, false)
    }
}

/// What is known, in order of time: first touches, faults, what sweeps passed over.
pub(crate) fn known(history: &History, sweeps: &Sweeps) -> Vec<Step> {
    let mut steps = Vec::new();
    for moment in &history.moments {
        let gone = match moment.what {
            What::Touched | What::Faulted => false,
            What::Gone => true,
            What::Evicted => continue,
        };
        steps.push(Step {
            at: moment.at,
            order: u32::MAX,
            page: moment.page,
            gone,
        });
    }
    for passing in &sweeps.passings {
        let pages = u64::from(passing.after - passing.first);
        for (number, page) in (0..).zip(passing.pages()) {
            let at = passing.begin + (passing.end - passing.begin) * (number + 1) / (pages + 1);
            steps.push(Step {
                at,
                order: number as u32,
                page,
                gone: false,
            });
        }
    }
    steps.sort_unstable();
    steps
}
