//! A v2 cgroup that is delegated to this user, with only this process in it: as `systemd-run --user --scope
//! -p Delegate=yes` makes one. A cgroup with processes cannot have children with controllers, so this process moves
//! into a child of its own first.

use super::CgroupHost;
use super::CgroupVersion;
use super::members;
use crate::error::Error;
use crate::error::Result;
use crate::family;
use crate::files;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

impl CgroupHost {
    /// Whether our own cgroup may be divided: we may write to it, it has the memory controller, and nobody else is in.
    pub(super) fn is_ours_alone(&self) -> bool {
        let us = std::process::id();
        let ours: Vec<u32> = std::iter::once(us).chain(family::children(us)).collect();
        self.is_theirs_alone(&ours)
    }

    fn is_theirs_alone(&self, ours: &[u32]) -> bool {
        let own = &self.own;
        let inside = members::processes(own);
        self.version == CgroupVersion::V2
            && own != &self.mount
            && !inside.is_empty()
            && inside.iter().all(|pid| ours.contains(pid))
            && super::host::takes_children(own)
            && files::writable(&own.join("cgroup.subtree_control"))
            && super::host::lists_memory(&own.join("cgroup.controllers"))
    }

    /// Moves this process and its children into a child of our own cgroup, so that others can be made beside it.
    /// Returns that child's folder; undoing moves them back.
    pub(super) fn make_room(&self, restorer: &mut Restorer) -> Result<PathBuf> {
        let room = self
            .own
            .join(format!("pagewise-recorder-{}", std::process::id()));
        let ticket = restorer.push(UndoAction::RemoveCgroup {
            path: room.clone(),
            move_to: self.own.clone(),
        })?;
        if let Err(source) = fs::create_dir(&room) {
            restorer.forget(ticket);
            return Err(Error::file("create", &room, source));
        }
        for pid in members::processes(&self.own) {
            files::write(&room.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(room)
    }
}

/// What starts a command in a delegated cgroup without root: the user's own systemd; `None`: it is not there, or we are
/// started by it already.
pub fn delegation_command() -> Option<Vec<String>> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let tried = std::env::var_os(DELEGATED).is_some();
    delegation(runtime.as_deref(), &folders, tried)
}

/// Set in what [`delegation_command`] starts: it is tried once.
pub const DELEGATED: &str = "PAGEWISE_DELEGATED";

fn delegation(runtime: Option<&Path>, folders: &[PathBuf], tried: bool) -> Option<Vec<String>> {
    let listens = runtime?.join("systemd/private").exists();
    let program = folders
        .iter()
        .map(|folder| folder.join("systemd-run"))
        .find(|file| file.is_file())?;
    let arguments = [
        "--user",
        "--scope",
        "--quiet",
        "--collect",
        "-p",
        "Delegate=yes",
        "--",
    ];
    (listens && !tried).then(|| {
        std::iter::once(program.display().to_string())
            .chain(arguments.map(str::to_owned))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delegated scope in a fake hierarchy.
    fn scope(dir: &Path, processes: &str) -> CgroupHost {
        let own = dir.join("user/run.scope");
        fs::create_dir_all(&own).expect("folders");
        for (file, text) in [
            ("cgroup.controllers", "memory pids"),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", processes),
        ] {
            fs::write(own.join(file), text).expect("a file");
        }
        fs::write(dir.join("cgroup.controllers"), "memory pids").expect("a file");
        let mounts = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n", dir.display());
        CgroupHost::from_texts(&mounts, "0::/user/run.scope\n").expect("found")
    }

    #[test]
    fn a_cgroup_is_divided_only_if_nobody_else_is_in_it() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(scope(dir.path(), "7\n8\n").is_theirs_alone(&[7, 8, 9]));
        assert!(!scope(dir.path(), "7\n8\n5\n").is_theirs_alone(&[7, 8]));
        assert!(!scope(dir.path(), "").is_theirs_alone(&[7]));
        let without = scope(dir.path(), "7\n");
        fs::write(without.own.join("cgroup.controllers"), "pids").expect("a file");
        assert!(!without.is_theirs_alone(&[7]));
    }

    #[test]
    fn room_is_made_and_taken_away_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let host = scope(dir.path(), "7\n");
        let mut restorer = Restorer::without_keeper();
        // A real cgroup has the file at once; here it is missing, so the move fails and the folder goes again.
        assert!(host.make_room(&mut restorer).is_err());
        assert!(restorer.undo_all().is_empty());
        let left: Vec<_> = members::children(&host.own);
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn the_users_systemd_is_asked_once_and_only_if_it_is_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = [dir.path().to_owned()];
        assert_eq!(delegation(Some(dir.path()), &folders, false), None);
        fs::create_dir(dir.path().join("systemd")).expect("a folder");
        fs::write(dir.path().join("systemd/private"), "").expect("a file");
        assert_eq!(delegation(Some(dir.path()), &folders, false), None);
        fs::write(dir.path().join("systemd-run"), "").expect("a file");
        let command = delegation(Some(dir.path()), &folders, false).expect("a command");
        assert!(command[0].ends_with("/systemd-run"), "{command:?}");
        assert!(
            command.join(" ").ends_with("-p Delegate=yes --"),
            "{command:?}"
        );
        assert_eq!(delegation(Some(dir.path()), &folders, true), None);
        assert_eq!(delegation(None, &folders, false), None);
    }
}
