//! `pagewise hugepages`: the huge page manager, its status, a look at one process, and programs launched with huge pages.
//!
//! ```text
//!   targets (who) -> target (accessed bits, page tables) -> simulate::hugepages (what to do) -> act -> host::huge_pages
//!                                                                   budget, Signals --^   '-> status (file, table, JSON)
//! ```

mod act;
mod arguments;
mod budget;
mod config;
mod dry;
mod folder;
mod groups;
mod launch;
mod manager;
mod map;
mod pause;
mod prometheus;
mod sample;
mod scan;
mod sensor;
mod status;
mod table;
mod target;
mod targets;
mod work;

use std::process::ExitCode;
use std::time::Duration;

pub(crate) use self::arguments::HugepagesArguments;
use self::arguments::HugepagesCommand;
use self::arguments::ManageArguments;
pub(crate) use self::arguments::Percent;
pub(crate) use self::arguments::Rate;
pub(crate) use self::arguments::watermarks;
use self::folder::Folder;
use self::manager::Manager;
use crate::failure::Failure;
use crate::output;
use crate::output::tell;
use crate::record::signals::Signals;

pub(crate) fn run(arguments: &HugepagesArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Some(HugepagesCommand::Status(status)) => show(status)?,
        Some(HugepagesCommand::Scan(scan)) => scan::run(scan)?,
        None if arguments.launch.launch => return launch::run(&arguments.launch),
        None if !arguments.launch.program.is_empty() => return Err(launch::only_by_launch()),
        None => match &arguments.manage.config {
            // After `pagewise hugepages`.
            Some(path) => manage(&config::merged(path, std::env::args_os().skip(2))?)?,
            None => manage(&arguments.manage)?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn manage(arguments: &ManageArguments) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let folder = Folder::open(&arguments.state)?;
    let mut manager = Manager::new(arguments, folder)?;
    let done = manager.run(&signals);
    if arguments.once && done.is_ok() {
        // What it has done in its last second.
        manager.write_status()?;
    }
    manager.remove_prometheus();
    done?;
    tell!("pagewise: {}", manager.end());
    Ok(())
}

/// What the running manager last wrote.
fn show(arguments: &arguments::StatusArguments) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    loop {
        let text = folder::read_status(&arguments.state)?;
        if arguments.json {
            output::print(&text)?;
        } else {
            output::print(&table::render(&status::Status::parse(&text)?))?;
        }
        let Some(interval) = arguments.watch else {
            return Ok(());
        };
        if !wait(interval.0, &signals) {
            return Ok(());
        }
    }
}

/// False: a signal came first.
fn wait(time: Duration, signals: &Signals) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let end = std::time::Instant::now() + time;
    loop {
        if signals.told().is_some() {
            return false;
        }
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
}
