//! `pagewise hugepages --launch`: a program whose fresh memory comes in huge pages, from inside. A plan without rules.

use std::process::ExitCode;

use pagewise_host::Program;
use pagewise_host::counters::machine_memory;
use pagewise_plan::Fresh;
use pagewise_plan::Memory;
use pagewise_plan::Plan;

use super::arguments::LaunchArguments;
use crate::apply::InForce;
use crate::apply::check_json;
use crate::apply::execute;
use crate::apply::tell_outcome;
use crate::failure::Failure;
use crate::output::tell;
use crate::record;
use crate::record::setting::ROOMY_SWAP_MARGIN;
use crate::record::setting::Setting;
use crate::record::setting::Surroundings;
use crate::record::signals::Signals;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn run(arguments: &LaunchArguments) -> Result<ExitCode, Failure> {
    refuse_without_huge_pages()?;
    let json = arguments.json.as_deref();
    check_json(json)?;
    let library = record::runtime_library().map_err(|why| {
        Failure::new(format!(
            "no huge pages from inside without the preloaded library: {why}; type: make build"
        ))
    })?;
    let nothing_else = Surroundings {
        memory: None,
        swap: None,
        swap_size: None,
        swap_margin: ROOMY_SWAP_MARGIN,
    };
    let setting = Setting::prepare(&nothing_else, None)?;
    let signals = Signals::catch()?;
    let program = Program::new(&arguments.program)
        .as_root(arguments.as_root)
        .env_remove(pagewise_host::cgroup::DELEGATED);
    let plan = plan(arguments);
    let in_force = InForce::new(&plan, &program, &setting)?;
    let run = execute(&in_force.given_to(program, &library), &setting, &signals)?;
    let code = run.exit_code;
    tell_outcome(&in_force.outcome(run), json);
    Ok(ExitCode::from(code))
}

/// Of a program that is named to the manager, which manages those that run already.
pub(super) fn only_by_launch() -> Failure {
    Failure::new("a program is run with --launch alone; type: pagewise hugepages --launch -- CMD")
}

fn plan(arguments: &LaunchArguments) -> Plan {
    let fresh = if arguments.prezero {
        Fresh::Prezero
    } else {
        Fresh::Huge
    };
    let words = arguments.program.iter();
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    Plan {
        program: pagewise_plan::Program {
            executable: words.next().unwrap_or_default(),
            build_id: None,
            arguments: words.collect(),
            modules: Vec::new(),
        },
        memory: Memory {
            bytes: machine_memory().total_bytes.unwrap_or(u64::MAX),
            peak_bytes: None,
            lock_bytes: None,
            fresh: Some(fresh),
            prezero_rate: arguments.prezero_rate,
        },
        rules: Vec::new(),
        curve: Vec::new(),
        headway: Vec::new(),
        files: Vec::new(),
    }
}

/// What the kernel gives is its own choice: `never` means never, also where a program asks.
fn refuse_without_huge_pages() -> Result<(), Failure> {
    match std::fs::read_to_string(ENABLED) {
        Ok(text) if text.contains("[never]") => Err(Failure::new(format!(
            "huge pages are switched off; type: echo madvise | sudo tee {ENABLED}"
        ))),
        Ok(text) => {
            if text.contains("[always]") {
                tell!("pagewise: programs get huge pages here without being launched ({ENABLED})");
            }
            Ok(())
        }
        Err(error) => Err(Failure::new(format!(
            "this kernel has no transparent huge pages: cannot read {ENABLED}: {error}"
        ))),
    }
}
