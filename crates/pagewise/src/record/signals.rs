//! Signals that end a recording.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pagewise_host::signals::is_ignored;
use rustix::process::Signal;

use crate::failure::Failure;

/// Raised by the signals of this process.
pub(crate) struct Signals {
    pub(super) interrupt: Arc<AtomicBool>,
    pub(super) terminate: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

impl Signals {
    /// Whether a snapshot is asked for; once.
    pub(super) fn take_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::Relaxed)
    }

    /// The signal that ends the recording, if it has come, and that this is now.
    pub(crate) fn told(&self) -> Option<(Signal, Instant)> {
        let signal = if self.terminate.load(Ordering::Relaxed) {
            Signal::TERM
        } else if self.interrupt.load(Ordering::Relaxed) {
            Signal::INT
        } else {
            return None;
        };
        Some((signal, Instant::now()))
    }

    /// What this process was begun to ignore (`nohup`, a job in the background) it goes on ignoring, and so does the program
    /// that it starts: a handler would not be inherited by an exec.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let signals = Self {
            interrupt: Arc::default(),
            terminate: Arc::default(),
            snapshot: Arc::default(),
        };
        use signal_hook::consts::SIGHUP;
        use signal_hook::consts::SIGINT;
        use signal_hook::consts::SIGTERM;
        use signal_hook::consts::SIGUSR1;
        use signal_hook::consts::SIGXFSZ;
        for (signal, flag) in [
            (SIGINT, &signals.interrupt),
            (SIGTERM, &signals.terminate),
            (SIGHUP, &signals.terminate),
            (SIGUSR1, &signals.snapshot),
            // A file at the user's limit of sizes is then an error of its writing, and not our death. A handler, as what
            // is ignored would be so in the program too.
            (SIGXFSZ, &Arc::default()),
        ] {
            if is_ignored(signal) {
                continue;
            }
            signal_hook::flag::register(signal, Arc::clone(flag))
                .map_err(|error| Failure::new(format!("cannot catch signal {signal}: {error}")))?;
        }
        Ok(signals)
    }
}
