//! Processes of a cgroup: listing, moving out, ending; and removing the cgroup.

use super::memory;
use crate::error::Error;
use crate::error::Result;
use crate::files;
use rustix::process::Pid;
use rustix::process::Signal;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// How long a cgroup may take to become empty.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);
/// Time between SIGTERM and SIGKILL.
const TERMINATE_WITHIN: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// Process ids in the cgroup itself, not in its children.
pub(super) fn processes(cgroup: &Path) -> Vec<u32> {
    let text = files::read_optional(&cgroup.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process this process id namespace cannot see; writing it would move ourselves.
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|pid| *pid != 0)
        .collect()
}

/// Lifts the limits, moves what is left to `move_to`, and removes the cgroup with those the program made
/// inside. Already gone is success.
pub(crate) fn remove(cgroup: &Path, move_to: &Path) -> Result<()> {
    if !cgroup.is_dir() {
        return Ok(());
    }
    memory::lift_limits(cgroup);
    let begun = Instant::now();
    loop {
        for child in children(cgroup) {
            remove(&child, move_to)?;
        }
        move_processes(cgroup, move_to);
        match fs::remove_dir(cgroup) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(Error::file("remove", cgroup, error)),
        }
        if begun.elapsed() > EMPTY_WITHIN {
            return Err(Error::CgroupBusy {
                path: cgroup.to_owned(),
                waited: EMPTY_WITHIN,
            });
        }
        thread::sleep(POLL);
    }
}

/// Ends every process of the cgroup: SIGTERM, after a second SIGKILL. Gone or empty is success.
pub(crate) fn kill_all(cgroup: &Path) -> Result<()> {
    signal_all(cgroup, Signal::TERM);
    if wait_empty(cgroup, TERMINATE_WITHIN) {
        return Ok(());
    }
    let begun = Instant::now();
    while begun.elapsed() < EMPTY_WITHIN {
        // v2 since 5.14 kills all at once, so that a fork bomb cannot outrun it.
        let _ = files::write_if_present(&cgroup.join("cgroup.kill"), "1");
        signal_all(cgroup, Signal::KILL);
        if wait_empty(cgroup, POLL * 5) {
            return Ok(());
        }
    }
    Err(Error::CgroupBusy {
        path: cgroup.to_owned(),
        waited: EMPTY_WITHIN,
    })
}

fn wait_empty(cgroup: &Path, within: Duration) -> bool {
    let begun = Instant::now();
    loop {
        if all_processes(cgroup).is_empty() {
            return true;
        }
        if begun.elapsed() >= within {
            return false;
        }
        thread::sleep(POLL);
    }
}

fn signal_all(cgroup: &Path, signal: Signal) {
    for pid in all_processes(cgroup) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // Ended meanwhile: nothing to do. Not permitted: the caller sees that it is not empty.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

pub(super) fn all_processes(cgroup: &Path) -> Vec<u32> {
    let mut found = processes(cgroup);
    for child in children(cgroup) {
        found.extend(all_processes(&child));
    }
    found
}

fn move_processes(cgroup: &Path, move_to: &Path) {
    // Where the recorder was may be gone by now; the parent is the next best.
    let homes = [Some(move_to), cgroup.parent()];
    for pid in processes(cgroup) {
        let mut homes = homes.iter().flatten();
        // A process that ended meanwhile is no error; one that stays makes `rmdir` say busy.
        let _moved =
            homes.any(|home| files::write(&home.join("cgroup.procs"), &pid.to_string()).is_ok());
    }
}

pub(super) fn children(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_what_is_gone_is_success() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(remove(&dir.path().join("gone"), dir.path()).is_ok());
        assert!(kill_all(&dir.path().join("gone")).is_ok());
    }

    #[test]
    fn inner_cgroups_go_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = dir.path().join("run");
        fs::create_dir_all(run.join("inner/deep")).expect("folders");
        remove(&run, dir.path()).expect("removed");
        assert!(!run.exists());
    }

    #[test]
    fn invisible_processes_are_not_listed() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("cgroup.procs"), "0\n12\nx\n7\n").expect("a file");
        assert_eq!(processes(dir.path()), [12, 7]);
    }
}
