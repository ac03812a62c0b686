//! `pagewise apply`: runs a program with a plan in force.
//!
//! ```text
//!   plan.toml -> compile: frames to addresses in the files as they are -> server: a memory file for each process
//!   setting: limit, swap, keeper -> session: the program to its end    -> outcome: what became of each rule
//!   outside: the rules about I/O, on processes that run already -----------^
//! ```

mod compile;
mod fresh;
mod io_outcome;
mod outcome;
mod outside;
mod room;
mod server;
mod session;

pub(crate) use self::outcome::Outcome;
pub(crate) use self::session::InForce;
pub(crate) use self::session::execute;
pub(crate) use self::session::tell_differences;

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pagewise_host::MemorySize;
use pagewise_host::Program;
use pagewise_host::SwapRequest;
use pagewise_host::page_bytes;
use pagewise_plan::Plan;

use crate::failure::Failure;
use crate::observe;
use crate::output::tell;
use crate::record;
use crate::record::delegation;
use crate::record::setting::ROOMY_SWAP_MARGIN;
use crate::record::setting::Setting;
use crate::record::setting::Surroundings;
use crate::record::signals::Signals;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArguments {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Memory the program may use: 512M, 2G, 2500p (pages), 60% (of its peak, as the plan or --peak states it)
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory: Option<MemorySize>,
    /// The program's peak memory, which percentages refer to
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) peak: Option<MemorySize>,
    /// Swap to use: `auto`, `zram[:ALGORITHM]`, `file[:PATH]`, `existing`, `none`; what is set up is removed afterwards
    /// [default: auto with --memory, else none]
    #[arg(long, value_name = "KIND")]
    pub(crate) swap: Option<SwapRequest>,
    /// Size of the swap that is set up [default: enough for the program's peak, or all of memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) swap_size: Option<MemorySize>,
    /// Write what became of the plan as JSON (schema pagewise.apply/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Under sudo, run the program as root and not as the calling user
    #[arg(long)]
    pub(crate) as_root: bool,
    /// Put the rules about I/O in force on these running processes and their children, from outside (comma-separated);
    /// Ctrl-C ends it, they go on
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["program", "cgroup"], allow_negative_numbers = true)]
    pub(crate) pid: Vec<u32>,
    /// The same on all processes of a cgroup: its path, a systemd unit (redis.service), or a container's name or id
    #[arg(long, value_name = "CGROUP", conflicts_with = "program")]
    pub(crate) cgroup: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "cgroup"], value_name = "CMD")]
    pub(crate) program: Vec<OsString>,
}

const EXAMPLES: &str = "Exit codes: the program's own, 128 + N if signal N killed it; 126 if it cannot be executed, 127 if it is not found; 125 if pagewise fails.

Examples:
  pagewise apply plan.toml --memory 512M -- ./solver input.txt
  pagewise apply plan.toml --memory 60% --swap file --json outcome.json -- ./solver input.txt
  sudo pagewise apply plan.toml --pid $(pidof scanner)";

pub(crate) fn run(arguments: &ApplyArguments) -> Result<ExitCode, Failure> {
    let plan = Plan::read(&arguments.plan)?;
    let json = arguments.json.as_deref();
    check_json(json)?;
    let running = observe::Running {
        pid: arguments.pid.clone(),
        cgroup: arguments.cgroup.clone(),
    };
    if running.is_meant() {
        refuse_surroundings(arguments)?;
        let (code, outcome) = outside::run(&plan, &running)?;
        tell_outcome(&outcome, json);
        return Ok(code);
    }
    let library = record::runtime_library().map_err(|why| {
        Failure::new(format!(
            "no plan without the preloaded library: {why}; type: make build"
        ))
    })?;
    let peak = match arguments.peak {
        Some(peak) => Some(peak.resolve(None, page_bytes())?),
        None => plan.memory.peak_bytes,
    };
    let surroundings = Surroundings {
        memory: arguments.memory,
        swap: arguments.swap.clone(),
        swap_size: arguments.swap_size,
        swap_margin: ROOMY_SWAP_MARGIN,
    };
    delegation::seek(surroundings.memory.is_some());
    let mut setting = Setting::prepare(&surroundings, peak)?;
    let ran = run_with(arguments, &plan, &library, &setting);
    record::restore(&mut setting);
    let (code, outcome) = ran?;
    tell_outcome(&outcome, json);
    Ok(ExitCode::from(code))
}

/// A running process stays in its surroundings.
fn refuse_surroundings(arguments: &ApplyArguments) -> Result<(), Failure> {
    let given = [
        ("--memory", arguments.memory.is_some()),
        ("--peak", arguments.peak.is_some()),
        ("--swap", arguments.swap.is_some()),
        ("--swap-size", arguments.swap_size.is_some()),
        ("--as-root", arguments.as_root),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::new(format!(
            "{option} is for a program that is started; leave it out with --pid and --cgroup"
        ))),
        None => Ok(()),
    }
}

/// Refuses a file for the outcome that cannot be written, before the program runs: afterwards it would be too late. A pipe or device is
/// left for the end, as who reads it would take an open and a close for all.
pub(crate) fn check_json(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else {
        return Ok(());
    };
    let mut options = File::options();
    options.write(true);
    let checked = match fs::metadata(path) {
        Ok(there) if there.is_file() || there.is_dir() => options.open(path).map(drop),
        Ok(_) => Ok(()),
        Err(_) => options
            .create_new(true)
            .open(path)
            .and_then(|_| fs::remove_file(path)),
    };
    checked.map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "cannot write {}: {error}; name another with --json FILE",
        path.display()
    ))
}

/// For people, and to a file if one is named. The exit code stays the program's own where that cannot be written any more.
pub(crate) fn tell_outcome(outcome: &Outcome, json: Option<&Path>) {
    for line in outcome.lines() {
        tell!("pagewise: {line}");
    }
    if let Some(path) = json
        && let Err(error) = fs::write(path, outcome.json())
    {
        tell!("pagewise: {}", not_written(path, &error));
    }
}

/// The program's exit code, and what became of the plan.
fn run_with(
    arguments: &ApplyArguments,
    plan: &Plan,
    library: &Path,
    setting: &Setting,
) -> Result<(u8, Outcome), Failure> {
    let signals = Signals::catch()?;
    let program = Program::new(&arguments.program)
        .as_root(arguments.as_root)
        .env_remove(pagewise_host::cgroup::DELEGATED);
    let in_force = InForce::new(plan, &program, setting)?;
    tell_differences(plan, &program.executable()?, in_force.limit_bytes());
    let run = execute(&in_force.given_to(program, library), setting, &signals)?;
    Ok((run.exit_code, in_force.outcome(run)))
}
