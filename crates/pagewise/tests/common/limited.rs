//! A cgroup of a test's own, with processes that run before anybody records them.

use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use pagewise_host::LimitKind;
use pagewise_host::MemoryCgroup;
use pagewise_host::OomRelief;
use pagewise_host::Restorer;
use rustix::process::Pid;
use rustix::process::Signal;

use super::within;

/// Removed, and its processes ended, when dropped.
pub(crate) struct Limited {
    pub(crate) cgroup: MemoryCgroup,
    children: Vec<Child>,
    /// cgroup v1 kills a program at its limit with swap almost empty, now and then.
    relief: Option<OomRelief>,
    _restorer: Restorer,
}

impl Limited {
    pub(crate) fn create(name: &str) -> Self {
        let mut restorer = Restorer::without_keeper();
        let name = format!("pagewise-test-{name}-{}", std::process::id());
        Self {
            cgroup: MemoryCgroup::create(&name, &mut restorer).expect("a cgroup"),
            children: Vec::new(),
            relief: None,
            _restorer: restorer,
        }
    }

    /// Runs a program in it, with blanks between its words.
    pub(crate) fn run(&mut self, folder: &Path, program: &str) -> Pid {
        let words: Vec<&str> = program.split_whitespace().collect();
        self.start(folder, &words)
    }

    /// Starts a program that is in it from its first page on: what it had before would be charged elsewhere.
    pub(crate) fn start(&mut self, folder: &Path, words: &[&str]) -> Pid {
        let child = Command::new("sh")
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.cgroup.path().join("cgroup.procs"))
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let pid = child.id();
        self.children.push(child);
        let is_in = || self.cgroup.processes().contains(&pid);
        assert!(within(Duration::from_secs(10), is_in));
        Pid::from_raw(pid as i32).expect("a number")
    }

    /// Sets its limit while its processes stand still: else they may take memory as fast as it is reclaimed.
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.signal(Signal::STOP);
        let limited = self.cgroup.set_limit(bytes, LimitKind::Max);
        self.relief = OomRelief::hold(&self.cgroup, bytes);
        self.signal(Signal::CONT);
        limited.expect("limited");
    }

    /// Lifts it again.
    pub(crate) fn unlimit(&mut self) {
        self.relief = None;
        self.cgroup.lift_limits();
    }

    /// To all in it: what its children have started, too.
    fn signal(&self, signal: Signal) {
        for pid in self.cgroup.processes() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }

    /// Ends all that runs in it.
    pub(crate) fn end(&mut self) {
        self.unlimit();
        for pid in self.cgroup.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.end();
    }
}
