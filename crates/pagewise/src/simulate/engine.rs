//! `--engine`: many traces at once, by the Python package, which knows Ray.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use clap::ValueEnum;

use super::SimulateArguments;
use crate::failure::Failure;

/// Names another interpreter than `python3`, for example one of a virtual environment.
const PYTHON: &str = "PAGEWISE_PYTHON";
/// 0 if the package can be imported, 3 if it is not there.
const IS_THERE: &str =
    "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('pagewise') else 3)";

/// Where simulations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// This machine's processors.
    Local,
    /// A Ray cluster.
    Ray,
}

/// Becomes the package's own command, which understands the same options: it simulates, shows progress and takes Ctrl-C.
pub(super) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    // What cannot be is refused before Python is started.
    arguments.request()?;
    if arguments.traces().any(|trace| trace.as_os_str() == "-") {
        return Err(Failure::new(
            "--engine reads files and URLs: write standard input to a file first",
        ));
    }
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| OsString::from("python3"));
    find_package(&python)?;
    let error = Command::new(&python)
        .args(["-m", "pagewise"])
        .args(std::env::args_os().skip(1))
        .exec();
    Err(cannot_run(&python, &error))
}

fn find_package(python: &OsStr) -> Result<(), Failure> {
    let looked = Command::new(python)
        .args(["-c", IS_THERE])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| cannot_run(python, &error))?;
    if looked.success() {
        return Ok(());
    }
    let python = python.to_string_lossy();
    Err(Failure::new(format!(
        "--engine needs the Python package, which {python} has not; type in pagewise's sources: \
         {python} -m pip install './python[ray]' (or name another interpreter by {PYTHON})"
    )))
}

fn cannot_run(python: &OsStr, error: &std::io::Error) -> Failure {
    let python = python.to_string_lossy();
    Failure::new(format!(
        "--engine needs Python: cannot run {python}: {error}; install it, or name it by {PYTHON}"
    ))
}
