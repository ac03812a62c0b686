//! Long work that Ctrl-C ends.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::time::Instant;

use pagewise_replay::Step;
use pagewise_replay::Watch;
use pyo3::PyErr;
use pyo3::PyResult;
use pyo3::Python;
use pyo3::exceptions::PyRuntimeError;

/// How often signals are looked for.
const PERIOD: Duration = Duration::from_millis(50);

/// Ends a replay when Python has a signal to handle.
pub(crate) struct Signals {
    looked: Instant,
    /// What the signal's handler raised.
    pub(crate) raised: Option<PyErr>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self {
            looked: Instant::now(),
            raised: None,
        }
    }
}

impl Watch for Signals {
    fn at(&mut self, _: Step) -> ControlFlow<()> {
        if self.looked.elapsed() < PERIOD {
            return ControlFlow::Continue(());
        }
        self.looked = Instant::now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Works on a thread of its own, without Python's lock, while this one waits for signals. What a signal interrupts goes on
/// in the background to its end, and nobody hears of it.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        // Nobody listens any more if it was interrupted.
        let _ = sender.send(work());
    });
    loop {
        match py.detach(|| waited(&receiver)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the work ended in a panic"));
            }
        }
    }
}

fn waited<T>(receiver: &Mutex<Receiver<T>>) -> Result<T, RecvTimeoutError> {
    // Only this thread takes it, so that it cannot be poisoned.
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    receiver.recv_timeout(PERIOD)
}
