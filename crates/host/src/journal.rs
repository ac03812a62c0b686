//! What is to be undone, in a form that can be sent to another process.

use crate::cgroup;
use crate::error::Error;
use crate::error::Result;
use crate::files;
use crate::open_file;
use crate::open_file::FileIdentity;
use crate::swap;
use serde::Deserialize;
use serde::Serialize;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// One thing to undo. Performing it twice, or though the change was never made, does nothing. Paths
/// are absolute: the keeper has another current folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum UndoAction {
    /// Switch a swap area off, which brings its pages back into memory.
    SwapOff {
        /// Device or file.
        path: PathBuf,
    },
    /// Empty a zram device that we set up.
    ResetZram {
        /// The N of `/dev/zramN`.
        number: u32,
        /// The size we gave it, bytes: with another size it is someone else's.
        disksize: u64,
        /// Its algorithm before.
        algorithm: String,
        /// The device did not exist before.
        hot_added: bool,
    },
    /// Remove a file we made.
    RemoveFile {
        /// The file.
        path: PathBuf,
        /// Its device and inode number: another file of this name is left alone.
        device: u64,
        /// See `device`.
        inode: u64,
    },
    /// Lift the limits of a cgroup, move its processes to `move_to` and remove it. The program is the
    /// user's: it goes on.
    RemoveCgroup {
        /// Folder of the cgroup.
        path: PathBuf,
        /// Where its processes would be without us.
        move_to: PathBuf,
    },
    /// End all processes of a cgroup: SIGTERM, after a second SIGKILL.
    KillCgroup {
        /// Folder of the cgroup.
        path: PathBuf,
    },
    /// Switch a v2 controller off for the children of a cgroup.
    DisableController {
        /// Folder of the cgroup.
        cgroup: PathBuf,
        /// Name of the controller.
        controller: String,
    },
    /// Give a setting of the machine its former value.
    WriteFile {
        /// File of the setting.
        path: PathBuf,
        /// Former value.
        contents: String,
    },
    /// Let an open file of a process read ahead as usual again (`POSIX_FADV_NORMAL`).
    ReadAsUsual {
        /// The process.
        pid: u32,
        /// When it started, ns since boot: another one of this number is left alone.
        start_ns: u64,
        /// By which of its descriptors.
        descriptor: u32,
        /// Major and minor number of the file's device, and its inode number: a descriptor that means another file is left alone.
        device: (u32, u32),
        /// See `device`.
        inode: u64,
    },
}

impl UndoAction {
    /// To remove a file that exists now, and only that one.
    ///
    /// # Errors
    /// When it cannot be inspected.
    pub fn remove_file(path: &Path) -> Result<Self> {
        let data = fs::symlink_metadata(path).map_err(|e| Error::file("inspect", path, e))?;
        Ok(UndoAction::RemoveFile {
            path: path.to_owned(),
            device: data.dev(),
            inode: data.ino(),
        })
    }

    /// Does it. Swapping off can take seconds, waiting for processes too.
    ///
    /// # Errors
    /// Of the files and system calls; [`Error::is_transient`] tells whether to try again.
    pub fn perform(&self) -> Result<()> {
        match self {
            UndoAction::SwapOff { path } => swap::control::swap_off(path),
            UndoAction::ResetZram {
                number,
                disksize,
                algorithm,
                hot_added,
            } => swap::zram::reset(*number, *disksize, algorithm, *hot_added),
            UndoAction::RemoveFile {
                path,
                device,
                inode,
            } => remove_file(path, *device, *inode),
            UndoAction::RemoveCgroup { path, move_to } => cgroup::remove(path, move_to),
            UndoAction::KillCgroup { path } => cgroup::kill_all(path),
            UndoAction::DisableController { cgroup, controller } => {
                cgroup::disable_controller(cgroup, controller)
            }
            UndoAction::WriteFile { path, contents } => files::write_if_present(path, contents),
            &UndoAction::ReadAsUsual {
                pid,
                start_ns,
                descriptor,
                device,
                inode,
            } => {
                open_file::read_as_usual(
                    (pid, start_ns),
                    descriptor,
                    FileIdentity { device, inode },
                );
                Ok(())
            }
        }
    }

