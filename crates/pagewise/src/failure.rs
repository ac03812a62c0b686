//! Errors as the user sees them: one line, and an exit code as in `env` and `timeout`.

use std::fmt;
use std::process::ExitCode;

use pagewise_collect::CollectError;
use pagewise_export::fleet::FleetError;
use pagewise_import::ImportError;
use pagewise_plan::PlanError;
use pagewise_replay::ReplayError;
use pagewise_report::error_text;
use pagewise_trace::TraceError;

/// Our own failure, as opposed to the program's.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: OWN_FAILURE,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<pagewise_host::Error> for Failure {
    fn from(error: pagewise_host::Error) -> Self {
        Self {
            code: error.exit_code(),
            message: error_text(&error),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::new(error_text(&error))
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(error_text(&error))
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::new(error_text(&error))
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self::new(error_text(&error))
    }
}

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        Self::new(error_text(&error))
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::new(error_text(&error))
    }
}
