//! The keeper: a small process that restores the machine when the recorder cannot.
//!
//! ```text
//!   recorder --"will do X, id 3"--> keeper      before each change
//!   recorder --"done, id 3"-------> keeper      when the recorder has undone it itself
//!   (end of file)                               recorder ended, or was killed: undo the rest
//! ```
//!
//! - It is our own executable started anew with one hidden argument ([`ARGUMENT`]), not a fork: a
//!   forked copy of a process with threads may call next to nothing.
//! - The socket is its standard input. A line that was not sent whole announces a change that was
//!   not made.
//! - It lives in its own session and ignores SIGINT, SIGTERM, SIGHUP and SIGQUIT, so that neither
//!   Ctrl-C nor a closed terminal ends it. It was never in the limited cgroup. (Killing its whole
//! - It holds nobody's pipes open: of the recorder's files it keeps only a standard error that is a
//!   terminal or a plain file. What it cannot undo it writes there, a line each with what to type;
//!   without it to a log file ([`log_path`]), opened only then.
//! - Programs left in a removed cgroup move to where the recorder was and go on: they are the user's.

use crate::error::Error;
use crate::error::Result;
use crate::journal::UndoAction;
use crate::restorer::Failure;
use crate::undo_log::Held;
use crate::undo_log::UndoLog;
use rustix::net::SendFlags;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::IsTerminal;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The hidden argument. The executable given to [`Keeper::start`] must call [`main`] when it is its
/// first argument, before anything else.
pub const ARGUMENT: &str = "__keeper";

const READY: &[u8] = b"ready\n";
const START_WITHIN: Duration = Duration::from_secs(5);
/// How long the recorder waits for a keeper that has nothing to do.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long the keeper goes on trying what may still succeed.
const TRY_FOR: Duration = Duration::from_secs(600);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the recorder tells the keeper, one JSON object per line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(crate) enum Message {
    /// A change is about to be made.
    Will { id: u64, action: UndoAction },
    /// It was undone, or not made.
    Done { id: u64 },
}

/// The recorder's side of a running keeper.
#[derive(Debug)]
pub struct Keeper {
    socket: UnixStream,
    child: Child,
    /// `None` where there is no place for one.
    log: Option<UndoLog>,
}

impl Keeper {
    /// Starts `exe` as the keeper and waits until it is ready. Start it before the program is launched.
    ///
    /// # Errors
    /// [`Error::KeeperStart`] when it cannot be run or is not ready within 5 s.
    pub fn start(exe: &Path) -> Result<Self> {
        Self::start_with(exe, UndoLog::create())
    }

    /// The same without a file, for what is done again and again, and matters only as long as the processes live that it is done to.
    ///
    /// # Errors
    /// As there.
    pub fn start_without_log(exe: &Path) -> Result<Self> {
        Self::start_with(exe, None)
    }