    /// What to type to do it by hand.
    pub fn by_hand(&self) -> String {
        match self {
            UndoAction::SwapOff { path } => format!("swapoff {}", quoted(path)),
            UndoAction::ResetZram {
                number, hot_added, ..
            } => {
                let reset = format!("echo 1 > /sys/block/zram{number}/reset");
                let remove = format!(" && echo {number} > /sys/class/zram-control/hot_remove");
                if *hot_added { reset + &remove } else { reset }
            }
            UndoAction::RemoveFile { path, .. } => format!("rm {}", quoted(path)),
            UndoAction::RemoveCgroup { path, move_to } => format!(
                "for p in $(cat {0}/cgroup.procs); do echo $p > {1}/cgroup.procs; done; rmdir {0}",
                quoted(path),
                quoted(move_to)
            ),
            UndoAction::KillCgroup { path } => {
                format!("kill -9 $(cat {}/cgroup.procs)", quoted(path))
            }
            UndoAction::DisableController { cgroup, controller } => {
                format!(
                    "echo -{controller} > {}/cgroup.subtree_control",
                    quoted(cgroup)
                )
            }
            UndoAction::WriteFile { path, contents } => {
                format!("echo {} > {}", quoted(Path::new(contents)), quoted(path))
            }
            // By hand it cannot be done, but the process may open the file anew.
            UndoAction::ReadAsUsual {
                pid, descriptor, ..
            } => format!("readlink /proc/{pid}/fd/{descriptor}"),
        }
    }
}

fn remove_file(path: &Path, device: u64, inode: u64) -> Result<()> {
    let data = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("inspect", path, error)),
        Ok(data) => data,
    };
    if (data.dev(), data.ino()) != (device, inode) {
        return Ok(());
    }
    fs::remove_file(path).map_err(|source| Error::file("remove", path, source))
}

fn quoted(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// A word as it is typed in a shell, quoted if need be.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_read_back_from_json() {
        let actions = [
            UndoAction::SwapOff {
                path: "/var/tmp/a b".into(),
            },
            UndoAction::ResetZram {
                number: 3,
                disksize: 7,
                algorithm: "lz4".into(),
                hot_added: true,
            },
            UndoAction::DisableController {
                cgroup: "/x".into(),
                controller: "memory".into(),
            },
        ];
        for action in actions {
            let text = serde_json::to_string(&action).expect("writes");
            assert!(!text.contains('\n'));
            assert_eq!(
                serde_json::from_str::<UndoAction>(&text).expect("reads"),
                action
            );
        }
    }

    #[test]
    fn only_our_own_file_is_removed_and_only_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        fs::write(&path, "ours").expect("a file");
        let action = UndoAction::remove_file(&path).expect("inspected");
        // Kept under another name, so that its inode number is not given out again.
        fs::rename(&path, dir.path().join("kept")).expect("renamed");
        fs::write(&path, "the user's").expect("a file");
        action.perform().expect("leaves it alone");
        assert!(path.exists());
        fs::rename(dir.path().join("kept"), &path).expect("renamed");
        action.perform().expect("removes it");
        assert!(!path.exists());
        action.perform().expect("nothing left to do");
    }

    #[test]
    fn undoing_what_never_happened_is_success() {
        let gone = PathBuf::from("/nonexistent-pagewise/x");
        let actions = [
            UndoAction::SwapOff { path: gone.clone() },
            UndoAction::ResetZram {
                number: 4_000_000,
                disksize: 1,
                algorithm: "lz4".into(),
                hot_added: true,
            },
            UndoAction::RemoveFile {
                path: gone.clone(),
                device: 1,
                inode: 1,
            },
            UndoAction::RemoveCgroup {
                path: gone.clone(),
                move_to: "/".into(),
            },
            UndoAction::KillCgroup { path: gone.clone() },
            UndoAction::DisableController {
                cgroup: gone.clone(),
                controller: "memory".into(),
            },
            UndoAction::WriteFile {
                path: gone,
                contents: "1".into(),
            },
        ];
        for action in actions {
            action
                .perform()
                .unwrap_or_else(|error| panic!("{action:?}: {}", error.chain()));
        }
    }

    #[test]
    fn what_to_type_is_safe_to_paste() {
        let action = UndoAction::SwapOff {
            path: "/tmp/it's $HOME".into(),
        };
        assert_eq!(action.by_hand(), r"swapoff '/tmp/it'\''s $HOME'");
        let action = UndoAction::WriteFile {
            path: "/sys/x".into(),
            contents: "madvise".into(),
        };
        assert_eq!(action.by_hand(), "echo madvise > /sys/x");
    }
}
