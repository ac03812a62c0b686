//! Ctrl-C is for the program: it ends, and we finish our work.

use crate::signals;

/// SIGINT and SIGQUIT ignored, where this process would have died of them, until dropped.
#[derive(Debug)]
pub(super) struct IgnoredInterrupts {
    changed: Vec<i32>,
}

impl IgnoredInterrupts {
    pub(super) fn new() -> Self {
        let signals = [libc::SIGINT, libc::SIGQUIT];
        let changed = signals
            .into_iter()
            .filter(|signal| replace(*signal, libc::SIG_DFL, libc::SIG_IGN));
        IgnoredInterrupts {
            changed: changed.collect(),
        }
    }
}

impl Drop for IgnoredInterrupts {
    fn drop(&mut self) {
        for signal in &self.changed {
            // A handler that was installed meanwhile stays.
            replace(*signal, libc::SIG_IGN, libc::SIG_DFL);
        }
    }
}

/// Changes what a signal does, if it now does `from`; says whether it did.
fn replace(signal: i32, from: libc::sighandler_t, to: libc::sighandler_t) -> bool {
    if signals::action(signal) != Some(from) {
        return false;
    }
    // SAFETY: default and ignore install no code of ours.
    unsafe { libc::signal(signal, to) != libc::SIG_ERR }
}
