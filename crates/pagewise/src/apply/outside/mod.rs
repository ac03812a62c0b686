//! `pagewise apply --pid`: a plan's rules about I/O in force on processes that run already, whatever they are written in.
//!
//! ```text
//!   sensor (BPF): calls of recognized paths, pages that come and go -> listener: whose, which rules -> hints
//!   hints -> files: the process's open file (pidfd_getfd), if it is still that one -> posix_fadvise -> was it of use?
//!            pages: which pages are ours, and lie behind the calls
//! ```

mod contexts;
mod files;
mod hints;
mod hold;
mod listener;
mod pages;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use pagewise_abi::plan::PlanView;
use pagewise_abi::status::Total;
use pagewise_collect::Options;
use pagewise_collect::SwapSensor;
use pagewise_host::Keeper;
use pagewise_host::Restorer;
use pagewise_host::RunningProcess;
use pagewise_host::open_file;
use pagewise_plan::Plan;
use pagewise_plan::Target;
use rustix::event::Timespec;
use rustix::io::Errno;

use self::contexts::Contexts;
use self::hold::Holds;
use self::listener::Listener;
use super::compile::Compiled;
use super::compile::compile_from_outside;
use super::outcome::FromOutside;
use super::outcome::Outcome;
use super::outcome::Run;
use crate::failure::Failure;
use crate::observe;
use crate::output::tell;
use crate::record::call_paths::CallPaths;
use crate::record::facts::Clocks;
use crate::record::mapped::Mapped;
use crate::record::running::Running;
use crate::record::signals::Signals;
use crate::record::unprivileged::is_lack_of_privilege;

/// While calls come, the last of them wait so long at most: each MiB or so wakes us sooner.
const BUSY_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const IDLE_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Puts the plan into force until a signal comes or the processes have ended.
pub(super) fn run(plan: &Plan, named: &observe::Running) -> Result<(ExitCode, Outcome), Failure> {
    if !plan
        .rules
        .iter()
        .any(|rule| matches!(rule.target, Target::Io { .. }))
    {
        return Err(Failure::new(
            "the plan has no rule about I/O, and only these can be put into force from outside; start the program with: pagewise apply PLAN -- CMD",
        ));
    }
    let signals = Signals::catch()?;
    pagewise_host::open_files::allow_most();
    let start = Clocks::now();
    let mut running = Running::find(named)?;
    running.look(None, &Default::default())?;
    let members = running.processes();
    let holds = take_hold(&members)?;
    let mut call_paths = CallPaths::default();
    let files = mapped_files(&members, &mut call_paths.mapped);
    let compiled = compile_from_outside(plan, files.clone());
    let Some(view) = PlanView::decode(&compiled.bytes) else {
        return Err(Failure::new(
            "the plan could not be put into words of its own",
        ));
    };
    let sensor = load(&start)?;
    let contexts = Contexts::new(view, &files);
    let mut listener = Listener::new(sensor, view, contexts, call_paths, holds);
    let tells = |index| view.readahead(&view.rule(index)).is_some();
    if (0..view.rules()).any(tells) {
        let keeper = Keeper::start_without_log(Path::new("/proc/self/exe"))?;
        listener.hints.restorer = Some(Restorer::new(keeper));
    }
    running.join(Some(&listener.sensor))?;
    tell!(
        "pagewise: {} of {} rules in force on {}; Ctrl-C ends it, they go on",
        compiled.rules.iter().flatten().count(),
        compiled.rules.len(),
        match members.as_slice() {
            [one] => format!("process {one}"),
            several => format!("{} processes", several.len()),
        }
    );
    let began = Clocks::now();
    let followed = follow(&mut running, &mut listener, &signals);
    // However it ended: the processes go on.
    listener.hints.finish();
    followed?;
    Ok((
        ExitCode::SUCCESS,
        outcome(plan, &compiled, listener, &began)?,
    ))
}

fn follow(
    running: &mut Running,
    listener: &mut Listener<'_>,
    signals: &Signals,
) -> Result<(), Failure> {
    let mut looked = Instant::now();
    let mut patience = &IDLE_PATIENCE;
    loop {
        let (copies, calls) = (listener.sensor.copies_wait(), listener.sensor.calls_wait());
        let is_over = running.wait_a_little(patience, &[copies, calls]);
        patience = if listener.listen()? {
            &BUSY_PATIENCE
        } else {
            &IDLE_PATIENCE
        };
        if is_over || looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            listener.hints.rest();
            running.look(Some(&listener.sensor), &listener.live)?;
        }
        if running.is_over() || signals.told().is_some() {
            // What its last moments have left behind.
            listener.listen()?;
            return Ok(());
        }
    }
}

