//! A program's processes and threads, looked up often: without going through all of `/proc`.

use crate::files;
use crate::process;
use std::fs;
use std::path::Path;

/// A thread's faults since it began (`/proc/PID/task/TID/stat`), readable for any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadFaults {
    /// The thread.
    pub tid: u32,
    /// Faults that had to wait for a device.
    pub major: u64,
    /// Other faults.
    pub minor: u64,
}

/// The faults of each thread of a process; none when it is gone.
pub fn thread_faults(pid: u32) -> Vec<ThreadFaults> {
    let faults = |tid: u32| {
        let path = format!("/proc/{pid}/task/{tid}/stat");
        let stat = process::parse_stat(&files::read_optional(Path::new(&path))?)?;
        Some(ThreadFaults {
            tid,
            major: stat.major_faults,
            minor: stat.minor_faults,
        })
    };
    threads(pid).into_iter().filter_map(faults).collect()
}

/// Direct children of a process, zombies included; quick where the kernel lists them (CONFIG_PROC_CHILDREN).
pub fn children(pid: u32) -> Vec<u32> {
    listed_children(pid).unwrap_or_else(|| process::children(pid))
}

/// All descendants of a process, parents before their children, without itself; quick where the kernel lists children. Processes that
/// come and go meanwhile may be missed.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        match listed_children(parent) {
            Some(children) => {
                // Process ids that were used again meanwhile must not make a circle.
                let new = children.into_iter().filter(|child| *child != pid);
                let new: Vec<u32> = new.filter(|child| !found.contains(child)).collect();
                found.extend(&new);
                next.extend(new);
            }
            None if parent == pid && process::stat(pid).is_some() => {
                return process::descendants(pid);
            }
            None => {}
        }
    }
    found
}

/// `None`: gone, or not listed by this kernel.
fn listed_children(pid: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    let mut listed = false;
    for tid in threads(pid) {
        let path = format!("/proc/{pid}/task/{tid}/children");
        if let Some(text) = files::read_optional(Path::new(&path)) {
            listed = true;
            children.extend(
                text.split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    listed.then_some(children)
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether two processes use the same memory (vfork, until the child's exec); `None` where the kernel does not say: it has
/// no kcmp(2), or one of them is gone or may not be looked into.
pub fn share_memory(a: u32, b: u32) -> Option<bool> {
    /// `KCMP_VM`, include/uapi/linux/kcmp.h.
    const VM: libc::c_long = 1;
    are_same(VM, (a, 0), (b, 0))
}

/// Whether descriptors of two processes, or of one, mean the same open file; `None` where the kernel does not say, as of the memory.
pub fn share_open_file(a: (u32, u32), b: (u32, u32)) -> Option<bool> {
    /// `KCMP_FILE`.
    const FILE: libc::c_long = 0;
    are_same(FILE, a, b)
}

/// Compares something of two processes, by its number there.
fn are_same(what: libc::c_long, a: (u32, u32), b: (u32, u32)) -> Option<bool> {
    let pid = |pid| Some(libc::c_long::from(i32::try_from(pid).ok()?));
    let (first, second) = (pid(a.0)?, pid(b.0)?);
    // SAFETY: compares by number; no memory of ours is involved.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            first,
            second,
            what,
            libc::c_long::from(a.1),
            libc::c_long::from(b.1),
        )
    };
    (order >= 0).then_some(order == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::process::Stdio;

    #[test]
    fn open_files_are_told_apart_and_descriptors_of_one_are_not() {
        use std::os::fd::AsRawFd;
        let open = || std::fs::File::open("/proc/self/stat").expect("readable");
        let (first, second) = (open(), open());
        let same = first.try_clone().expect("a duplicate");
        let place = |file: &std::fs::File| (std::process::id(), file.as_raw_fd().unsigned_abs());
        let shares = |other| share_open_file(place(&first), place(other));
        // A kernel without kcmp, or a container that forbids it, says nothing.
        if shares(&first).is_some() {
            assert_eq!((shares(&same), shares(&second)), (Some(true), Some(false)));
        }
        assert_eq!(share_open_file(place(&first), (u32::MAX, 0)), None);
    }

    #[test]
    fn our_own_threads_have_faults() {
        let all = thread_faults(std::process::id());
        assert!(all.iter().any(|thread| thread.minor > 0), "{all:?}");
        let own = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        assert!(all.iter().any(|thread| thread.tid == own));
        assert_eq!(thread_faults(u32::MAX / 2), []);
    }

    #[test]
    fn children_and_theirs_are_found_and_have_memory_of_their_own() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("a line");
        let found = descendants(child.id());
        assert_eq!(found, process::descendants(child.id()));
        assert_eq!(found.len(), 1);
        assert!(descendants(std::process::id()).contains(&found[0]));
        let me = std::process::id();
        assert_ne!(share_memory(me, child.id()), Some(true));
        assert_ne!(share_memory(me, me), Some(false));
        child.kill().expect("killed");
        child.wait().expect("waited");
        let sleeper = i32::try_from(found[0])
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let _ =
            rustix::process::kill_process(sleeper.expect("a pid"), rustix::process::Signal::KILL);
        assert!(descendants(child.id()).is_empty());
    }
}