    fn start_with(exe: &Path, log: Option<UndoLog>) -> Result<Self> {
        let failed = |why, source| Error::KeeperStart {
            exe: exe.to_owned(),
            why,
            source,
        };
        let (socket, theirs) = UnixStream::pair().map_err(|e| failed("no socket", Some(e)))?;
        let mut command = Command::new(exe);
        command
            .arg(ARGUMENT)
            .args(log.as_ref().map(UndoLog::path))
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null());
        command.stderr(if stderr_may_be_kept() {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
        // SAFETY: `detach` only makes system calls that are allowed between fork and exec.
        unsafe { command.pre_exec(detach) };
        let child = command
            .spawn()
            .map_err(|e| failed("it cannot be run", Some(e)))?;
        // `command` holds the keeper's end of the socket: the end of file must not wait for us.
        drop(command);
        let mut keeper = Keeper { socket, child, log };
        match keeper.wait_ready() {
            Ok(()) => Ok(keeper),
            Err(source) => {
                let _ = keeper.child.kill();
                Err(failed(
                    "it did not answer; is it a pagewise executable?",
                    Some(source),
                ))
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A change is about to be made. The message is safe once this returns: socket and file keep it
    /// even if we are killed next.
    pub(crate) fn announce(&mut self, id: u64, action: UndoAction) -> Result<()> {
        let sent = self.send(&Message::Will { id, action });
        if sent.is_err() {
            // Nobody announced it, so it will not be made.
            let _ = self.send(&Message::Done { id });
        }
        sent
    }

    /// It was undone, or not made.
    pub(crate) fn tell_done(&mut self, id: u64) {
        // A keeper that is gone has nothing to forget.
        let _ = self.send(&Message::Done { id });
    }

    fn send(&mut self, message: &Message) -> Result<()> {
        let gone = |source: io::Error| Error::KeeperGone { source };
        let mut line = serde_json::to_vec(message).map_err(|e| gone(e.into()))?;
        line.push(b'\n');
        if let Some(log) = &mut self.log {
            log.append(&line);
        }
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            // A keeper that is gone must give an error here, not a signal.
            match rustix::net::send(self.socket.as_fd(), rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(gone(error.into())),
            }
        }
        Ok(())
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(START_WITHIN))?;
        let mut answer = [0; READY.len()];
        self.socket.read_exact(&mut answer)?;
        if answer == *READY {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of file: it undoes what is left and ends. With work left it goes on without us.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let begun = Instant::now();
        while begun.elapsed() < END_WITHIN && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A terminal or a plain file cannot make anyone wait for its end; a pipe or socket could.
fn stderr_may_be_kept() -> bool {
    let stderr = io::stderr();
    let plain = rustix::fs::fstat(stderr.as_fd())
        .is_ok_and(|data| rustix::fs::FileType::from_raw_mode(data.st_mode).is_file());
    plain || stderr.is_terminal()
}

/// Between fork and exec: own session, deaf to the signals that end the recorder, no other files.
fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
    ] {
        // SAFETY: ignoring a signal installs no code, and stays so over exec.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    // Files we inherited ourselves (a pipe of a build tool, say) are not the keeper's. Before Linux
    // 5.11 this fails and they stay open a little longer.
    // SAFETY: only marks descriptors of this process; the standard library's own are so already.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Ok(())
}

/// The keeper process: reads from standard input until its end, then undoes what is left.
pub fn main() -> ExitCode {
    let undo_log = std::env::args_os().nth(2);
    let undo_log = undo_log.and_then(|path| Held::hold(Path::new(&path)));
    // When memory runs out, this process should be the last to go. Needs CAP_SYS_RESOURCE.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let Ok(mut socket) = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from)
    else {
        return ExitCode::from(125);
    };
    if socket.write_all(READY).is_err() {
        return ExitCode::from(125);
    }
    let pending = collect(BufReader::new(socket));
    let failures = undo_until_done(pending, TRY_FOR);
    for failure in &failures {
        log(&failure.to_string());
    }
    // What may still succeed is for the next run.
    let hope = failures.iter().any(|failure| failure.error.is_transient());
    if let Some(undo_log) = undo_log.filter(|_| !hope) {
        undo_log.remove();
    }
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(125)
    }
}

/// What is left to undo at the end of the stream, oldest first.
pub(crate) fn collect(mut lines: impl BufRead) -> Vec<UndoAction> {
    let mut pending = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        // A line without its end was cut by a kill: the change it announces was not made.
        if line.last() != Some(&b'\n') {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(Message::Will { id, action }) => {
                pending.insert(id, action);
            }
            Ok(Message::Done { id }) => {
                pending.remove(&id);
            }
            Err(error) => log(&format!("a message could not be read: {error}")),
        }
    }
    pending.into_values().collect()
}

/// Last first. As long as something may still succeed, everything that failed is tried again: a file
/// cannot be removed while it is swap.
pub(crate) fn undo_until_done(pending: Vec<UndoAction>, try_for: Duration) -> Vec<Failure> {
    let begun = Instant::now();
    let mut pending = pending;
    let mut pause = Duration::from_millis(100);
    loop {
        let failures: Vec<Failure> = pending
            .into_iter()
            .rev()
            .filter_map(|action| {
                action
                    .perform()
                    .err()
                    .map(|error| Failure { action, error })
            })
            .collect();
        let hope = failures.iter().any(|failure| failure.error.is_transient());
        if !hope || begun.elapsed() >= try_for {
            return failures;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        pending = failures
            .into_iter()
            .rev()
            .map(|failure| failure.action)
            .collect();
    }
}

/// Where the keeper writes what it could not undo if nobody sees its standard error: `/var/log/pagewise-keeper.log` for root, else in the
/// user's own runtime folder; `None` without one.
pub fn log_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/log/pagewise-keeper.log".into());
    }
    Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("pagewise-keeper.log"))
}

fn log(line: &str) {
    let line = format!("pagewise: {line}\n");
    // A kept standard error is in sight of the user; else it leads nowhere.
    if stderr_may_be_kept() && io::stderr().write_all(line.as_bytes()).is_ok() {
        return;
    }
    let Some(path) = log_path() else { return };
    let mut open = OpenOptions::new();
    open.append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    // Nobody is left to hear about an error of this.
    let _ = open
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &Message) -> String {
        serde_json::to_string(message).expect("writes") + "\n"
    }

    fn will(id: u64, path: &str) -> Message {
        Message::Will {
            id,
            action: UndoAction::SwapOff { path: path.into() },
        }
    }

    #[test]
    fn what_is_done_is_not_left_and_a_cut_line_does_not_count() {
        let mut stream =
            line(&will(0, "/a")) + &line(&will(1, "/b")) + &line(&Message::Done { id: 0 });
        stream += line(&will(2, "/cut")).trim_end();
        let left = collect(stream.as_bytes());
        assert_eq!(left, [UndoAction::SwapOff { path: "/b".into() }]);
    }

    #[test]
    fn hopeless_failures_do_not_hold_up_the_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UndoAction::WriteFile {
            path: dir.path().into(),
            contents: "1".into(),
        };
        let begun = Instant::now();
        let failures = undo_until_done(vec![folder], Duration::from_secs(60));
        assert_eq!(failures.len(), 1);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn an_executable_that_is_no_keeper_is_an_error() {
        let error = Keeper::start(Path::new("/bin/true")).expect_err("no keeper");
        assert!(
            error.to_string().contains("is it a pagewise executable?"),
            "{error}"
        );
        let error = Keeper::start(Path::new("/nonexistent/pagewise")).expect_err("no file");
        assert!(
            error.to_string().contains("/nonexistent/pagewise"),
            "{error}"
        );
    }
}
