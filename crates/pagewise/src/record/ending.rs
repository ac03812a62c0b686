//! After the program: names, the closed trace, the headline.

use std::path::Path;
use std::process::ExitCode;

use pagewise_analyze::analyze;
use pagewise_analyze::file_io::analyze_file_io;
use pagewise_analyze::names;
use pagewise_report::bytes;
use pagewise_report::count;
use pagewise_report::duration;
use pagewise_report::text::display_name;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use super::outcome::Recorded;
use crate::failure::Failure;
use crate::output::tell;

pub(super) fn finish(recorded: Recorded) -> Result<ExitCode, Failure> {
    let Recorded {
        mut writer, code, ..
    } = recorded;
    let folder = writer.dir().to_owned();
    match names::add_names(&mut writer) {
        // A program that did nothing to record has nothing to name.
        Ok(()) | Err(TraceError::Empty { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    writer.close()?;
    if let Some((modules, first)) = pagewise_attribute::debuginfod_failures() {
        tell!(
            "pagewise: modules that servers have no debug information for: {modules}; of one of them: {first}"
        );
    }
    summarize(&folder)?;
    Ok(ExitCode::from(code))
}

/// The path, a few numbers, and what to type next: to standard error, the program owns standard output.
fn summarize(folder: &Path) -> Result<(), Failure> {
    let findings = analyze(&Trace::open(folder)?)?;
    let totals = &findings.totals;
    tell!("pagewise: recorded to {}", folder.display());
    let wall = findings
        .meta
        .wall_ns
        .map_or("unknown time".to_owned(), duration);
    if findings.faults_observed() {
        tell!(
            "  {wall} in all, {} waiting for {} swap-ins",
            duration(totals.stall_ns),
            count(totals.swap_ins)
        );
        tell!(
            "  {} evictions, {} pages written",
            count(totals.evictions),
            count(totals.pages_written)
        );
    } else if findings.swap_ins_observed() {
        tell!(
            "  {wall} in all; {} swap-ins, how long they took is not known",
            count(totals.swap_ins)
        );
    } else {
        tell!("  {wall} in all; faults and evictions were not observed");
    }
    if let Some(io) = analyze_file_io(&Trace::open(folder)?)? {
        tell!(
            "  {} calls read {} and wrote {}, of {} files",
            count(io.calls),
            bytes(io.read_bytes),
            bytes(io.written_bytes),
            count(io.files.len() as u64)
        );
    }
    if let (Some(peak), Some(limit)) = (findings.meta.peak_rss_bytes, findings.meta.limit.bytes) {
        tell!(
            "  peak resident {} under a limit of {}",
            bytes(peak),
            bytes(limit)
        );
    }
    if let Some(worst) = findings
        .objects
        .first()
        .filter(|object| object.counts.stall_ns > 0)
    {
        tell!(
            "  most of it for {}: {}",
            display_name(worst),
            duration(worst.counts.stall_ns)
        );
    }
    if let Some(reason) = &findings.meta.exit.reason {
        tell!("pagewise: {reason}");
    }
    let lost: u64 = findings.meta.losses.values().sum();
    if lost > 0 {
        tell!(
            "pagewise: {} records were lost; the report says which",
            count(lost)
        );
    }
    let default = folder == Path::new(super::DEFAULT_FOLDER);
    let name = if default {
        String::new()
    } else {
        format!(" {}", folder.display())
    };
    tell!("pagewise: see it with: pagewise report{name}");
    Ok(())
}
