//! The program, from its start to its end, with the plan in force.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use pagewise_abi::plan::PLAN_VARIABLE;
use pagewise_host::CgroupHost;
use pagewise_host::Launched;
use pagewise_host::MemoryCgroup;
use pagewise_host::OomRelief;
use pagewise_host::Program;
use pagewise_plan::Plan;
use pagewise_report::bytes;

use super::compile::Compiled;
use super::compile::compile;
use super::outcome::Outcome;
use super::outcome::Run;
use super::room;
use super::server::PlanServer;
use crate::failure::Failure;
use crate::output::tell;
use crate::record::setting::Setting;
use crate::record::signals::Signals;
use crate::record::why_killed::FreeSwap;
use crate::record::why_killed::why_killed;

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// After a signal to us, how long the program may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// A plan that is served to the processes of a program.
pub(crate) struct InForce<'plan> {
    plan: &'plan Plan,
    compiled: Compiled,
    server: PlanServer,
    /// While the program runs.
    _room: Option<room::Watch>,
    limit_bytes: Option<u64>,
    limit_file: Option<PathBuf>,
}

impl<'plan> InForce<'plan> {
    /// Looks the plan's rules up in the program as it is now.
    pub(crate) fn new(
        plan: &'plan Plan,
        program: &Program,
        setting: &Setting,
    ) -> Result<Self, Failure> {
        let (limit_bytes, limit_file) = limit(setting);
        // The file is known once the program is started, the plan must be there before: its name is looked up twice.
        let executable = program.executable()?;
        let compiled = compile(plan, &executable, limit_bytes);
        let server = PlanServer::start(&compiled.bytes)?;
        let cgroup = setting.cgroup.as_ref().map(MemoryCgroup::path);
        let room = room::is_wanted(plan)
            .then(|| room::watch(server.writer(), cgroup, plan.memory.prezero_rate));
        let room = room.transpose()?;
        Ok(Self {
            plan,
            server,
            _room: room,
            compiled,
            limit_bytes,
            limit_file,
        })
    }

    /// The limit that the program will have.
    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// The program with the plan.
    pub(crate) fn given_to(&self, program: Program, library: &Path) -> Program {
        program
            .preload(library)
            .env(PLAN_VARIABLE, self.server.socket())
    }

    /// What became of it in a run that has ended.
    pub(crate) fn outcome(&self, mut run: Run) -> Outcome {
        run.limit_bytes = self.limit_bytes;
        run.limit_file.clone_from(&self.limit_file);
        Outcome::new(self.plan, &self.compiled, self.server.words(), run)
    }
}

/// Runs a program to its end in these surroundings. A signal to us is for it, too.
pub(crate) fn execute(
    program: &Program,
    setting: &Setting,
    signals: &Signals,
) -> Result<Run, Failure> {
    let mut launched = program.start()?;
    if let Some(cgroup) = &setting.cgroup {
        cgroup.add(launched.pid())?;
    }
    let began = Instant::now();
    launched.release()?;
    let relief = setting.cgroup.as_ref().zip(setting.limit.bytes);
    let relief = relief.and_then(|(cgroup, limit)| OomRelief::hold(cgroup, limit));
    let mut run = Run::default();
    run.exit_code = wait(&mut launched, relief.as_ref(), signals, setting, &mut run)?;
    run.wall_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(run)
}

fn wait(
    launched: &mut Launched,
    relief: Option<&OomRelief>,
    signals: &Signals,
    setting: &Setting,
    run: &mut Run,
) -> Result<u8, Failure> {
    let mut free_swap = FreeSwap::now(setting.cgroup.as_ref());
    loop {
        if let Some(exit) = launched.wait_timeout(LOOK_EVERY)? {
            let nudges = relief.map_or(0, OomRelief::nudges);
            run.limit_raised_times = nudges;
            run.read_bytes = Some(exit.read_bytes);
            let at_the_kill = relief.and_then(OomRelief::free_swap_at_the_end);
            let free_swap = at_the_kill.map_or(free_swap, FreeSwap::AtTheKill);
            run.killed = why_killed(Some(exit.how), setting, free_swap, nudges);
            return Ok(exit.code());
        }
        // Once somebody was killed, what that one had in swap is free again.
        let cgroup = setting.cgroup.as_ref();
        if cgroup.and_then(MemoryCgroup::oom_kills).unwrap_or(0) == 0 {
            free_swap = FreeSwap::now(cgroup);
        }
        let Some((signal, since)) = signals.told() else {
            continue;
        };
        if let Some(signal) = signals.take_for_program() {
            let _ = launched.signal(signal);
        }
        if since.elapsed() > GRACE {
            tell!("pagewise: the program goes on, without limit; its locks and prefetching stay");
            return Ok(128 + signal.as_raw() as u8);
        }
    }
}

/// The limit that the program will have, bytes: ours, or one around it that is no larger, with the file that sets that one.
fn limit(setting: &Setting) -> (Option<u64>, Option<PathBuf>) {
    let around = CgroupHost::detect()
        .ok()
        .and_then(|host| host.limit_around());
    match (setting.limit.bytes, around) {
        (Some(own), Some(around)) if around.bytes <= own => {
            (Some(own), Some(around.cgroup.join(around.kind)))
        }
        (None, Some(around)) => (Some(around.bytes), Some(around.cgroup.join(around.kind))),
        (own, _) => (own, None),
    }
}

/// Says where a run is not the one that the plan was made for.
pub(crate) fn tell_differences(plan: &Plan, executable: &Path, limit_bytes: Option<u64>) {
    let planned = Path::new(&plan.program.executable);
    if planned.file_name() != executable.file_name() {
        tell!(
            "pagewise: the plan was made for {}, this is {}: its rules match where that is run, or the same code is",
            planned.display(),
            executable.display()
        );
    } else if let Some(planned) = &plan.program.build_id
        && let Ok(file) = pagewise_plan::ModuleFile::read(executable)
        && file.build_id() != Some(planned)
    {
        tell!(
            "pagewise: {} was built anew since the plan was made: its rules match where the functions are as they were",
            executable.display()
        );
    }
    match limit_bytes {
        Some(limit) if limit.abs_diff(plan.memory.bytes) > plan.memory.bytes / 20 => tell!(
            "pagewise: the plan was made for {}, the limit is {}",
            bytes(plan.memory.bytes),
            bytes(limit)
        ),
        None => tell!(
            "pagewise: no memory limit is known, the plan was made for {}; type: pagewise apply --memory {} ...",
            bytes(plan.memory.bytes),
            plan.memory.bytes
        ),
        Some(_) => {}
    }
}
