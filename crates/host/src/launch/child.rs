//! The forked child: waits at the barrier, becomes the calling user, execs.
//!
//! Other threads may have held locks at the fork, so between fork and exec the child only makes
//! system calls: everything is prepared before, and nothing is allocated.

use super::caller::Caller;
use super::environment::Environment;
use super::environment::c_string;
use crate::error::Error;
use crate::error::Result;
use crate::open_files;
use crate::signals;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::pipe::PipeFlags;
use rustix::process::Gid;
use rustix::process::Pid;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::Signal;
use rustix::process::Uid;
use std::ffi::CString;
use std::ffi::OsString;
use std::ffi::c_char;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;

/// What the child was doing when it failed. Not 0, so that a report never is.
const EXEC: u32 = 1;
const BECOME_USER: u32 = 2;

/// Everything the child needs.
pub(super) struct Prepared {
    path: CString,
    arguments: Vec<CString>,
    variables: Vec<CString>,
    user: Option<User>,
    /// How many files it may have open, where that is not as many as we.
    open_files: Option<Rlimit>,
    /// It leads a process group.
    own_group: bool,
    /// Instead of our standard output.
    output: Option<OwnedFd>,
}

struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Prepared {
    pub(super) fn new(
        path: &Path,
        arguments: &[OsString],
        environment: &Environment,
        caller: Option<Caller>,
    ) -> Result<Self> {
        let arguments = arguments
            .iter()
            .map(|text| c_string(text.as_bytes().to_vec()));
        let user = caller.map(|caller| User {
            uid: Uid::from_raw(caller.uid),
            gid: Gid::from_raw(caller.gid),
            groups: caller.groups.into_iter().map(Gid::from_raw).collect(),
        });
        Ok(Prepared {
            path: c_string(path.as_os_str().as_bytes().to_vec())?,
            arguments: arguments.collect::<Result<_>>()?,
            variables: environment.strings()?,
            user,
            open_files: open_files::of_programs(),
            own_group: false,
            output: None,
        })
    }

    pub(super) fn quiet(mut self, quiet: bool) -> Result<Self> {
        if quiet {
            let null = std::fs::File::options().write(true).open("/dev/null");
            let null = null.map_err(|source| Error::system("open /dev/null", source))?;
            self.output = Some(null.into());
        }
        Ok(self)
    }

    pub(super) fn own_group(mut self, own_group: bool) -> Self {
        self.own_group = own_group;
        self
    }

    pub(super) fn output(mut self, output: Option<&OwnedFd>) -> Result<Self> {
        if let Some(output) = output {
            let output = output.try_clone();
            self.output =
                Some(output.map_err(|source| Error::system("duplicate an output", source))?);
        }
        Ok(self)
    }
}

/// A child that waits at the barrier. Dropped, it ends without having run anything.
#[derive(Debug)]
pub(super) struct Held {
    pid: Pid,
    /// One byte lets the child go; its end (also: our death) ends the child.
    barrier: Option<UnixStream>,
    /// Its end says that the child has run exec, or has ended.
    done: OwnedFd,
    report: Report,
}

/// Where the child says that it failed, and at what: stage and error number. A number in the kernel, as a pipe would
/// need memory for the text, which the child may have none of at its limit.
#[derive(Debug)]
struct Report(OwnedFd);

