//! `pagewise guard`: runs a program whose heap objects end at guard pages, and says what went wrong with them.
//!
//! ```text
//!   the preloaded allocator (crate guard) -> ring -> session -> findings: call paths named -> text, JSON
//! ```

mod findings;
mod json;
mod session;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use pagewise_abi::guard as abi;
use pagewise_host::Program;

use crate::failure::Failure;
use crate::output::tell;
use crate::record;
use crate::record::preloadable;
use crate::record::signals::Signals;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GuardArguments {
    /// Write the errors and the summary as JSON (schema pagewise.guard/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Exit with N if there was an error, else with the program's own code
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) exit_code: u8,
    /// Go on after an error, and tell of each place once
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Look for leaks when a process ends: objects that nothing points to
    #[arg(long)]
    pub(crate) leaks: bool,
    /// Alignment of objects, bytes: auto (16 where the size is a multiple of it, else 8), 1 (each object ends exactly at its
    /// guard), 2, 4, 8 or 16
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) align: Align,
    /// Make guards by mprotect where the kernel has guard regions, too
    #[arg(long)]
    pub(crate) mprotect: bool,
    /// Under sudo, run the program as root and not as the calling user
    #[arg(long)]
    pub(crate) as_root: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) program: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  pagewise guard -- ./server --port 8080
  pagewise guard --keep-going --json errors.json -- ./tests
  pagewise guard --leaks --align 1 -- ./parser input.txt";

/// How objects are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Auto,
    To(u8),
}

impl FromStr for Align {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "1" | "2" | "4" | "8" | "16" => text.parse().map(Self::To).map_err(|_| String::new()),
            _ => Err("it is auto, 1, 2, 4, 8 or 16".to_owned()),
        }
    }
}

pub(crate) fn run(arguments: &GuardArguments) -> Result<ExitCode, Failure> {
    let library = library().map_err(|why| {
        Failure::new(format!(
            "no guard without its preloaded library: {why}; type: make build"
        ))
    })?;
    let program = Program::new(&arguments.program).as_root(arguments.as_root);
    let executable = program.executable()?;
    if let Some(why) = preloadable::obstacle_here(&executable, arguments.as_root) {
        return Err(Failure::new(format!(
            "{} cannot be guarded: {why}; link it dynamically with the GNU C library, or try valgrind",
            executable.display()
        )));
    }
    let signals = Signals::catch()?;
    let program = program
        .preload(library)
        .env(abi::OPTIONS_VARIABLE, options(arguments));
    let ran = session::run(program, &signals)?;
    tell!("{}", text::summary(&ran));
    if let Some(path) = &arguments.json {
        std::fs::write(path, json::document(&ran)).map_err(|error| {
            let path = path.display();
            Failure::new(format!(
                "cannot write {path}: {error}; name another with --json FILE"
            ))
        })?;
    }
    Ok(ExitCode::from(match ran.findings.is_empty() {
        true => ran.exit_code,
        false => arguments.exit_code,
    }))
}

fn options(arguments: &GuardArguments) -> String {
    let mut options = Vec::new();
    for (is_wanted, name) in [
        (arguments.keep_going, abi::OPTION_KEEP_GOING),
        (arguments.leaks, abi::OPTION_LEAKS),
        (arguments.mprotect, abi::OPTION_MPROTECT),
    ] {
        if is_wanted {
            options.push(name.to_owned());
        }
    }
    if let Align::To(bytes) = arguments.align {
        options.push(format!("{}{bytes}", abi::OPTION_ALIGN));
    }
    options.join(",")
}

/// The library to preload, beside this executable.
pub(crate) fn library() -> Result<PathBuf, String> {
    record::library_beside("libpagewise_guard.so")
}
