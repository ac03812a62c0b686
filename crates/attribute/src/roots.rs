//! The files of processes in other mount namespaces (containers): their paths mean something else here.
//!
//! Such a file is called `/proc/PID/root/usr/bin/server`, by some process of its namespace. That name opens as long as
//! the process lives; names are looked up when it has ended, so root and namespace are held open.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::RwLock;

/// By the process that they are called by.
static HELD: RwLock<BTreeMap<u32, Held>> = RwLock::new(BTreeMap::new());

struct Held {
    root: File,
    /// Without it the namespace's mounts come apart with its last process.
    _namespace: File,
}

/// Keeps the files below a process's root readable until this process ends. Returns what their paths begin with.
///
/// # Errors
/// If the process has gone, this is not permitted, or the root of another process of that number is held already.
pub fn hold_root(pid: u32) -> io::Result<String> {
    let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
    if held.contains_key(&pid) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let found = Held {
        root: File::open(format!("/proc/{pid}/root"))?,
        _namespace: File::open(format!("/proc/{pid}/ns/mnt"))?,
    };
    held.insert(pid, found);
    Ok(format!("/proc/{pid}/root"))
}

/// The path by which a file can be opened: of one below a root that is held, through that; any other as it is.
pub(crate) fn reachable(path: &Path) -> Cow<'_, Path> {
    let through = || {
        let (pid, inside) = below_root(path.to_str()?)?;
        let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
        let descriptor = held.get(&pid)?.root.as_raw_fd();
        Some(PathBuf::from(format!("/proc/self/fd/{descriptor}{inside}")))
    };
    through().map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Whether it is a file of another mount namespace: then links in its path cannot be followed from here.
pub(crate) fn is_elsewhere(path: &Path) -> bool {
    path.to_str().and_then(below_root).is_some()
}

/// A path as the process itself has it: without what the recorder put before it.
#[must_use]
pub fn path_inside(path: &str) -> &str {
    below_root(path).map_or(path, |(_, inside)| inside)
}

/// Of `/proc/PID/root/INSIDE` both, the slash before `INSIDE` included.
fn below_root(path: &str) -> Option<(u32, &str)> {
    let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
    let inside = rest.strip_prefix("root")?;
    Some((pid.parse().ok()?, inside)).filter(|(_, inside)| inside.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_root_that_is_held_open_after_the_process() {
        let mut process = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let prefix = hold_root(process.id()).expect("it lives");
        assert!(hold_root(process.id()).is_err(), "one of a number");
        process.kill().expect("killed");
        process.wait().expect("waited");
        let own = std::env::current_exe().expect("a path");
        let path = PathBuf::from(format!("{prefix}{}", own.display()));
        assert!(!path.exists());
        let reached = reachable(&path);
        let read = |path: &Path| std::fs::metadata(path).expect("there").len();
        assert_eq!(read(&reached), read(&own));
        assert!(is_elsewhere(&path) && !is_elsewhere(&own));
    }

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in [
            "/usr/lib/libc.so.6",
            "/proc/self/exe",
            "/proc/1/maps",
            "/proc/1/root",
            "",
        ] {
            assert_eq!(reachable(Path::new(path)), Path::new(path));
            assert_eq!(path_inside(path), path);
        }
        assert_eq!(path_inside("/proc/7/root/usr/bin/a b"), "/usr/bin/a b");
        assert!(hold_root(u32::MAX).is_err());
    }
}