fn outcome(
    plan: &Plan,
    compiled: &Compiled,
    listener: Listener<'_>,
    began: &Clocks,
) -> Result<Outcome, Failure> {
    let totals = listener.sensor.totals()?;
    let now = Clocks::now();
    let late = listener.hints.late;
    let mut words = listener.hints.words;
    words.set_total(Total::Processes, listener.all.len() as u64);
    words.set_total(Total::ThreadNs, now.cpu_ns.saturating_sub(began.cpu_ns));
    let run = Run {
        wall_ns: now.monotonic_ns.saturating_sub(began.monotonic_ns),
        ..Run::default()
    };
    let outside = FromOutside {
        closed_before: late.closed,
        other_files: late.another,
        lost_calls: totals.lost + totals.lost_without_ring + totals.malformed + totals.lost_copies,
        lost_files: totals.io.lost_files,
        // One that found no room is mostly told of as unfollowed, too.
        lost_processes: totals.lost_notices
            + totals.lost_processes.max(listener.unfollowed.len() as u64),
    };
    Ok(Outcome::new(plan, compiled, words, run).enforced_outside(outside))
}

/// Marks the processes as ours, and makes sure that their open files can be had.
fn take_hold(members: &[u32]) -> Result<Holds, Failure> {
    let mut holds = Holds::default();
    for &pid in members {
        // One that has ended meanwhile needs none.
        let Ok(process) = RunningProcess::find(pid) else {
            continue;
        };
        holds.take(pid, process.start_ns())?;
        match open_file::take_descriptor(process.pidfd(), 0) {
            Ok(_) | Err(Errno::BADF | Errno::SRCH) => {}
            Err(errno) => return Err(not_taken(pid, errno)),
        }
    }
    Ok(holds)
}

/// Why open files cannot be had, and what to type next.
fn not_taken(pid: u32, errno: Errno) -> Failure {
    Failure::new(match errno {
        Errno::NOSYS => format!(
            "cannot take the open files of process {pid}: this kernel has no pidfd_getfd (Linux 5.6); start it with: pagewise apply PLAN -- CMD"
        ),
        Errno::PERM => format!(
            "process {pid} does not let its open files be taken (pidfd_getfd: {errno}): that needs the right to trace it; run with sudo, in a container with the capability sys_ptrace"
        ),
        errno => format!("cannot take the open files of process {pid} (pidfd_getfd: {errno})"),
    })
}

fn load(start: &Clocks) -> Result<SwapSensor, Failure> {
    let refused = |error: pagewise_collect::CollectError| {
        if is_lack_of_privilege(&error) {
            return Failure::new(format!(
                "--pid needs root or the capabilities bpf and perfmon: {error}; type: sudo pagewise apply ..."
            ));
        }
        error.into()
    };
    let layout = pagewise_collect::calibrate().map_err(refused)?;
    let options = Options {
        layout,
        base_ns: start.monotonic_ns,
        swap_is_slow: false,
        memory_bytes: 0,
        zeros_are_noted: false,
        memory: false,
        io: true,
        call_paths: true,
        check_call_paths: false,
        does_nothing: false,
        enforces: true,
    };
    SwapSensor::load(options).map_err(refused)
}

/// The files of code that the processes have mapped, by name; of several of a name, that of the first process.
fn mapped_files(members: &[u32], mapped: &mut Mapped) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for &pid in members {
        for mapping in mapped
            .now(pid)
            .iter()
            .filter(|mapping| mapping.executable && !mapping.deleted)
        {
            let Some(path) = mapping.file().map(PathBuf::from) else {
                continue;
            };
            if let Some(name) = path.file_name() {
                let name = name.to_string_lossy().into_owned();
                files.entry(name).or_insert(path);
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_told_with_what_to_type() {
        for (errno, words) in [
            (Errno::NOSYS, ["Linux 5.6", "apply PLAN -- CMD"]),
            (Errno::PERM, ["right to trace", "sudo"]),
            (Errno::MFILE, ["process 7", "pidfd_getfd"]),
        ] {
            let said = not_taken(7, errno).to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn our_own_file_is_found_by_its_name() {
        let files = mapped_files(&[std::process::id()], &mut Mapped::default());
        let own = std::env::current_exe().expect("a path");
        let name = own.file_name().expect("a name").to_string_lossy();
        assert_eq!(files.get(&*name), Some(&own));
    }
}
