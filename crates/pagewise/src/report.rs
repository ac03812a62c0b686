//! `pagewise report`.

use std::path::Path;
use std::process::ExitCode;

use pagewise_analyze::Findings;
use pagewise_report::json::Report;
use pagewise_report::text;
use pagewise_trace::State;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use crate::cli::ReportArguments;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;

pub(crate) fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    let findings = findings(&arguments.trace)?;
    if arguments.json {
        let json = Report::new(&findings)
            .to_text()
            .map_err(|error| Failure::new(error.to_string()))?;
        output::print(&format!("{json}\n"))?;
    } else {
        let style = text::Style {
            objects: arguments.objects,
            ..text::Style::of_stdout()
        };
        output::print(&text::render(&findings, style))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a recording; one whose recorder was killed is first completed, as far as it goes.
fn findings(dir: &Path) -> Result<Findings, Failure> {
    complete(dir)?;
    Ok(pagewise_analyze::analyze(&Trace::open(dir)?)?)
}

fn complete(dir: &Path) -> Result<(), Failure> {
    let trace = Trace::open(dir)?;
    if trace.meta().state == State::Closed || trace.in_progress() {
        return Ok(());
    }
    drop(trace);
    let mut writer = match TraceWriter::resume(dir) {
        Ok(Some(writer)) => writer,
        Ok(None) => return Ok(()),
        // Someone else just began to, or it is not ours to write: report what there is, without names.
        Err(TraceError::InUse { .. } | TraceError::Io { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    tell!("pagewise: {} was cut short: completing it", dir.display());
    pagewise_analyze::names::add_names(&mut writer)?;
    writer.close()?;
    Ok(())
}
