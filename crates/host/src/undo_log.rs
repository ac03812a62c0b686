//! What a keeper knows, in a file as well. Who ends a whole container, unit or session ends recorder and keeper
//! together; the next run then finds the file, which nobody holds locked any more, and undoes what is left
//! ([`take_up`]).
//!
//! - `/run/pagewise` for root, else `pagewise` in the user's own runtime folder; without such a folder there is no file.
//!   Both are gone after a boot, as swap and cgroups are; where they are not, the boot's number in the first line tells,
//!   and only files are removed.
//! - The lines are those the keeper is sent. Recorder and keeper each hold a shared lock on the file.

use crate::files;
use crate::journal::UndoAction;
use crate::keeper::collect;
use crate::keeper::undo_until_done;
use crate::restorer::Failure;
use crate::swap::zram;
use rustix::fs::FlockOperation;
use rustix::fs::flock;
use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

const SUFFIX: &str = "undo";
/// A new run does not wait longer than this for what cannot be undone yet.
const TRY_FOR: Duration = Duration::from_secs(10);

/// The recorder's side: appends, best effort. A full `/run` is no reason not to record.
#[derive(Debug)]
pub(crate) struct UndoLog {
    path: PathBuf,
    file: File,
}

/// What an earlier run had left.
#[derive(Debug)]
pub struct TakenUp {
    /// Undone now.
    pub undone: Vec<UndoAction>,
    /// Could not be undone.
    pub failures: Vec<Failure>,
}

impl UndoLog {
    /// A file of our own, locked before anyone can find it.
    pub(crate) fn create() -> Option<Self> {
        Self::create_in(&folder()?).ok()
    }

    fn create_in(folder: &Path) -> io::Result<Self> {
        make_private(folder)?;
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("{:016x}", u64::from_ne_bytes(number));
        let (hidden, path) = (
            folder.join(format!(".{name}")),
            folder.join(format!("{name}.{SUFFIX}")),
        );
        let mut open = OpenOptions::new();
        open.append(true).create_new(true).mode(0o600);
        let mut file = open.open(&hidden)?;
        flock(&file, FlockOperation::LockShared)?;
        let first = boot().unwrap_or_default() + "\n";
        let named = file
            .write_all(first.as_bytes())
            .and_then(|()| fs::rename(&hidden, &path));
        if named.is_err() {
            let _ = fs::remove_file(&hidden);
        }
        named.map(|()| Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, line: &[u8]) {
        let _ = self.file.write_all(line);
    }
}

/// The keeper's side: holds the file locked for as long as it lives.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    _file: File,
}

impl Held {
    pub(crate) fn hold(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        flock(&file, FlockOperation::LockShared).ok()?;
        Some(Self {
            path: path.to_owned(),
            _file: file,
        })
    }

    /// All is undone, or never will be.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Undoes what runs left that were killed together with their keepers. Call it before anything is changed.
pub fn take_up() -> Vec<TakenUp> {
    folder().map_or_else(Vec::new, |folder| take_up_in(&folder))
}

fn take_up_in(folder: &Path) -> Vec<TakenUp> {
    if !is_private(folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
        .filter_map(|path| take_up_file(&path))
        .collect()
}

/// `None`: its run is still going on, or had nothing left to undo.
fn take_up_file(path: &Path) -> Option<TakenUp> {
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(libc::O_NOFOLLOW);
    let file = open.open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let data = file.metadata().ok()?;
    // Somebody else's line would be done with our rights; and without a name it was taken up already.
    if data.uid() != rustix::process::geteuid().as_raw() || data.nlink() != 1 {
        return None;
    }
    let pending = left_in(BufReader::new(&file));
    if pending.is_empty() {
        let _ = fs::remove_file(path);
        return None;
    }
    let all = pending.clone();
    let failures = undo_until_done(pending, TRY_FOR);
    // What may still succeed is for the run after this one.
    if !failures.iter().any(|failure| failure.error.is_transient()) {
        let _ = fs::remove_file(path);
    }
    let failed = |action: &UndoAction| failures.iter().any(|failure| failure.action == *action);
    let undone = all.into_iter().filter(|action| !failed(action)).collect();
    Some(TakenUp { undone, failures })
}

/// What is left to undo and still ours.
fn left_in(mut lines: impl BufRead) -> Vec<UndoAction> {
    let mut first = String::new();
    let read = lines.read_line(&mut first);
    let same_boot = read.is_ok() && boot().is_some_and(|boot| boot == first.trim_end());
    let mut pending = collect(lines);
    let others = zrams_of_others(&pending);
    pending.retain(|action| match action {
        UndoAction::RemoveFile { .. } => true,
        UndoAction::SwapOff { path } => same_boot && !others.contains(path),
        _ => same_boot,
    });
    pending
}

/// Devices that have another size than the one we gave: somebody else has set them up since.
fn zrams_of_others(pending: &[UndoAction]) -> Vec<PathBuf> {
    let other = |action: &UndoAction| match action {
        UndoAction::ResetZram {
            number, disksize, ..
        } if zram::disksize(*number) != Some(*disksize) => Some(zram::node(*number)),
        _ => None,
    };
    pending.iter().filter_map(other).collect()
}

/// The number of this boot.
fn boot() -> Option<String> {
    files::read_optional(Path::new("/proc/sys/kernel/random/boot_id"))
}

fn folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/run/pagewise".into());
    }
    Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("pagewise"))
}

