//! The manager's folder: a lock, so that there is one manager only, and its status.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FlockOperation;

use crate::failure::Failure;

const LOCK: &str = "hugepages.lock";
const STATUS: &str = "hugepages.json";

/// Ours until dropped; the kernel lets go of the lock also if we are killed.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |what: &str, error: &std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::PermissionDenied => {
                    "; run with sudo, or name another folder: --state FOLDER"
                }
                _ => "",
            };
            Failure::new(format!("cannot {what} {}: {error}{hint}", path.display()))
        };
        fs::create_dir_all(path).map_err(|error| failed("make the folder", &error))?;
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .map_err(|error| failed("open the lock in", &error))?;
        if !take(&lock) {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let who = if pid.is_empty() {
                "another process"
            } else {
                pid.trim()
            };
            return Err(Failure::new(format!(
                "a huge page manager runs already (process {who}): two would clear each other's accessed bits; see it: pagewise hugepages status, end it: kill {who}"
            )));
        }
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(|error| failed("write to the lock in", &error))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn write_status(&self, text: &str) -> Result<(), Failure> {
        replace(&self.path.join(STATUS), text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The lock file stays: who removes one may remove another's.
        let _ = fs::remove_file(self.path.join(STATUS));
    }
}

/// Gives a file new contents at once, so that nobody reads half of them.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        Failure::new(format!("cannot write {}: {error}", path.display()))
    })
}

/// What the manager last wrote there.
pub(super) fn read_status(folder: &Path) -> Result<String, Failure> {
    let path = folder.join(STATUS);
    let none = || {
        Failure::new(
            "no huge page manager runs; start one: sudo pagewise hugepages --all, or look at one process: sudo pagewise hugepages scan --pid PID",
        )
    };
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => none(),
        _ => Failure::new(format!("cannot read {}: {error}", path.display())),
    })?;
    // One that was killed leaves its last word behind.
    if is_held(folder) {
        Ok(text)
    } else {
        Err(none())
    }
}

/// Who only looks whether it is held holds it for a moment, too.
fn take(lock: &File) -> bool {
    (0..5).any(|attempt| {
        std::thread::sleep(std::time::Duration::from_millis(5 * attempt));
        rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Whether a manager holds the lock; yes if we may not look.
fn is_held(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        return true;
    };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_manager_is_refused_until_the_first_has_ended() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("state");
        let first = Folder::open(&path).expect("the first");
        first.write_status("{}").expect("written");
        assert_eq!(read_status(&path).expect("read"), "{}");
        let refused = Folder::open(&path).err().expect("refused").to_string();
        assert!(
            refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        drop(first);
        fs::write(path.join(STATUS), "{}").expect("what a killed one leaves");
        let none = read_status(&path).expect_err("none").to_string();
        assert!(none.contains("no huge page manager runs"), "{none}");
        Folder::open(&path).expect("the next one");
    }
}
