//! Reading as the command reads, and processor time.

use std::error::Error;
use std::path::Path;

use pagewise_refs::Options;
use pagewise_refs::Reader;
use pagewise_simulate::Reference;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// Hands the references of a trace to `consume`, in chunks.
pub(crate) fn read(
    path: &Path,
    mut consume: impl FnMut(&[Reference]),
) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::open(path, &Options::default())?;
    while let Some(references) = reader.next_chunk()? {
        consume(references);
    }
    Ok(())
}

/// Processor time of all threads (ns).
pub(crate) fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
