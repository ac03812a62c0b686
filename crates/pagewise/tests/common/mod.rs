//! What the tests of the command share.
//!
//! ```text
//!   install   the command with its preloaded library beside it
//!   limited   processes that run already, in a cgroup with a limit
//!   machine   root, one test at a time, and everything as before afterwards
//!   command   runs of the command, each with a time limit
//!   paths     call paths of faults, as a report tells them
//!   plans     plans for such programs
//!   programs  small programs to record, compiled here
//!   resample  what a sampled recording would have been
//! ```

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod command;
pub(crate) mod install;
pub(crate) mod limited;
pub(crate) mod machine;
pub(crate) mod paths;
pub(crate) mod plans;
pub(crate) mod programs;
pub(crate) mod resample;

use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Whether that becomes true in time.
pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    condition()
}
