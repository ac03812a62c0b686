//! Signals that end a recording.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Raised by the signals of this process.
pub(super) struct Signals {
    pub(super) interrupt: Arc<AtomicBool>,
    pub(super) terminate: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn catch() -> Result<Self, Failure> {
        let signals = Self {
            interrupt: Arc::default(),
            terminate: Arc::default(),
        };
        use signal_hook::consts::SIGHUP;
        use signal_hook::consts::SIGINT;
        use signal_hook::consts::SIGTERM;
        for (signal, flag) in [
            (SIGINT, &signals.interrupt),
            (SIGTERM, &signals.terminate),
            (SIGHUP, &signals.terminate),
        ] {
            signal_hook::flag::register(signal, Arc::clone(flag))
                .map_err(|error| Failure::new(format!("cannot catch signal {signal}: {error}")))?;
        }
        Ok(signals)
    }
}
