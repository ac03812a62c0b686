//! How a recording ends, and what may go on after it.

use std::time::Duration;

use pagewise_host::Exit;
use pagewise_host::Launched;
use pagewise_host::OomRelief;
use pagewise_host::launch::HowEnded;
use pagewise_trace as trace;
use pagewise_trace::TraceWriter;
use rustix::process::Signal;

use super::session::GRACE;
use super::signals::Signals;
use super::subject::Subject;
use crate::failure::Failure;
use crate::output::tell;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A recording that has ended, not yet closed.
pub(super) struct Recorded {
    pub(super) writer: TraceWriter,
    /// What to exit with, unless the program goes on.
    pub(super) code: u8,
    /// The program, if it outlives the recording by our doing.
    pub(super) rest: Option<Rest>,
}

/// A recording that failed.
pub(super) struct Stopped {
    pub(super) failure: Failure,
    /// The program, if it had begun.
    pub(super) rest: Option<Rest>,
}

impl<E> From<E> for Box<Stopped>
where
    Failure: From<E>,
{
    fn from(error: E) -> Self {
        Box::new(Stopped {
            failure: error.into(),
            rest: None,
        })
    }
}

/// The program after its recording: it keeps its limit and swap, and we are there until its end.
pub(super) struct Rest {
    launched: Box<Launched>,
    /// Looks after it.
    _relief: Option<OomRelief>,
    signals: Signals,
}

impl Rest {
    /// `None`: nothing that we would have to wait for.
    pub(super) fn of(
        subject: Subject,
        relief: Option<OomRelief>,
        signals: Signals,
    ) -> Option<Self> {
        match subject {
            Subject::Program(launched) => Some(Self {
                launched,
                _relief: relief,
                signals,
            }),
            Subject::Running(_) => None,
        }
    }

    /// Waits for its end and returns its code. A signal to us is for the program, too.
    pub(super) fn wait(mut self) -> Result<u8, Failure> {
        loop {
            if let Some(exit) = self.launched.wait_timeout(LOOK_EVERY)? {
                return Ok(exit.code());
            }
            let Some((signal, since)) = self.signals.told() else {
                continue;
            };
            if let Some(signal) = self.signals.take_for_program() {
                let _ = self.launched.signal(signal);
            }
            if since.elapsed() > GRACE {
                tell!("pagewise: the program goes on, without limit");
                return Ok(128 + signal.as_raw() as u8);
            }
        }
    }
}

/// How the observation ended.
pub(super) struct End {
    /// `None`: the program goes on, or there was none of ours.
    pub(super) exit: Option<Exit>,
    /// The time was up, and the program is waited for.
    pub(super) goes_on: bool,
    code: u8,
}

impl End {
    /// The program ended, or (`None`) the last of the processes that ran before.
    pub(super) fn of(exit: Option<Exit>) -> Self {
        Self {
            exit,
            goes_on: false,
            code: exit.map_or(0, |exit| exit.code()),
        }
    }

    /// `--duration` is over.
    pub(super) fn in_time() -> Self {
        Self {
            exit: None,
            goes_on: true,
            code: 0,
        }
    }

    /// We were told to stop. That is how a recording of running processes is ended: no failure.
    pub(super) fn stopped_by(signal: Signal, of_program: bool) -> Self {
        let failed = 128 + signal.as_raw() as u8;
        Self {
            exit: None,
            goes_on: false,
            code: if of_program { failed } else { 0 },
        }
    }

    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// For the trace.
    pub(super) fn facts(&self, reason: Option<String>) -> trace::Exit {
        let how = self.exit.map(|exit| exit.how);
        trace::Exit {
            code: match how {
                Some(HowEnded::Code(code)) => Some(code.into()),
                _ => None,
            },
            signal: match how {
                Some(HowEnded::Signal(signal)) => Some(signal.into()),
                _ => None,
            },
            reason,
        }
    }
}
