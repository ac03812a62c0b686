//! Processes that run already, to be observed.

use crate::error::Error;
use crate::error::Result;
use crate::process;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::process::Pid;
use rustix::process::PidfdFlags;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

/// `PF_KTHREAD` of include/linux/sched.h (6.12), shown in the field `flags` of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A running process that this user may look into.
#[derive(Debug)]
pub struct RunningProcess {
    pid: u32,
    start_ns: u64,
    pidfd: OwnedFd,
}

impl RunningProcess {
    /// Finds it.
    ///
    /// # Errors
    /// [`Error::NotObservable`] with the reason: there is none, it has ended, it is a thread, one of the kernel, this
    /// process itself, or another user's.
    pub fn find(pid: u32) -> Result<Self> {
        let refused = |why: String| Error::NotObservable { pid, why };
        if pid == std::process::id() {
            return Err(refused("it is pagewise itself".to_owned()));
        }
        let gone = || refused("there is no such process; see: ps -e".to_owned());
        let stat = process::stat(pid).ok_or_else(gone)?;
        match process::thread_group(pid) {
            Some(group) if group != pid => {
                return Err(refused(format!(
                    "it is a thread of process {group}; type: --pid {group}"
                )));
            }
            _ => {}
        }
        if matches!(stat.state, 'Z' | 'X') && process::memory_is_gone(pid) {
            return Err(refused(
                "it has ended, and its parent has not taken notice yet (a zombie)".to_owned(),
            ));
        }
        if process::flags(pid).is_some_and(|flags| flags & KERNEL_THREAD != 0) {
            return Err(refused("it is a thread of the kernel".to_owned()));
        }
        match fs::File::open(format!("/proc/{pid}/maps")) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(refused(
                    "it belongs to another user or is protected; run with sudo".to_owned(),
                ));
            }
            Err(_) => return Err(gone()),
            Ok(_) => {}
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = rustix::process::pidfd_open(number.ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(|error| match error {
                rustix::io::Errno::SRCH => gone(),
                error => Error::system("open the process (needs Linux 5.3)", error),
            })?;
        Ok(RunningProcess {
            pid,
            start_ns: stat.start_ns,
            pidfd,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, ns since boot.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Readable once it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has ended, taken notice of or not.
    pub fn has_ended(&self) -> bool {
        let mut poll = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut poll, Some(&now)).is_ok_and(|ended| ended > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn refusal(pid: u32) -> String {
        RunningProcess::find(pid).expect_err("refused").to_string()
    }

    #[test]
    fn a_child_of_ours_is_found_and_its_end_is_seen() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let found = RunningProcess::find(child.id()).expect("found");
        assert_eq!(found.pid(), child.id());
        assert_eq!(
            Some(found.start_ns()),
            process::stat(child.id()).map(|stat| stat.start_ns)
        );
        assert!(!found.has_ended());
        child.kill().expect("killed");
        // Not waited for: a zombie.
        let mut ended = [PollFd::new(&found.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut ended, None).expect("polled");
        assert!(found.has_ended());
        assert!(refusal(child.id()).contains("zombie"));
        child.wait().expect("waited");
        assert!(refusal(child.id()).contains("no such process"));
    }

    #[test]
    fn what_cannot_be_observed_says_why() {
        assert!(refusal(std::process::id()).contains("pagewise itself"));
        assert!(refusal(u32::MAX).contains("no such process"));
        assert!(refusal(0).contains("no such process"));
        if process::comm(2).as_deref() == Some("kthreadd") {
            assert!(refusal(2).contains("thread of the kernel"));
        }
    }

    #[test]
    fn a_thread_is_told_apart_from_its_process() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get())
                .expect("sent");
            let _ = ended.recv();
        });
        let tid = receive.recv().expect("a thread").unsigned_abs();
        let said = refusal(tid);
        drop(end);
        thread.join().expect("joined");
        let advice = format!("--pid {}", std::process::id());
        assert!(said.contains(&advice), "{said}");
    }
}
