//! Signals that end a recording.

use std::cell::Cell;
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
    first: Cell<Option<(Signal, Instant)>>,
    is_passed_on: Cell<bool>,
}

impl Signals {
    /// Whether a snapshot is asked for; once.
    pub(super) fn take_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::Relaxed)
    }

    /// The signal that ends the recording, if it has come, and since when that is known.
    pub(crate) fn told(&self) -> Option<(Signal, Instant)> {
        if self.first.get().is_none()
            && let Some(signal) = self.come()
        {
            self.first.set(Some((signal, Instant::now())));
        }
        self.first.get()
    }

    fn come(&self) -> Option<Signal> {
        if self.terminate.load(Ordering::Relaxed) {
            Some(Signal::TERM)
        } else if self.interrupt.load(Ordering::Relaxed) {
            Some(Signal::INT)
        } else {
            None
        }
    }

    /// What is to be passed on to the program, once: each signal may do something there, and a second one may mean something
    /// else. From the terminal it has had its own SIGINT.
    pub(crate) fn take_for_program(&self) -> Option<Signal> {
        let (signal, _) = self.told()?;
        (signal == Signal::TERM && !self.is_passed_on.replace(true)).then_some(signal)
    }

    /// What this process was begun to ignore (`nohup`, a job in the background) it goes on ignoring, and so does the program
    /// that it starts: a handler would not be inherited by an exec.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let signals = Self {
            interrupt: Arc::default(),
            terminate: Arc::default(),
            snapshot: Arc::default(),
            first: Cell::default(),
            is_passed_on: Cell::default(),
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
