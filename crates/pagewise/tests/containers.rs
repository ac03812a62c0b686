//! Programs in containers: their files are not ours, and they know themselves by other numbers.

mod common;

use std::path::Path;
use std::time::Duration;

use common::command::command;
use common::command::report;
use common::command::start;
use common::limited::Limited;
use common::machine::Machine;
use common::programs::compile_with;
use common::within;
use pagewise_host::process;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

/// Its file has the path of one of ours, and it is process 1 there. What it calls its names' file by is its own /tmp.
const CONTAINER: &str = "mount --make-rprivate / && mkdir root && mount -t tmpfs none root && \
    mkdir -p root/usr/bin root/tmp root/old && cp generated root/usr/bin/env && cd root && pivot_root . old && \
    exec /usr/bin/env 1000000";

/// Swap-ins of all call paths that have these functions, innermost first; others may lie between them.
fn swap_ins_through(report: &Value, functions: &[&str]) -> u64 {
    let paths = report["fault_paths"].as_array().expect("a list");
    let leads_through = |path: &&Value| {
        let frames = path["path"].as_array().expect("frames");
        let mut names = frames
            .iter()
            .filter_map(|frame| frame["function"].as_str());
        functions.iter().all(|wanted| names.any(|name| name == *wanted))
    };
    let chosen = paths.iter().filter(leads_through);
    chosen.filter_map(|path| path["swap_ins"].as_u64()).sum()
}

#[test]
fn a_program_in_a_container_has_the_names_of_its_own_files_though_it_has_ended() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "generated.c", "generated", &["-static"]);
    let mut limited = Limited::create("container");
    let unshare = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", CONTAINER];
    limited.start(folder.path(), &unshare);
    let inside = || {
        let mut processes = limited.cgroup.processes().into_iter();
        processes.find(|&pid| process::comm(pid).as_deref() == Some("env\n"))
    };
    assert!(within(Duration::from_secs(10), || inside().is_some()));
    let program = inside().expect("just seen");
    assert_eq!(process::pid_inside(program), Some(1));
    assert!(Path::new("/usr/bin/env").exists(), "another one of that name");

    let name = limited.cgroup.path().display().to_string();
    let options = ["record", "--swap", "zram", "--swap-size", "256M", "--cgroup", &name];
    let recorder = start(command(folder.path(), &options));
    let journal = folder.path().join("pagewise.data/journal");
    assert!(within(Duration::from_secs(30), || journal.exists()));
    limited.limit(24 << 20);
    let majors = || process::stat(program).map(|stat| stat.major_faults);
    assert!(within(Duration::from_secs(40), || majors() > Some(20_000)));
    // With the only process of its namespaces everything in them ends, and only then names are looked up.
    limited.unlimit();
    let program = Pid::from_raw(program as i32).expect("a number");
    rustix::process::kill_process(program, Signal::KILL).expect("killed");
    recorder.end().expect_code(0);
    limited.end();
    machine.assert_restored();

    let report = report(folder.path());
    let all = report["summary"]["swap_ins"].as_u64().expect("a count");
    let lost = report["losses"]["call_paths"].as_u64().expect("a count");
    let named = swap_ins_through(&report, &["made_at_run_time", "main"]);
    assert!(
        named as f64 > 0.6 * (all - lost) as f64,
        "{named} of {all}, {lost} without a path: {:#}",
        report["fault_paths"]
    );
}
