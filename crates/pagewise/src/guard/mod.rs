//! `pagewise guard`: runs a program whose heap objects end at guard pages, and says what went wrong with them.
//!
//! ```text
//!   the preloaded allocator (crate guard) -> ring -> session -> findings: call paths named -> text, JSON, SARIF
//! ```

mod allocator;
mod findings;
mod json;
mod options;
mod sarif;
mod session;
mod suppress;
mod text;

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pagewise_abi::guard as abi;
use pagewise_host::Program;

pub(crate) use self::options::Align;
pub(crate) use self::options::Sample;

use self::session::Ran;
use self::session::Side;
use self::suppress::Suppressions;
use crate::failure::Failure;
use crate::input::Input;
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
    /// Run the program twice, the second time with objects that begin at a guard: finds what is read before them, too. What
    /// the second run writes to its standard output is dropped
    #[arg(long)]
    pub(crate) both_sides: bool,
    /// Tell of copies (memcpy) onto a part of themselves
    #[arg(long)]
    pub(crate) overlap: bool,
    /// Fill objects of malloc and new with this byte (0 to 255, or 0xaa) when they are made, not with zeros: what reads them before
    /// it writes to them shows
    #[arg(long, value_name = "BYTE", value_parser = options::byte)]
    pub(crate) fill: Option<u8>,
    /// Stop the program at each error that is told, so that a debugger can be attached; SIGCONT continues it
    #[arg(long)]
    pub(crate) stop: bool,
    /// Leave a core where an error ends the program, as large as its hard limit permits
    #[arg(long)]
    pub(crate) core: bool,
    /// Memory for objects' pages: beyond it, small objects neither made nor brought back lately are kept without their padding until they
    /// are touched. In each process; needs root or vm.unprivileged_userfaultfd=1
    #[arg(long, value_name = "SIZE", value_parser = options::limit)]
    pub(crate) memory: Option<u64>,
    /// Guard one object in N, chosen by chance; the others are the next allocator's
    #[arg(long, value_name = "1/N", default_value = "1/1")]
    pub(crate) sample: Sample,
    /// Do not guard smaller objects
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    pub(crate) min: Option<u64>,
    /// Do not guard larger objects
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    pub(crate) max: Option<u64>,
    /// Do not tell of errors that a line of FILE names: KIND:PATTERN, of a function, file or module (see docs/guard.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) suppressions: Option<PathBuf>,
    /// Write the errors as SARIF 2.1.0, for code hosts
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,
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
  pagewise guard --memory 512M -- ./indexer
  pagewise guard --both-sides -- ./decoder picture.png
  pagewise guard --leaks --align 1 -- ./parser input.txt";

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
    let suppressions = match &arguments.suppressions {
        Some(path) => Suppressions::read(path)?,
        None => Suppressions::default(),
    };
    if let Some(warning) = allocator::warning() {
        tell!("pagewise: {warning}");
    }
    let signals = Signals::catch()?;
    let program = program.preload(library);
    let first = program
        .clone()
        .env(abi::OPTIONS_VARIABLE, options::of(arguments, Side::End));
    let input = Input::at_start();
    let mut ran = session::run(first, Side::End, &signals, &suppressions, &[])?;
    if arguments.both_sides && signals.told().is_none() {
        input.rewind();
        let second = program
            .quiet(true)
            .env(abi::OPTIONS_VARIABLE, options::of(arguments, Side::Begin));
        let more = session::run(second, Side::Begin, &signals, &suppressions, &ran.findings)?;
        ran.add(more);
    }
    tell!("{}", text::summary(&ran));
    for (path, option, document) in [
        (
            &arguments.json,
            "--json",
            json::document as fn(&Ran) -> String,
        ),
        (&arguments.sarif, "--sarif", sarif::document),
    ] {
        if let Some(path) = path {
            write(path, option, &document(&ran))?;
        }
    }
    Ok(ExitCode::from(match ran.findings.is_empty() {
        true => ran.exit_code,
        false => arguments.exit_code,
    }))
}

fn write(path: &Path, option: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        let path = path.display();
        Failure::new(format!(
            "cannot write {path}: {error}; name another with {option} FILE"
        ))
    })
}

/// The library to preload, beside this executable.
pub(crate) fn library() -> Result<PathBuf, String> {
    record::library_beside("libpagewise_guard.so")
}
