//! A trace of page references under many policies, sizes of memory and storage devices at once.
//!
//! ```text
//! Request -> Plan: cells (policy, size, storage) --\
//! trace -> Input: references, held or as a stream --+--> run: what each cell counts -> Findings -> JSON, CSV
//! ```
//!
//! The trace is decoded once, whatever the number of cells, and processors work side by side. `pagewise simulate` and
//! the Python package are two faces of this.
//!
//! ```
//! use pagewise_replay::{Request, Unwatched, replay};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("blocks.lis");
//! std::fs::write(&path, "1 2 0 0\n1 2 0 1\n")?;
//! let request = Request {
//!     policies: vec!["lru".parse()?],
//!     sizes: vec!["2p".parse()?],
//!     ..Request::default()
//! };
//! let findings = replay(&path, &request, &mut Unwatched)?;
//! assert_eq!((findings.rows[0].outcome.references, findings.rows[0].outcome.misses()), (4, 2));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod csv;
mod curves;
mod error;
mod hugepages;
mod json;
mod load;
mod outcome;
mod plan;
mod run;
mod selection;
mod sizes;
mod storage;
mod watch;

use std::path::Path;

use pagewise_refs::Reader;

pub use curves::Curve;
pub use curves::Point;
pub use error::ReplayError;
pub use hugepages::ArmFindings;
pub use hugepages::Basis;
pub use hugepages::HugeArm;
pub use hugepages::HugeFindings;
pub use hugepages::HugeRequest;
pub use hugepages::ProgramFacts;
pub use hugepages::UnknownArm;
pub use hugepages::replay_hugepages;
pub use load::Facts;
pub use outcome::Findings;
pub use outcome::Row;
pub use outcome::TraceFacts;
pub use plan::Plan;
pub use plan::Request;
pub use selection::SampleRate;
pub use storage::StorageChoice;
pub use storage::Sweep;
pub use watch::Step;
pub use watch::Unwatched;
pub use watch::Watch;

use load::Input;

/// Replays a trace: a file that [`pagewise_refs`] can read, `-` for standard input, or the folder of a recording.
///
/// # Errors
///
/// [`ReplayError`]. What is asked for is checked before the trace is read, as far as that can be.
pub fn replay(
    trace: &Path,
    request: &Request,
    watch: &mut dyn Watch,
) -> Result<Findings, ReplayError> {
    let plan = Plan::new(request)?;
    let reader = Reader::open(trace, &plan.reading)?;
    let mut input = Input::open(trace, reader, &plan, watch)?;
    let cells = plan.cells(input.footprint(), input.sampled.as_ref())?;
    let counted = run::run(&mut input, &cells, &plan, watch)?;
    Findings::new(plan, input, &cells, &counted, watch)
}
