//! Starts the program: held back until it is in its cgroup and watched, then let go.
//!
//! ```text
//!   start()    fork; the child waits at the barrier
//!              caller: cgroup.add(pid), attach sensors to pid and pidfd
//!   release()  the child becomes the calling user and execs; an exec that fails is reported here
//!   wait()     how it ended; remaining() and wait_remaining(): what it left running
//! ```
//!
//! If this process ends before the release, the child ends too, without having run anything. After
//! it, the program goes on whatever happens to us: it is the user's.

mod caller;
mod child;
mod environment;
mod exit;
mod interrupts;
mod resolve;
mod tree;

pub use exit::Exit;
pub use exit::HowEnded;

use crate::error::Error;
use crate::error::Result;
use crate::process;
use caller::Caller;
use child::Held;
use child::Prepared;
use environment::Environment;
use interrupts::IgnoredInterrupts;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::process::Pid;
use rustix::process::PidfdFlags;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tree::Family;

/// How far apart two readings of the same resident size may be: each processor counts a little for itself
/// (lib/percpu_counter.c).
const RESIDENT_ERROR: u64 = 4 << 20;

/// A command to run, with its standard streams, folder and terminal those of this process.
#[derive(Debug, Clone)]
pub struct Program {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    preloads: Vec<PathBuf>,
    as_root: bool,
    quiet: bool,
    own_group: bool,
    output: Option<Arc<OwnedFd>>,
}

impl Program {
    /// The first argument names the program: a path if it has a slash, else it is looked up in `PATH`.
    pub fn new<I: IntoIterator<Item: Into<OsString>>>(arguments: I) -> Self {
        Program {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            preloads: Vec::new(),
            as_root: false,
            quiet: false,
            own_group: false,
            output: None,
        }
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Leaves a variable out of its environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), None));
        self
    }

    /// Puts a library before those of `LD_PRELOAD`; of several, the first given comes first. Programs
    /// that are linked statically or set-user-id do not load it.
    pub fn preload(mut self, library: impl Into<PathBuf>) -> Self {
        self.preloads.push(library.into());
        self
    }

    /// Under sudo, runs it as root and not as the calling user.
    pub fn as_root(mut self, as_root: bool) -> Self {
        self.as_root = as_root;
        self
    }

    /// What it writes to standard output goes nowhere.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// It leads a process group of its own, so that it can be told from us with all that it starts ([`process::of_group`]); Ctrl-C in a
    /// terminal does not reach it then.
    pub fn own_group(mut self, own_group: bool) -> Self {
        self.own_group = own_group;
        self
    }

    /// What it writes to standard output goes there. Give this up to see the end of a pipe.
    pub fn output(mut self, output: OwnedFd) -> Self {
        self.output = Some(Arc::new(output));
        self
    }

    /// Starts it, held back before exec. Makes this process the child subreaper, so that what the
    /// program leaves running becomes our child. Start other children (the keeper) before.
    ///
    /// # Errors
    /// [`Error::ProgramNotFound`] and [`Error::ProgramNotExecutable`] (see [`Error::exit_code`]),
    /// [`Error::Argument`], or [`Error::System`] when the system cannot start a process.
    pub fn start(&self) -> Result<Launched> {
        let caller = if self.as_root {
            None
        } else {
            Caller::from_sudo()?
        };
        let environment = self.child_environment(caller.as_ref())?;
        let name = self.arguments.first().ok_or_else(|| Error::Argument {
            text: String::new(),
            why: "no program is named",
        })?;
        let path = resolve::program(name, environment.get("PATH"))?;
        let prepared = Prepared::new(&path, &self.arguments, &environment, caller)?
            .quiet(self.quiet)?
            .own_group(self.own_group)
            .output(self.output.as_deref())?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| Error::system("become the subreaper", e))?;
        let family = Family::before_launch();
        let held = child::fork_held(&prepared)?;
        let pid = held.pid();
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|e| Error::system("open the process (needs Linux 5.3)", e))?;
        Ok(Launched {
            pid,
            pidfd,
            path,
            held: Some(held),
            ended: None,
            family,
            before_exec_bytes: 0,
            // Only now, so that the program gets what we got.
            _interrupts: IgnoredInterrupts::new(),
        })
    }

    /// The executable that [`Program::start`] would run.
    ///
    /// # Errors
    /// As there.
    pub fn executable(&self) -> Result<PathBuf> {
        let name = self.arguments.first().ok_or_else(|| Error::Argument {
            text: String::new(),
            why: "no program is named",
        })?;
        let caller = if self.as_root {
            None
        } else {
            Caller::from_sudo()?
        };
        let environment = self.child_environment(caller.as_ref())?;
        resolve::program(name, environment.get("PATH"))
    }

    fn child_environment(&self, caller: Option<&Caller>) -> Result<Environment> {
        let mut environment = Environment::inherited();
        if let Some(caller) = caller {
            caller.describe_in(&mut environment);
        }
        for (name, value) in &self.environment {
            environment.change(name, value.as_deref())?;
        }
        environment.preload(&self.preloads)?;
        Ok(environment)
    }
}

