//! `pagewise record`: limits a program, watches it, writes the trace, and puts everything back.
//!
//! ```text
//!   setting: limit, swap, keeper  --\
//!   sensors: faults, allocations  ---> session: drains them until the program ends --> ending: names, headline
//!   translate: their records -> rows of the trace --/
//! ```

mod call_paths;
mod ending;
mod facts;
mod peak;
mod pressure;
mod sensors;
mod session;
mod setting;
mod signals;
mod translate;
mod why_killed;

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use pagewise_trace::Overwrite;

use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

const DEFAULT_FOLDER: &str = "pagewise.data";

pub(crate) fn run(arguments: &RecordArguments) -> Result<ExitCode, Failure> {
    let (folder, overwrite) = destination(arguments)?;
    let peak_bytes = peak::peak_bytes(arguments)?;
    let mut setting = setting::Setting::prepare(arguments, peak_bytes)?;
    let recorded = session::record(arguments, &folder, overwrite, &mut setting);
    // Whatever happened, first everything is as before; only then is there time for names.
    let failures = setting.restore();
    for failure in &failures {
        if failure.error.is_transient() {
            // Others may have swapped to it too, and have no room for it now.
            tell!("pagewise: {failure} (or wait: it is tried again for ten minutes)");
        } else {
            tell!("pagewise: {failure}");
        }
    }
    let recorded = recorded?;
    ending::finish(recorded)
}

/// Where to write, checked before anything is changed or run.
fn destination(arguments: &RecordArguments) -> Result<(PathBuf, Overwrite), Failure> {
    let Some(folder) = &arguments.output else {
        return Ok((PathBuf::from(DEFAULT_FOLDER), Overwrite::KeepOld));
    };
    let parent = folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        let parent = parent.display();
        return Err(Failure::new(format!(
            "{parent} is no folder: make it with mkdir -p {parent}"
        )));
    }
    if arguments.force {
        return Ok((folder.clone(), Overwrite::Replace));
    }
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::new(format!(
            "{} exists: name another with -o, or overwrite it with -f",
            folder.display()
        )));
    }
    Ok((folder.clone(), Overwrite::Refuse))
}

/// The library to preload, beside this executable.
pub(crate) fn runtime_library() -> Result<PathBuf, String> {
    const NAME: &str = "libpagewise_runtime.so";
    let executable =
        std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let library = executable.parent().unwrap_or(Path::new("/")).join(NAME);
    if library.is_file() {
        Ok(library)
    } else {
        Err(format!("{NAME} is not beside {}", executable.display()))
    }
}
