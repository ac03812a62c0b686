//! What can go wrong, in words that say what to type next.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong. The outer message never repeats that of its source: print the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the host could not be read, written, made or removed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The verb: "read", "write", "create", ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the kernel does not have the form that is documented for it.
    #[error("{} does not have the expected form ({expected})", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What was expected there.
        expected: &'static str,
    },
    /// Text that is not a size.
    #[error(
        "{text:?} is not a size: {why}; write for example 512M, 1.5G, 2500p (pages) or 60% (of the peak)"
    )]
    Size {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A percentage of a peak that nobody knows.
    #[error(
        "{percent}% of what? The peak memory of the program is not known: give bytes, for example 512M, or --peak SIZE (record, apply, compare; record can measure it: --measure-peak)"
    )]
    PeakUnknown {
        /// The percentage asked for.
        percent: f64,
    },
    /// Text that is not a kind of swap.
    #[error(
        "{text:?} is not a kind of swap; write auto, zram, zram:lz4, file, file:/path, existing or none"
    )]
    SwapRequest {
        /// What was typed.
        text: String,
    },
    /// Swap of fewer pages than the kernel accepts.
    #[error("swap of {bytes} bytes is too small; ask for at least {least} bytes")]
    SwapTooSmall {
        /// Bytes asked for.
        bytes: u64,
        /// Fewest bytes that are accepted.
        least: u64,
    },
    /// `--swap existing` without any swap.
    #[error("no swap is active here; use --swap auto, or switch some on with swapon(8)")]
    NoExistingSwap,
    /// The user may not switch swap on or off.
    #[error("switching swap on needs root; run with sudo, or use --swap existing or --swap none")]
    SwapNotPermitted,
    /// The file for new swap exists: it is never overwritten.
    #[error("{} exists and is left alone; name a new file, or use --swap file", path.display())]
    SwapFileExists {
        /// The file.
        path: PathBuf,
    },
    /// A file system without room for the swap file.
    #[error("{} has {available} bytes free, swap needs {needed}; free some, or name a file on another disk: --swap file:/path", directory.display())]
    NoSpace {
        /// Folder of the file.
        directory: PathBuf,
        /// Bytes asked for.
        needed: u64,
        /// Bytes free for this user.
        available: u64,
    },
    /// The kernel refused the swap area.
    #[error("the kernel refused {} as swap: {why}", path.display())]
    SwapRefused {
        /// Device or file.
        path: PathBuf,
        /// The usual reasons for this error number, and what to do.
        why: &'static str,
        /// The error number.
        source: io::Error,
    },
    /// Pages of the swap area would not fit into memory now.
    #[error("{} holds {used} bytes of swapped pages, memory has room for {available}; end some program, then type: swapoff {}", path.display(), path.display())]
    SwapStillNeeded {
        /// Device or file.
        path: PathBuf,
        /// Bytes in it.
        used: u64,
        /// Bytes available in memory and other swap.
        available: u64,
    },
    /// This kernel has no zram device to use and none can be added.
    #[error(
        "no unused zram device and none can be added; type: modprobe zram (or: zramctl --find), or use --swap file"
    )]
    NoZram,
    /// All zram devices are used by others.
    #[error("the zram device {} was taken by someone else; try again, or use --swap file", device.display())]
    ZramBusy {
        /// The device.
        device: PathBuf,
    },
    /// A compression algorithm this kernel does not have.
    #[error("zram here has no algorithm {name:?}; it knows {}", known.join(", "))]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
        /// What the kernel offers.
        known: Vec<String>,
    },
    /// `--swap auto` found nothing that works.
    #[error("found no swap to use (zram: {zram})")]
    NoSwapPossible {
        /// Why not zram.
        zram: String,
        /// Why not a file.
        source: Box<Error>,
    },
    /// No memory cgroup can be made here.
    #[error("no memory cgroup can be made: {why}")]
    CgroupUnavailable {
        /// What is missing, and what to type.
        why: String,
    },
    /// A name that is not one folder.
    #[error("{name:?} cannot name a cgroup; use letters, digits, '-' and '_'")]
    CgroupName {
        /// The name.
        name: String,
    },
    /// No such cgroup, or several.
    #[error("{text:?} names no cgroup: {why}")]
    NoSuchCgroup {
        /// What was typed.
        text: String,
        /// What was looked for, and what to type.
        why: String,
    },
    /// A process that cannot be observed.
    #[error("process {pid} cannot be recorded: {why}")]
    NotObservable {
        /// Its id.
        pid: u32,
        /// Why, and what to type.
        why: String,
    },
    /// The limit is below what is used and cannot be reclaimed.
    #[error("{} uses {usage} bytes, of which the kernel could not reclaim enough for a limit of {limit}; ask for more memory, or add swap (--swap auto)", path.display())]
    LimitBelowUsage {
        /// The cgroup.
        path: PathBuf,
        /// Bytes asked for.
        limit: u64,
        /// Bytes in use.
        usage: u64,
    },
    /// Processes did not leave a cgroup.
    #[error("{} still holds processes after {waited:?}; end them, then type: rmdir {}", path.display(), path.display())]
    CgroupBusy {
        /// The cgroup.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// Another run needs the controller that is to be switched off.
    #[error("{} has limits of its own, so the controller of its parent stays on for now", user.display())]
    ControllerInUse {
        /// The cgroup with limits.
        user: PathBuf,
    },
    /// The keeper could not be started.
    #[error("cannot start the process that restores settings ({}): {why}", exe.display())]
    KeeperStart {
        /// The executable that was tried.
        exe: PathBuf,
        /// What happened.
        why: &'static str,
        /// The error, if the system gave one.
        source: Option<io::Error>,
    },
    /// The keeper died: nothing may be changed any more.
    #[error("the process that restores settings is gone; nothing more is changed")]
    KeeperGone {
        /// The error of the socket.
        source: io::Error,
    },
    /// No such program.
    #[error("{program} cannot be run: {why}")]
    ProgramNotFound {
        /// As typed.
        program: String,
        /// What is missing, and what to type.
        why: &'static str,
    },
    /// It exists, but cannot be run.
    #[error("{program} cannot be executed: {why}")]
    ProgramNotExecutable {
        /// Path.
        program: String,
        /// Why, and what to type.
        why: &'static str,
        /// The error of the system, where `why` does not tell it.
        source: Option<io::Error>,
    },
    /// An argument or variable that cannot be passed on.
    #[error("{text:?} cannot be passed to the program: {why}")]
    Argument {
        /// The argument, variable or path.
        text: String,
        /// Why.
        why: &'static str,
    },
    /// A system call failed that has no file to name.
    #[error("cannot {action}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// Our exit code for it, as `env` and `timeout` have them: 127 not found, 126 not executable,
    /// else 125.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::ProgramNotFound { .. } => 127,
            Error::ProgramNotExecutable { .. } => 126,
            _ => 125,
        }
    }

    /// Whether the same call may succeed a little later without anyone doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::SwapStillNeeded { .. }
            | Error::CgroupBusy { .. }
            | Error::ControllerInUse { .. } => true,
            Error::File { source, .. }
            | Error::System { source, .. }
            | Error::SwapRefused { source, .. } => matches!(
                source.raw_os_error(),
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR | libc::ENOMEM)
            ),
            _ => false,
        }
    }

    pub(crate) fn file(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Error::File {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        Error::System {
            action,
            source: source.into(),
        }
    }

    /// The error and its sources on one line, as for a log.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_names_the_file_once_and_then_the_reason() {
        let error = Error::file(
            "read",
            Path::new("/nowhere"),
            io::Error::from_raw_os_error(2),
        );
        assert_eq!(error.to_string(), "cannot read /nowhere");
        assert!(
            error
                .chain()
                .starts_with("cannot read /nowhere: No such file"),
            "{}",
            error.chain()
        );
    }

    #[test]
    fn exit_codes_are_those_of_env() {
        assert_eq!(
            Error::ProgramNotFound {
                program: "x".into(),
                why: ""
            }
            .exit_code(),
            127
        );
        let refused = Error::ProgramNotExecutable {
            program: "x".into(),
            why: "",
            source: None,
        };
        assert_eq!(refused.exit_code(), 126);
        assert_eq!(Error::NoZram.exit_code(), 125);
    }

    #[test]
    fn only_what_passes_by_itself_is_transient() {
        let with = |errno| Error::system("x", io::Error::from_raw_os_error(errno));
        assert!(with(libc::EBUSY).is_transient());
        assert!(!with(libc::EPERM).is_transient());
        assert!(!Error::NoZram.is_transient());
    }
}
