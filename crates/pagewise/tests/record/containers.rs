//! Programs in containers: their files are not ours, and they know themselves by other numbers.

use std::path::Path;
use std::time::Duration;

use crate::common::command::command;
use crate::common::command::report;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::paths::assert_share_of_paths;
use crate::common::programs::compile_with;
use crate::common::within;
use pagewise_host::process;
use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::tempdir;

/// Its file has the path of one of ours, and it is process 1 there. What it calls its names' file by is its own /tmp.
const CONTAINER: &str = "mount --make-rprivate / && mkdir root && mount -t tmpfs none root && \
    mkdir -p root/usr/bin root/tmp root/old && cp generated root/usr/bin/env && cd root && pivot_root . old && \
    exec /usr/bin/env 1000000";

#[test]
fn a_program_in_a_container_has_the_names_of_its_own_files_though_it_has_ended() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "generated.c", "generated", &["-static"]);
    let mut limited = Limited::create("container");
    let unshare = [
        "unshare", "--mount", "--pid", "--fork", "sh", "-ec", CONTAINER,
    ];
    limited.start(folder.path(), &unshare);
    let inside = || {
        let mut processes = limited.cgroup.processes().into_iter();
        processes.find(|&pid| process::comm(pid).as_deref() == Some("env"))
    };
    assert!(within(Duration::from_secs(10), || inside().is_some()));
    let program = inside().expect("just seen");
    assert_eq!(process::pid_inside(program), Some(1));
    assert!(
        Path::new("/usr/bin/env").exists(),
        "another one of that name"
    );

    let name = limited.cgroup.path().display().to_string();
    let options = [
        "record",
        "--swap",
        "zram",
        "--swap-size",
        "256M",
        "--cgroup",
        &name,
    ];
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

    assert_share_of_paths(&report(folder.path()), 0.6, |path| {
        path.first() == Some(&"made_at_run_time") && path.contains(&"main")
    });
}
