//! Runs of the command, each with a time limit.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::family;
use rustix::process::Pid;
use rustix::process::Signal;

use super::install::pagewise;
use super::within;

/// Longer than any run here takes, many times over.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a recording is done again whose program v1's reclaim has killed.
const RECLAIM_RETRIES: usize = 3;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// As a shell has it; `None`: killed by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Asserts the exit code, that nothing panicked, and that nothing was left to the keeper.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        // Others who swap at the same time may hold up the end of it for a moment.
        let final_word = |line: &&str| !line.contains("it is tried again");
        let said: Vec<&str> = self.stderr.lines().filter(final_word).collect();
        for sign in [
            "panicked at",
            "stack backtrace",
            "RUST_BACKTRACE",
            "not restored",
        ] {
            assert!(!said.iter().any(|line| line.contains(sign)), "{self:#?}");
        }
        self
    }

    /// Asserts that it failed with this code and one line that holds each of these.
    pub(crate) fn expect_refusal(self, code: i32, words: &[&str]) -> Self {
        let ended = self.expect_code(code);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(lines.len() == 1, "not one line: {ended:#?}");
        assert!(lines[0].starts_with("pagewise: "), "{ended:#?}");
        ended.expect_told(words)
    }

    /// Asserts that one line holds each of these.
    pub(crate) fn expect_told(self, words: &[&str]) -> Self {
        let told = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(self.stderr.lines().any(told), "no {words:?} in {self:#?}");
        self
    }

    /// On cgroup v1 reclaim gives up now and then with swap almost empty, mostly with several threads at their limit: no
    /// fault of what is tested.
    pub(crate) fn was_killed_by_reclaim(&self) -> bool {
        let words = ["reclaim failed with", "of swap still free"];
        self.code == Some(137) && words.iter().all(|word| self.stderr.contains(word))
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("sent");
    }

    /// To it and what it started, as Ctrl-C in a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        rustix::process::kill_process_group(self.pid(), signal).expect("sent");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has started, once that is so far that it bears this name.
    pub(crate) fn child_named(&self, name: &str) -> Pid {
        let mut found = None;
        within(LIMIT, || {
            let own = self.pid().as_raw_nonzero().get().unsigned_abs();
            found = family::descendants(own).into_iter().find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|comm| comm.trim_end() == name)
            });
            found.is_some()
        });
        let found = found.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        found.unwrap_or_else(|| panic!("{:?} has started no {name}", self.child))
    }

    /// Waits for the end of it, not of what it left running.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let mut status = None;
        let ended = within(LIMIT, || {
            status = self.child.try_wait().expect("waited");
            status.is_some()
        });
        if !ended {
            let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
            panic!("{:?} did not end within {LIMIT:?}", self.child);
        }
        status.and_then(|status| status.code())
    }

    /// Waits for its end and for all that is written to its standard streams.
    pub(crate) fn end(mut self) -> Ended {
        let code = self.wait();
        let text = |reader: JoinHandle<String>| reader.join().expect("read");
        Ended {
            code,
            stdout: text(self.stdout),
            stderr: text(self.stderr),
        }
    }
}

/// The command in this folder, without what the surroundings of the tests would tell it.
pub(crate) fn command<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(pagewise());
    command.args(arguments).current_dir(folder);
    for name in [
        "SUDO_UID",
        "SUDO_GID",
        "SUDO_USER",
        "RUST_BACKTRACE",
        "LD_PRELOAD",
    ] {
        command.env_remove(name);
    }
    command
}

/// The command run by nobody, in a folder of nobody's. The executable must be within reach of nobody, so it is copied.
pub(crate) fn as_nobody(folder: &Path, arguments: &[&str]) -> Command {
    for name in ["pagewise", "libpagewise_runtime.so"] {
        let from = pagewise().with_file_name(name);
        fs::copy(from, folder.join(name)).expect("copied");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("permitted");
    let ours = command(folder, arguments);
    let mut theirs = Command::new("setpriv");
    theirs
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(folder.join("pagewise"))
        .args(ours.get_args())
        .current_dir(folder);
    for (name, _) in ours.get_envs().filter(|(_, value)| value.is_none()) {
        theirs.env_remove(name);
    }
    theirs
}

/// Starts it, in a process group of its own.
pub(crate) fn start(mut command: Command) -> Running {
    use std::os::unix::process::CommandExt;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it starts");
    Running {
        stdout: read(child.stdout.take()),
        stderr: read(child.stderr.take()),
        child,
    }
}

fn read<R: Read + Send + 'static>(stream: Option<R>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).expect("read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs it to its end.
pub(crate) fn run<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Ended {
    start(command(folder, arguments)).end()
}

/// `pagewise record OPTIONS -- PROGRAM`, with blanks between the words of each.
pub(crate) fn record(folder: &Path, options: &str, program: &str) -> Ended {
    let arguments = record_arguments(options, program);
    let mut ended = run(folder, &arguments);
    for _ in 0..RECLAIM_RETRIES {
        if !ended.was_killed_by_reclaim() {
            break;
        }
        ended = run(folder, &arguments);
    }
    ended
}

/// The same, until each call path is known: where other work keeps the recorder busy, it may not keep up, which it counts.
/// `prepare` goes before each. Returns how it ended and what the report says.
pub(crate) fn record_all_paths(
    folder: &Path,
    options: &str,
    program: &str,
    prepare: impl Fn(),
) -> (Ended, serde_json::Value) {
    // The kernels are tested beside: a processor may be away for long.
    const PATIENCE: Duration = Duration::from_secs(20);
    let began = Instant::now();
    let options = format!("{options} -f");
    let recorded = || {
        prepare();
        let ended = record(folder, &options, program).expect_code(0);
        (ended, report(folder))
    };
    let mut found = recorded();
    while found.1["losses"]["call_paths"] != 0 && began.elapsed() < PATIENCE {
        found = recorded();
    }
    found
}

pub(crate) fn record_arguments<'text>(options: &'text str, program: &'text str) -> Vec<&'text str> {
    let mut arguments = vec!["record"];
    arguments.extend(options.split_whitespace());
    arguments.push("--");
    arguments.extend(program.split_whitespace());
    arguments
}

/// Asserts that nothing was lost of what the report counts. Call paths apart: the first faults of a program come faster
/// than their paths are learnt, and how many that are depends on how busy the machine is.
pub(crate) fn assert_nothing_lost(report: &serde_json::Value) {
    let losses = report["losses"].as_object().expect("losses");
    // Of the whole machine: other processes end while their pages are on the way out.
    let of_others = report["summary"]["evictions"].as_u64().unwrap_or(0) / 50;
    let lost = |(what, count): (&String, &serde_json::Value)| match what.as_str() {
        "call_paths" => false,
        "evictions_without_owner" => count.as_u64() > Some(of_others),
        _ => *count != 0,
    };
    assert!(!losses.iter().any(lost), "{losses:?}");
}

/// What `pagewise report --json` says of the recording in this folder.
pub(crate) fn report(folder: &Path) -> serde_json::Value {
    run(folder, &["report", "--json"]).expect_code(0).json()
}
