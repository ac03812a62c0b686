//! Why nothing can be predicted from a recording.

use std::error::Error;
use std::fmt;

use pagewise_trace::TraceError;

/// Why there is no prediction.
#[derive(Debug)]
#[non_exhaustive]
pub enum PredictError {
    /// A table of the recording cannot be read.
    Trace(TraceError),
    /// Faults and evictions, or the pages in memory, were not recorded.
    NotRecorded(&'static str),
    /// So little left memory that nothing is known of how it would.
    NoPressure,
    /// The recording reached its size, and later events were only counted.
    OnlyCounted,
}

impl fmt::Display for PredictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::NotRecorded(sensor) => write!(
                f,
                "other memory sizes cannot be predicted without the sensor {sensor}: record with --sensors faults,residency"
            ),
            Self::NoPressure => f.write_str(
                "other memory sizes cannot be predicted, as hardly anything left memory: record with less, for example \
                 --memory 60%",
            ),
            Self::OnlyCounted => f.write_str(
                "other memory sizes cannot be predicted, as the recording reached its size and later events were only \
                 counted: record with a larger --max-size",
            ),
        }
    }
}

impl Error for PredictError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            _ => None,
        }
    }
}

impl From<TraceError> for PredictError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}
