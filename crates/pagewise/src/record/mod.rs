//! `pagewise record`: limits a program, watches it, writes the trace, and puts everything back.
//!
//! ```text
//!   setting: limit, swap, keeper  --\
//!   sensors: faults, allocations, residency -> session: drains them until the program ends --> ending: names, headline
//!   translate: their records -> rows of the trace --/
//! ```

mod access;
mod anonymous;
pub(crate) mod call_paths;
mod condenser;
pub(crate) mod delegation;
mod ending;
pub(crate) mod facts;
pub(crate) mod fault_paths;
mod file_io;
mod footprint;
mod headway;
pub(crate) mod mapped;
pub(crate) mod mounts;
mod outcome;
mod page_walks;
mod peak;
pub(crate) mod preloadable;
mod pressure;
mod processes;
mod residency;
mod rounds;
pub(crate) mod running;
mod sampling;
mod sensors;
mod session;
pub(crate) mod setting;
pub(crate) mod signals;
mod snapshots;
mod subject;
mod told_code;
mod translate;
pub(crate) mod unprivileged;
pub(crate) mod waits;
pub(crate) mod why_killed;
mod window;
mod writes;

pub(crate) use sampling::SampleBytes;

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use pagewise_trace::Overwrite;

use self::outcome::Recorded;
use self::outcome::Stopped;
use self::setting::Setting;
use self::setting::Surroundings;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

const DEFAULT_FOLDER: &str = "pagewise.data";

pub(crate) fn run(arguments: &RecordArguments) -> Result<ExitCode, Failure> {
    require_sense(arguments)?;
    if arguments.debuginfod {
        pagewise_attribute::use_debuginfod()
            .map_err(|why| Failure::new(format!("--debuginfod: {why}")))?;
    }
    let (folder, overwrite) = destination(arguments)?;
    delegation::seek(arguments.memory.is_some());
    let peak_bytes = peak::peak_bytes(arguments)?;
    let mut setting = Setting::prepare(&Surroundings::of(arguments), peak_bytes)?;
    match session::record(arguments, &folder, overwrite, &mut setting) {
        Ok(recorded) => finish(recorded, &mut setting),
        Err(stopped) => {
            let Stopped { failure, rest } = *stopped;
            if let Some(rest) = rest {
                // Told at once, not when the program has ended.
                tell!("pagewise: {failure}; the recording ends here, the program goes on");
                let ended = rest.wait();
                restore(&mut setting);
                ended?;
                return Err(Failure::new(format!(
                    "the recording was cut short; see it with: pagewise report {}",
                    folder.display()
                )));
            }
            restore(&mut setting);
            Err(failure)
        }
    }
}

fn finish(mut recorded: Recorded, setting: &mut Setting) -> Result<ExitCode, Failure> {
    let Some(rest) = recorded.rest.take() else {
        // First everything is as before; only then is there time for names.
        restore(setting);
        return ending::finish(recorded);
    };
    // The recording can be looked at while the program goes on, under its limit.
    let finished = ending::finish(recorded);
    let code = rest.wait();
    restore(setting);
    finished?;
    Ok(ExitCode::from(code?))
}

/// What clap cannot say in words of use.
fn require_sense(arguments: &RecordArguments) -> Result<(), Failure> {
    snapshots::max_bytes(arguments)?;
    if !arguments.running.is_meant() {
        return Ok(());
    }
    if arguments.memory.is_some() {
        return Err(Failure::new(
            "--memory limits a program that pagewise starts, and leaves running processes where they are; type: \
             pagewise record --memory SIZE -- CMD, or limit their own unit: systemctl set-property UNIT MemoryMax=SIZE",
        ));
    }
    if arguments.measure_peak || arguments.peak.is_some() || arguments.as_root {
        return Err(Failure::new(
            "--peak, --measure-peak and --as-root are about a program that pagewise starts, not about running processes",
        ));
    }
    Ok(())
}

pub(crate) fn restore(setting: &mut Setting) {
    for failure in &setting.restore() {
        if failure.error.is_transient() {
            // Others may have swapped to it too, and have no room for it now.
            tell!("pagewise: {failure} (or wait: it is tried again for ten minutes)");
        } else {
            tell!("pagewise: {failure}");
        }
    }
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
    library_beside("libpagewise_runtime.so")
}

/// A library of ours, beside this executable.
pub(crate) fn library_beside(name: &str) -> Result<PathBuf, String> {
    let executable =
        std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let library = executable.parent().unwrap_or(Path::new("/")).join(name);
    if library.is_file() {
        Ok(library)
    } else {
        Err(format!("{name} is not beside {}", executable.display()))
    }
}
