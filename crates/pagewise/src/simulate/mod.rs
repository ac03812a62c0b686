//! `pagewise simulate`.

mod arguments;
mod csv;
mod curves;
mod html;
mod json;
mod load;
mod outcome;
mod plan;
mod progress;
mod run;
mod sizes;
mod storage;
mod table;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use pagewise_refs::Reader;

pub(crate) use self::arguments::SimulateArguments;
use self::load::Input;
use self::outcome::Findings;
use self::plan::Plan;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;

pub(crate) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    let plan = Plan::new(arguments)?;
    html::check(arguments)?;
    let reader = Reader::open(&arguments.trace, &plan.reading)?;
    let mut input = Input::open(&arguments.trace, reader, &plan)?;
    let cells = plan.cells(input.footprint())?;
    let counted = run::run(&mut input, &cells, &plan)?;
    let findings = Findings::new(&plan, &input, &cells, &counted)?;
    for note in &findings.notes {
        tell!("pagewise: {note}");
    }
    if arguments.json {
        output::print(&json::render(&findings)?)?;
    } else if arguments.csv {
        output::print(&csv::render(&findings)?)?;
    } else {
        output::print(&table::render(
            &findings,
            pagewise_report::text::Style::of_stdout(pagewise_report::text::ColorChoice::Auto),
        ))?;
    }
    if let Some(path) = &arguments.html {
        html::write(path, &findings, arguments.force)?;
    }
    Ok(ExitCode::SUCCESS)
}