/// Makes it, or sees that nobody else writes there. Others may look into it: the manager of huge pages has its status there.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(folder) {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn is_private(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|data| {
        data.is_dir()
            && data.uid() == rustix::process::geteuid().as_raw()
            && data.mode() & 0o022 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Message;

    fn will(id: u64, action: UndoAction) -> Vec<u8> {
        line(&Message::Will { id, action })
    }

    fn line(message: &Message) -> Vec<u8> {
        let mut line = serde_json::to_vec(message).expect("writes");
        line.push(b'\n');
        line
    }

    fn setting(path: &Path) -> UndoAction {
        UndoAction::WriteFile {
            path: path.to_owned(),
            contents: "before".into(),
        }
    }

    /// A run that has changed two settings and put one back.
    fn log_of_a_run(folder: &Path) -> UndoLog {
        let mut log = UndoLog::create_in(&folder.join("logs")).expect("made");
        for (id, name) in [(0, "left"), (1, "restored")] {
            fs::write(folder.join(name), "now").expect("written");
            log.append(&will(id, setting(&folder.join(name))));
        }
        log.append(&line(&Message::Done { id: 1 }));
        // Cut by the kill: that change was not made.
        log.append(b"{\"message\":\"will\"");
        log
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder.join("logs")).expect("a folder").count()
    }

    #[test]
    fn what_a_killed_run_left_is_undone_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, logs) = (dir.path(), dir.path().join("logs"));
        drop(log_of_a_run(folder));
        let taken = take_up_in(&logs);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].undone, [setting(&folder.join("left"))]);
        assert!(taken[0].failures.is_empty());
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("text");
        assert_eq!(
            (read("left").as_str(), read("restored").as_str()),
            ("before", "now")
        );
        assert_eq!((take_up_in(&logs).len(), names(folder)), (0, 0));
    }

    #[test]
    fn runs_that_go_on_and_their_keepers_are_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let logs = dir.path().join("logs");
        let log = log_of_a_run(dir.path());
        let held = Held::hold(log.path()).expect("held");
        assert!(take_up_in(&logs).is_empty(), "both live");
        drop(log);
        assert!(take_up_in(&logs).is_empty(), "the keeper is at it");
        held.remove();
        assert_eq!((take_up_in(&logs).len(), names(dir.path())), (0, 0));
    }

    #[test]
    fn after_a_boot_only_files_are_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("swap");
        fs::write(&file, "").expect("written");
        let removal = UndoAction::remove_file(&file).expect("inspected");
        let mut text = b"another-boot\n".to_vec();
        text.extend(will(0, removal.clone()));
        text.extend(will(1, UndoAction::SwapOff { path: file }));
        assert_eq!(left_in(text.as_slice()), [removal]);
    }

    #[test]
    fn a_zram_device_of_another_size_is_somebody_elses() {
        let reset = UndoAction::ResetZram {
            number: 4_000_000,
            disksize: 4096,
            algorithm: "lz4".into(),
            hot_added: false,
        };
        let node = zram::node(4_000_000);
        assert_eq!(zrams_of_others(&[reset]), [node]);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let error = UndoLog::create_in(dir.path()).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
