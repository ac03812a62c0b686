//! `pagewise simulate --hugepages`.

mod arguments;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use pagewise_report::text::ColorChoice;
use pagewise_report::text::Style;

pub(crate) use self::arguments::HugeArguments;
use super::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;
use crate::page;
use crate::progress::Progress;

const TEMPLATE: &str = include_str!("page.html");

pub(super) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    let request = arguments.hugepages.request(arguments)?;
    page::check(arguments.html.as_deref(), arguments.force)?;
    let traces: Vec<PathBuf> = arguments.traces().cloned().collect();
    let findings = pagewise_replay::replay_hugepages(&traces, &request, &mut Progress::default())?;
    for note in &findings.notes {
        tell!("pagewise: {note}");
    }
    let json = |indented| {
        let document = findings.to_json(indented);
        document.map_err(|error| Failure::new(error.to_string()))
    };
    let text = if arguments.json {
        json(true)?
    } else if arguments.csv {
        let rows = findings.to_csv();
        rows.map_err(|error| Failure::new(error.to_string()))?
    } else {
        table::render(&findings, Style::of_stdout(ColorChoice::Auto))
    };
    output::print(&text)?;
    if let Some(path) = &arguments.html {
        page::write(
            path,
            &page::render(TEMPLATE, &json(false)?),
            arguments.force,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
