//! How long was recorded, where the recorder did not live to say so.

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// From the first sample of memory use to the last, which stands at the end of what was flushed; `None`: there are no
/// two.
///
/// # Errors
/// If the table cannot be read.
pub fn observed_ns(trace: &Trace) -> Result<Option<u64>, TraceError> {
    let times: Vec<u64> = trace.samples()?.iter().map(|row| row.time_ns).collect();
    let (first, last) = (times.iter().min(), times.iter().max());
    let length = first.zip(last).map(|(first, last)| last - first);
    Ok(length.filter(|&ns| ns > 0))
}
