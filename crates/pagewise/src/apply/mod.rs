//! `pagewise apply`: runs a program with a plan in force.
//!
//! ```text
//!   plan.toml -> compile: frames to addresses in the files as they are -> server: a memory file for each process
//!   setting: limit, swap, keeper -> session: the program to its end    -> outcome: what became of each rule
//! ```

mod compile;
mod io_outcome;
mod outcome;
mod server;
mod session;

pub(crate) use self::session::InForce;
pub(crate) use self::session::execute;

use std::ffi::OsString;
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
use crate::output::tell;
use crate::record;
use crate::record::setting::ROOMY_SWAP_MARGIN;
use crate::record::setting::Setting;
use crate::record::setting::Surroundings;
use crate::record::signals::Signals;

use self::outcome::Outcome;

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
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) program: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  pagewise apply plan.toml --memory 512M -- ./solver input.txt
  pagewise apply plan.toml --memory 60% --swap file --json outcome.json -- ./solver input.txt";

pub(crate) fn run(arguments: &ApplyArguments) -> Result<ExitCode, Failure> {
    let plan = Plan::read(&arguments.plan)?;
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
    let mut setting = Setting::prepare(&surroundings, peak)?;
    let ran = run_with(arguments, &plan, &library, &setting);
    record::restore(&mut setting);
    let (code, outcome) = ran?;
    for line in outcome.lines() {
        tell!("pagewise: {line}");
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, outcome.json()).map_err(|error| {
            let path = path.display();
            Failure::new(format!(
                "cannot write {path}: {error}; name another with --json FILE"
            ))
        })?;
    }
    Ok(ExitCode::from(code))
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
    in_force.tell_differences(&program)?;
    let run = execute(&in_force.given_to(program, library), setting, &signals)?;
    Ok((run.exit_code, in_force.outcome(run)))
}
