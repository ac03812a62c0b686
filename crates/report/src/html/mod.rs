//! The report as one HTML file that needs nothing else: no network, no fonts, no second file.
//!
//! ```text
//! events --> Points --> Bands (what is where on the vertical axis) --> pack: columns, compressed
//!                 '---> Overview, Model (JSON) ------------------------------------------\
//! findings --> summary, tables (HTML, readable without scripts) --> page: one file <------'
//! ```
//!
//! All names come from strangers' programs: they are escaped (`escape.rs`), and the file's own policy lets no script run
//! but its own, and nothing be fetched.

mod bands;
mod coverage;
mod escape;
mod events;
mod file_io;
mod model;
mod overview;
mod pack;
mod page;
mod summary;
mod tables;

use std::io;
use std::io::Write;

use crate::strip_prefixes;
use pagewise_analyze::Findings;
use pagewise_analyze::Timeline;
use pagewise_analyze::file_io::FileIo;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

pub use escape::html as escaped;

use bands::Bands;
use events::Points;
use model::Model;
use pack::Window;

/// Everything that can go wrong with an HTML report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtmlError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The output takes no more: see the source.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

/// Writes the report of a recording, whose findings these are; paths are shown without these prefixes. `io`: how files were used, as far as
/// that was recorded; its paths are shown as they are.
///
/// Memory grows with events, up to about six million of them; of more, some are left out of the picture (not of the
/// sums), and the page says so. The file stays below 30 MiB.
///
/// # Errors
/// If a table cannot be read, or `out` takes no more. What was written before is then incomplete.
pub fn write(
    trace: &Trace,
    mut findings: Findings,
    io: Option<&FileIo>,
    prefixes: &[String],
    out: &mut dyn Write,
) -> Result<(), HtmlError> {
    // Before names are shortened: by them, objects and paths are found again in the trace.
    let points = Points::read(trace, &findings)?;
    strip_prefixes(&mut findings, prefixes);
    let findings = &findings;
    let timeline = Timeline::read(trace)?;
    let window = window(findings, &points, &timeline);
    let bands = Bands::of(&points.points, findings);
    let packed = pack::pack(&points.points, &bands, window)?;
    let model = Model::new(findings, io, &timeline, &points, &bands, &packed, window)?;
    page::write(findings, io, &points, &bands, &model, &packed, out)?;
    Ok(())
}

/// From the recording's start to its end, as far as they are known and fit what was seen.
fn window(findings: &Findings, points: &Points, timeline: &Timeline) -> Window {
    let meta = &findings.meta;
    let times = |first: bool| {
        let end = |moments: &[pagewise_analyze::MemoryUse]| {
            let moment = if first {
                moments.first()
            } else {
                moments.last()
            };
            moment.map(|moment| moment.time_ns)
        };
        let point = if first {
            points.points.first()
        } else {
            points.points.last()
        };
        let point = point.map(|point| point.time_ns);
        [point, end(&timeline.samples), end(&timeline.scans)]
    };
    let first = times(true).into_iter().flatten().min();
    let last = times(false).into_iter().flatten().max();
    let (Some(first), Some(last)) = (first, last) else {
        return Window {
            start_ns: 0,
            length_ns: meta.wall_ns.unwrap_or(1).max(1),
        };
    };
    // A start long before all that was seen is of another clock.
    let reach = meta.wall_ns.unwrap_or(0).max(last - first);
    let stated = meta.clock.start_monotonic_ns;
    let start_ns = stated
        .filter(|&start| start <= first && first - start <= reach)
        .unwrap_or(first);
    let wall_ns = meta.wall_ns.filter(|_| stated == Some(start_ns));
    Window {
        start_ns,
        length_ns: (last - start_ns + 1).max(wall_ns.unwrap_or(0)),
    }
}
