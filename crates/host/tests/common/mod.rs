//! What several tests need.

#![allow(dead_code, reason = "each test uses a part")]

use pagewise_host::CgroupHost;
use rustix::process::Pid;
use rustix::process::Signal;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Whether we are root; if not, says that the test did not run.
pub(crate) fn root_or_skip(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped: needs root");
    }
    root
}

/// Whether that becomes true within 10 s.
pub(crate) fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    condition()
}

/// The memory hierarchy, with new v1 cgroups at its root: those around this process are not for tests.
pub(crate) fn cgroup_host(test: &str) -> Option<CgroupHost> {
    match CgroupHost::detect().and_then(|host| host.check_create().map(|()| host)) {
        Err(error) => {
            println!("{test}: skipped: {error}");
            None
        }
        Ok(mut host) => {
            if host.version == pagewise_host::CgroupVersion::V1 {
                host.own = host.mount.clone();
            }
            Some(host)
        }
    }
}

/// A name that no other test or run uses.
pub(crate) fn unique(what: &str) -> String {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "pagewise-test-{what}-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Whether that file or device is active as swap.
pub(crate) fn is_swap(path: &Path) -> bool {
    let areas = pagewise_host::swap::active_areas().expect("/proc/swaps");
    areas.iter().any(|area| area.path == path)
}

/// A folder for swap files, its path without symbolic links.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().canonicalize().expect("a path");
    (dir, path)
}

/// Sends a signal to a process that is there.
pub(crate) fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    rustix::process::kill_process(pid, signal).expect("sent");
}