/// A started program. Ctrl-C (SIGINT, SIGQUIT) does not end this process while this exists, unless it
/// has handlers of its own: the program gets them too, and decides.
///
/// Dropped before its release, the program never runs; dropped later, it goes on.
#[derive(Debug)]
pub struct Launched {
    pid: Pid,
    pidfd: OwnedFd,
    path: PathBuf,
    held: Option<Held>,
    ended: Option<Exit>,
    family: Family,
    /// What it was resident with as our fork.
    before_exec_bytes: u64,
    _interrupts: IgnoredInterrupts,
}

impl Launched {
    /// Its process id, the same before and after exec.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its pidfd; readable once the program has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The executable that was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets it exec, and returns when it has. A second call does nothing.
    ///
    /// # Errors
    /// Why the exec failed: [`Error::ProgramNotFound`] (also: no interpreter),
    /// [`Error::ProgramNotExecutable`], or [`Error::System`] when it could not become the calling
    /// user. The process has then ended.
    pub fn release(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let memory = process::memory(self.pid()).unwrap_or_default();
        self.before_exec_bytes = memory.peak_resident_bytes.unwrap_or(0);
        held.release(&self.path)
    }

    /// Waits for its end; may be called again. Returns at once only after [`Launched::release`] was
    /// called and the program ended; a program still held back is let go first.
    ///
    /// # Errors
    /// Of the release; [`Error::System`] when someone else has waited for it.
    pub fn wait(&mut self) -> Result<Exit> {
        self.release()?;
        match self.ended {
            Some(exit) => Ok(exit),
            None => self.keep(exit::wait(self.pid)?),
        }
    }

    /// Waits for its end no longer than that; `None` when it still runs, or a signal came.
    ///
    /// # Errors
    /// As [`Launched::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Exit>> {
        self.release()?;
        if let Some(exit) = self.ended {
            return Ok(Some(exit));
        }
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
            Ok(_) => self.wait().map(Some),
            Err(error) => Err(Error::system("wait for the program", error)),
        }
    }

    /// Sends it a signal; a program that has ended is no error.
    ///
    /// # Errors
    /// [`Error::System`] when that is not permitted.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::system("send the program a signal", error)),
        }
    }

    /// Processes that the program started and that still run, with theirs.
    pub fn remaining(&self) -> Vec<u32> {
        self.family.remaining(self.pid)
    }

    /// Waits until those have ended too, no longer than `timeout` (`None`: for ever), and returns what
    /// still runs. To be called after [`Launched::wait`].
    pub fn wait_remaining(&self, timeout: Option<Duration>) -> Vec<u32> {
        self.family.wait_remaining(self.pid, timeout)
    }

    fn keep(&mut self, mut exit: Exit) -> Result<Exit> {
        let own = self.before_exec_bytes + RESIDENT_ERROR;
        exit.peak_resident_bytes = exit.peak_resident_bytes.filter(|&bytes| bytes > own);
        self.ended = Some(exit);
        Ok(exit)
    }
}