impl Report {
    fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Report(rustix::event::eventfd(0, flags)?))
    }

    /// In the child: one system call.
    fn write(&self, stage: u32, errno: i32) {
        let number = u64::from(stage) << 32 | u64::from(errno.unsigned_abs());
        let _ = rustix::io::write(&self.0, &number.to_ne_bytes());
    }

    /// `None`: it has not failed.
    fn read(&self) -> io::Result<Option<(u32, i32)>> {
        let mut bytes = [0; 8];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(_) => {
                let number = u64::from_ne_bytes(bytes);
                Ok(Some(((number >> 32) as u32, number as u32 as i32)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Held {
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the child go and waits for its exec.
    pub(super) fn release(mut self, path: &Path) -> Result<()> {
        let Some(barrier) = self.barrier.take() else {
            return Ok(());
        };
        let passed = let_go(&barrier);
        drop(barrier);
        let report = wait_for_end(&self.done).and_then(|()| self.report.read());
        match (passed, report) {
            (Ok(()), Ok(None)) => Ok(()),
            (Ok(()), Ok(Some((stage, errno)))) => {
                self.reap();
                Err(explain(stage, errno, path))
            }
            (Err(source), _) | (_, Err(source)) => {
                self.reap();
                Err(Error::system("let the program go (was it killed?)", source))
            }
        }
    }

    fn reap(&self) {
        // It has nothing more to do; a stopped one would not end by itself. Not waited for yet, so the
        // id is still its own.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = super::exit::wait(self.pid);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.barrier.take().is_some() {
            self.reap();
        }
    }
}

/// Forks the child.
pub(super) fn fork_held(prepared: &Prepared) -> Result<Held> {
    let failed = |source| Error::system("make a pipe", source);
    let (barrier_in, barrier_out) = UnixStream::pair().map_err(failed)?;
    let (done, _until_exec) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let report = Report::new().map_err(|e| Error::system("make an eventfd", e))?;
    let arguments = pointers(&prepared.arguments);
    let variables = pointers(&prepared.variables);
    // SAFETY: the child only makes system calls until it execs or exits, and never returns.
    match unsafe { libc::fork() } {
        0 => {
            // Or our own copy would keep the barrier up after the recorder's death.
            drop(barrier_out);
            drop(done);
            // `_until_exec` stays open until then.
            run(prepared, &arguments, &variables, &barrier_in, &report)
        }
        pid => match Pid::from_raw(pid) {
            Some(pid) if pid.as_raw_nonzero().get() > 0 => Ok(Held {
                pid,
                barrier: Some(barrier_out),
                done,
                report,
            }),
            _ => Err(Error::system("start a process", io::Error::last_os_error())),
        },
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// The child. System calls only.
fn run(
    prepared: &Prepared,
    arguments: &[*const c_char],
    variables: &[*const c_char],
    barrier: &UnixStream,
    report: &Report,
) -> ! {
    if wait_at(barrier) {
        let stage = match prepared.user.as_ref().map_or(Ok(()), become_user) {
            Err(errno) => (BECOME_USER, errno.raw_os_error()),
            Ok(()) => {
                restore_signals();
                if prepared.own_group {
                    let _ = rustix::process::setpgid(None, None);
                }
                if let Some(limit) = &prepared.open_files {
                    let _ = rustix::process::setrlimit(Resource::Nofile, *limit);
                }
                if let Some(output) = &prepared.output {
                    let _ = rustix::stdio::dup2_stdout(output);
                }
                // SAFETY: strings that end with a zero byte, in lists that end with a null pointer.
                unsafe {
                    libc::execve(
                        prepared.path.as_ptr(),
                        arguments.as_ptr(),
                        variables.as_ptr(),
                    )
                };
                (
                    EXEC,
                    Errno::from_io_error(&io::Error::last_os_error())
                        .map_or(0, Errno::raw_os_error),
                )
            }
        };
        report.write(stage.0, stage.1);
    }
    // SAFETY: ends this process without running anything that belongs to the recorder.
    unsafe { libc::_exit(125) }
}

/// Whether we were let go, and not left alone.
fn wait_at(barrier: &UnixStream) -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(barrier, &mut byte) {
            Err(Errno::INTR) => {}
            other => return other == Ok(1),
        }
    }
}

fn become_user(user: &User) -> std::result::Result<(), Errno> {
    // Of this thread, which is the only one after a fork. Groups first: later it is not permitted.
    rustix::thread::set_thread_groups(&user.groups)?;
    rustix::thread::set_thread_res_gid(user.gid, user.gid, user.gid)?;
    rustix::thread::set_thread_res_uid(user.uid, user.uid, user.uid)
}

/// As the standard library does for its children: nothing blocked; and SIGPIPE, which it ignores in us, as we were begun
/// with it. All else is inherited: what we ignore is ignored there too (so `nohup` works, as we catch nothing that we were
/// to ignore), and what we catch does there what it does by default.
fn restore_signals() {
    let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `none` is ours to fill; both calls are allowed after a fork.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        if !signals::pipe_was_ignored() {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
    }
}

/// A child that was killed meanwhile must give an error here, not SIGPIPE.
fn let_go(barrier: &UnixStream) -> io::Result<()> {
    loop {
        match rustix::net::send(barrier, &[1], SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(io::Error::from),
        }
    }
}

fn wait_for_end(pipe: &OwnedFd) -> io::Result<()> {
    let mut byte = [0];
    loop {
        match rustix::io::read(pipe.as_fd(), &mut byte) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(io::Error::from),
        }
    }
}

fn explain(stage: u32, errno: i32, path: &Path) -> Error {
    let source = io::Error::from_raw_os_error(errno);
    if stage == BECOME_USER {
        return Error::system(
            "become the user who called sudo (--as-root runs it as root)",
            source,
        );
    }
    let program = path.display().to_string();
    let refused = |why| Error::ProgramNotExecutable {
        program: program.clone(),
        why,
        source: None,
    };
    match errno {
        // It was there a moment ago.
        libc::ENOENT => {
            let why =
                "its interpreter is missing (the #! line of a script, or the loader of a program)";
            Error::ProgramNotFound { program, why }
        }
        libc::ENOEXEC => refused(
            "it is no program for this machine, nor a script with a #! line; \
                                  type: sh FILE",
        ),
        libc::EACCES => refused(
            "this user may not execute it, or its interpreter, or its file system \
                                 is mounted noexec",
        ),
        libc::ETXTBSY => refused("it is being written to; try again"),
        libc::E2BIG => refused(
            "its arguments and environment are too long, or its memory limit leaves no room for them",
        ),
        libc::ENOMEM => {
            refused("there is not enough memory to start it; is its memory limit too low?")
        }
        _ => {
            let why = "the system refuses";
            Error::ProgramNotExecutable {
                program,
                why,
                source: Some(source),
            }
        }
    }
}
