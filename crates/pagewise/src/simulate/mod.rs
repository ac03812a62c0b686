//! `pagewise simulate`.

mod arguments;
mod engine;
mod hugepages;
mod policy;
mod table;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use pagewise_report::text::ColorChoice;
use pagewise_report::text::Style;

pub(crate) use self::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;
use crate::page;
use crate::progress::Progress;

const TEMPLATE: &str = include_str!("page.html");

pub(crate) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    if arguments.sweep_of.engine.is_some() {
        return engine::run(arguments);
    }
    if arguments.hugepages.hugepages {
        return hugepages::run(arguments);
    }
    if let Some(second) = arguments.more.first() {
        return Err(Failure::new(format!(
            "{}: one trace at a time; several need --engine (each alone) or --hugepages (as programs beside each other)",
            second.display()
        )));
    }
    let request = arguments.request()?;
    page::check(arguments.html.as_deref(), arguments.force)?;
    let findings = pagewise_replay::replay(&arguments.trace, &request, &mut Progress::default())?;
    for note in &findings.notes {
        tell!("pagewise: {note}");
    }
    let rendered = |error: &dyn std::error::Error| Failure::new(error.to_string());
    let text = if arguments.json {
        findings.to_json(true).map_err(|error| rendered(&error))?
    } else if arguments.csv {
        findings.to_csv().map_err(|error| rendered(&*error))?
    } else {
        table::render(&findings, Style::of_stdout(ColorChoice::Auto))
    };
    output::print(&text)?;
    if let Some(path) = &arguments.html {
        let document = findings.to_json(false).map_err(|error| rendered(&error))?;
        page::write(path, &page::render(TEMPLATE, &document), arguments.force)?;
    }
    Ok(ExitCode::SUCCESS)
}
