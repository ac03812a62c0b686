//! Where no further thread may be started.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::command::command;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::within;
use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::tempdir;

/// A cgroup in which there may be no more threads than there are. Removed when dropped: it must be empty then.
struct Full(PathBuf);

impl Full {
    fn around(pid: Pid) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let root = [root.join("pids"), root.to_owned()]
            .into_iter()
            .find(|root| root.exists())
            .expect("cgroups");
        let folder = root.join(format!("pagewise-test-threads-{}", std::process::id()));
        fs::create_dir(&folder).expect("a cgroup");
        let full = Self(folder);
        full.write("cgroup.procs", &pid.as_raw_nonzero().to_string());
        full.write("pids.max", "1");
        full
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).expect("written");
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_snapshot_without_a_thread_is_told_and_the_recording_goes_on() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let script = "echo > begun; while ! [ -e end ]; do sleep 0.05; done; exit 7";
    let arguments = [
        "record",
        "--sensors",
        "none",
        "--snapshot=10s",
        "--",
        "sh",
        "-c",
        script,
    ];
    let recorder = start(command(folder.path(), &arguments));
    let begun = folder.path().join("begun");
    assert!(within(Duration::from_secs(20), || begun.exists()));
    let full = Full::around(recorder.pid());
    recorder.signal(Signal::USR1);
    std::thread::sleep(Duration::from_millis(500));
    full.write("pids.max", "max");
    fs::write(folder.path().join("end"), "").expect("written");
    let ended = recorder.end().expect_code(7);
    drop(full);
    ended.expect_told(&["no snapshot", "no thread can be started"]);
    machine.assert_restored();
}
