//! `pagewise report`.

mod source;
mod what_if;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use pagewise_analyze::Findings;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::analyze_file_io;
use pagewise_analyze::observed_ns;
use pagewise_report::diff;
use pagewise_report::html::HtmlError;
use pagewise_report::json::Report;
use pagewise_report::strip_io_prefixes;
use pagewise_report::strip_prefixes;
use pagewise_report::text;
use pagewise_report::text::ColorChoice;
use pagewise_report::text::Style;
use pagewise_trace::State;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use crate::cli::Color;
use crate::cli::ReportArguments;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;
use crate::target::Contents;
use crate::target::Target;

pub(crate) use what_if::Question;

pub(crate) fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.html {
        return html(arguments, path);
    }
    let after = findings(&arguments.trace)?;
    match &arguments.diff {
        Some(before) => {
            output::print(&difference(findings(before)?, after, arguments)?)?;
        }
        None => report(after, arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(mut findings: Findings, arguments: &ReportArguments) -> Result<(), Failure> {
    let style = style(arguments);
    if let Some(wanted) = &arguments.source {
        return output::print(&source::render(&findings, wanted, style)?);
    }
    strip_prefixes(&mut findings, &arguments.strip_prefix);
    let trace = Trace::open(&arguments.trace)?;
    let unasked = arguments.what_if.is_empty() && arguments.json;
    let what_if = match unasked {
        true => None,
        false => what_if::answers(&trace, &arguments.what_if)?,
    };
    let io = file_io(&trace, arguments)?;
    if arguments.json {
        let document = Report::new(&findings)
            .with_what_if(what_if)
            .with_file_io(io.as_ref());
        return output::print_by(|out| {
            document.write(&mut *out)?;
            out.write_all(b"\n")
        });
    }
    let lines = what_if.map_or(String::new(), |answers| answers.to_text());
    let io = io.map_or(String::new(), |io| text::render_file_io(&io, style));
    output::print(&(text::render(&findings, style) + &io + &lines))
}

/// How files were used; `None`: that was not recorded.
fn file_io(trace: &Trace, arguments: &ReportArguments) -> Result<Option<FileIo>, Failure> {
    let Some(mut io) = analyze_file_io(trace)? else {
        return Ok(None);
    };
    pagewise_advise::add_context_keys(trace, &mut io)?;
    strip_io_prefixes(&mut io, &arguments.strip_prefix);
    Ok(Some(io))
}

/// Writes the report as a page for browsers.
fn html(arguments: &ReportArguments, path: &Path) -> Result<ExitCode, Failure> {
    let contents = Contents {
        name: "an HTML report".to_owned(),
        is_text: false,
        option: "--html",
    };
    let target = Target::choose(path, &contents, arguments.force)?;
    complete(&arguments.trace)?;
    let trace = Trace::open(&arguments.trace)?;
    let findings = pagewise_analyze::analyze(&trace)?;
    let io = file_io(&trace, arguments)?;
    target.write("--html", |out| {
        let mut out = std::io::BufWriter::with_capacity(1 << 16, out);
        pagewise_report::html::write(
            &trace,
            findings,
            io.as_ref(),
            &arguments.strip_prefix,
            &mut out,
        )?;
        out.flush()?;
        Ok::<_, HtmlError>(())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn difference(
    mut before: Findings,
    mut after: Findings,
    arguments: &ReportArguments,
) -> Result<String, Failure> {
    strip_prefixes(&mut before, &arguments.strip_prefix);
    strip_prefixes(&mut after, &arguments.strip_prefix);
    let difference = diff::compare(&before, &after);
    match arguments.json {
        true => json_text(diff::to_json(&difference)),
        false => Ok(diff::render(&difference, style(arguments))),
    }
}

fn json_text(document: serde_json::Result<String>) -> Result<String, Failure> {
    let document = document.map_err(|error| Failure::new(error.to_string()))?;
    Ok(document + "\n")
}

fn style(arguments: &ReportArguments) -> Style {
    let choice = match arguments.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    Style {
        objects: arguments.objects,
        library_frames: arguments.library_frames,
        whole_paths: !arguments.strip_prefix.is_empty(),
        ..Style::of_stdout(choice)
    }
}

/// Reads a recording; one whose recorder was killed is first completed, as far as it goes.
fn findings(dir: &Path) -> Result<Findings, Failure> {
    complete(dir)?;
    Ok(pagewise_analyze::analyze(&Trace::open(dir)?)?)
}

/// Closes a recording whose recorder was killed, if it may be.
pub(crate) fn complete(dir: &Path) -> Result<(), Failure> {
    let trace = Trace::open(dir)?;
    if trace.meta().state == State::Closed || trace.in_progress() {
        return Ok(());
    }
    let wall_ns = observed_ns(&trace)?;
    drop(trace);
    match complete_with(dir, wall_ns) {
        // Someone else just began to, or it is not ours to write, or there is no room: report what there is, without
        // names.
        Err(TraceError::InUse { .. } | TraceError::Io { .. } | TraceError::DiskFull { .. }) => {
            Ok(())
        }
        other => Ok(other?),
    }
}

fn complete_with(dir: &Path, wall_ns: Option<u64>) -> Result<(), TraceError> {
    let Some(mut writer) = TraceWriter::resume(dir)? else {
        return Ok(());
    };
    tell!("pagewise: {} was cut short: completing it", dir.display());
    pagewise_analyze::names::add_names(&mut writer)?;
    writer.update_meta(|meta| meta.wall_ns = wall_ns)?;
    writer.close()?;
    Ok(())
}
