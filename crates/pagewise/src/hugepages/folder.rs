//! The manager's folder: a lock, so that there is one manager only, and its status.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use pagewise_host::process;
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
            // Who may open it may hold it.
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(|error| failed("open the lock in", &error))?;
        let _ = lock.set_permissions(fs::Permissions::from_mode(0o600));
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
    if is_held(folder, &text) {
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

/// Whether a manager holds the lock; who may not look goes by whether it is alive.
fn is_held(folder: &Path, status: &str) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
        Err(_) => has_written(folder, status).unwrap_or(true),
    }
}

/// Whether the process that the status names lives, and lived when it was written: its number may be another's by now.
fn has_written(folder: &Path, status: &str) -> Option<bool> {
    let status: serde_json::Value = serde_json::from_str(status).ok()?;
    let pid = u32::try_from(status["pid"].as_u64()?).ok()?;
    let Some(stat) = process::stat(pid) else {
        return Some(false);
    };
    let written = fs::metadata(folder.join(STATUS)).ok()?.modified().ok()?;
    let age = written.elapsed().unwrap_or_default();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    // Of both times some milliseconds are rounded.
    let lived = now.saturating_sub(Duration::from_nanos(stat.start_ns));
    Some(lived + Duration::from_secs(1) >= age)
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
        let mode = fs::metadata(path.join(LOCK)).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "who may open it may hold it");
    }

    #[test]
    fn who_may_not_look_at_the_lock_goes_by_the_process_that_wrote() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |pid: u32| {
            let text = format!("{{\"pid\": {pid}}}");
            fs::write(dir.path().join(STATUS), &text).expect("written");
            text
        };
        let own = write(std::process::id());
        assert_eq!(has_written(dir.path(), &own), Some(true));
        let none = write(u32::MAX);
        assert_eq!(has_written(dir.path(), &none), Some(false));
        // Written before that process began.
        let own = write(std::process::id());
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        let file = File::options().append(true).open(dir.path().join(STATUS));
        file.and_then(|file| file.set_modified(long_ago))
            .expect("set");
        assert_eq!(has_written(dir.path(), &own), Some(false));
    }
}
