//! Finds the hierarchy that controls memory, and the folder where a new cgroup may be made.

use crate::error::Error;
use crate::error::Result;
use crate::files;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use serde::Serialize;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

/// Version of the hierarchy the memory controller is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    /// One hierarchy per controller (Documentation/admin-guide/cgroup-v1/memory.rst).
    V1,
    /// The unified hierarchy (Documentation/admin-guide/cgroup-v2.rst).
    V2,
}

/// The hierarchy that controls memory, seen from this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CgroupHost {
    /// Its version.
    pub version: CgroupVersion,
    /// Both versions are mounted (hybrid); the memory controller is in [`CgroupHost::version`].
    pub hybrid: bool,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Folder of the cgroup this process is in; the mount itself if that cannot be seen from here.
    pub own: PathBuf,
}

/// One mounted hierarchy.
struct Mount {
    root: PathBuf,
    point: PathBuf,
    v2: bool,
    memory: bool,
}

impl CgroupHost {
    /// Finds it from `/proc/self/mountinfo` and `/proc/self/cgroup`.
    ///
    /// # Errors
    /// [`Error::CgroupUnavailable`] when no mounted hierarchy has the memory controller.
    pub fn detect() -> Result<Self> {
        let mounts = files::read(Path::new("/proc/self/mountinfo"))?;
        let own = files::read(Path::new("/proc/self/cgroup"))?;
        Self::from_texts(&mounts, &own)
    }

    /// As [`CgroupHost::detect`], from the text of those two files.
    ///
    /// # Errors
    /// The same.
    pub fn from_texts(mountinfo: &str, own_cgroups: &str) -> Result<Self> {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(parse_mount).collect();
        let v1 = mounts.iter().find(|mount| !mount.v2 && mount.memory);
        let v2 = mounts.iter().find(|mount| mount.v2);
        let (mount, version) = match (v1, v2) {
            (Some(mount), _) => (mount, CgroupVersion::V1),
            (None, Some(mount)) if lists_memory(&mount.point.join("cgroup.controllers")) => {
                (mount, CgroupVersion::V2)
            }
            (None, Some(_)) => {
                return Err(unavailable(
                    "the memory controller is off; boot with cgroup_enable=memory",
                ));
            }
            (None, None) => {
                return Err(unavailable(
                    "no cgroup file system is mounted; type: mount -t cgroup2 none /sys/fs/cgroup",
                ));
            }
        };
        let hybrid = mounts.iter().any(|mount| mount.v2) && mounts.iter().any(|mount| !mount.v2);
        let own = own_folder(mount, version, own_cgroups);
        Ok(CgroupHost {
            version,
            hybrid,
            mount: mount.point.clone(),
            own,
        })
    }

    /// Whether a cgroup could be made here now; changes nothing.
    ///
    /// # Errors
    /// [`Error::CgroupUnavailable`] with what is missing and what to type.
    pub fn check_create(&self) -> Result<()> {
        self.parent_for_new().map(drop)
    }

    /// Folder to make a new cgroup in; switches the controller on there if need be, with its undoing.
    /// With it, where processes that are left in that cgroup are to go at last.
    pub(super) fn prepare_parent(&self, restorer: &mut Restorer) -> Result<(PathBuf, PathBuf)> {
        let mut move_to = self.own.clone();
        let (folder, enable) = self.parent_for_new()?;
        if folder == self.own && self.is_ours_alone() {
            move_to = self.make_room(restorer)?;
        }
        if enable {
            let controller = "memory".to_owned();
            let cgroup = folder.clone();
            let _ = restorer.push(UndoAction::DisableController { cgroup, controller })?;
            files::write(&folder.join("cgroup.subtree_control"), "+memory")?;
        }
        Ok((folder, move_to))
    }

    fn parent_for_new(&self) -> Result<(PathBuf, bool)> {
        match self.version {
            CgroupVersion::V1 => self.parent_v1().map(|folder| (folder, false)),
            CgroupVersion::V2 => self.parent_v2(),
        }
    }

    /// Inside our own cgroup, so that limits around it still hold.
    fn parent_v1(&self) -> Result<PathBuf> {
        let candidates = [&self.own, &self.mount];
        let found = candidates.into_iter().find(|folder| takes_children(folder));
        found
            .cloned()
            .ok_or_else(|| unavailable("only root may make cgroups here; run with sudo"))
    }

    /// A cgroup with processes cannot have children with controllers ("no internal processes"), so the
    /// new one becomes a sibling of ours or of one of its ancestors; unless ours is delegated to us alone, and thus
    /// ours to divide: what is above it belongs to whoever delegated it.
    fn parent_v2(&self) -> Result<(PathBuf, bool)> {
        if self.is_ours_alone() {
            return Ok((self.own.clone(), true));
        }
        let chain: Vec<&Path> = self
            .own
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.mount))
            .collect();
        let enabled = |folder: &&&Path| lists_memory(&folder.join("cgroup.subtree_control"));
        if let Some(folder) = chain
            .iter()
            .filter(enabled)
            .find(|folder| takes_children(folder))
        {
            return Ok((folder.to_path_buf(), false));
        }
        let can_enable = |folder: &&&Path| {
            lists_memory(&folder.join("cgroup.controllers"))
                && files::writable(&folder.join("cgroup.subtree_control"))
                && (self.is_real_root(folder) || super::members::processes(folder).is_empty())
        };
        if let Some(folder) = chain
            .iter()
            .filter(can_enable)
            .find(|folder| takes_children(folder))
        {
            return Ok((folder.to_path_buf(), true));
        }
        Err(unavailable(
            "no cgroup above this process is delegated to this user with the memory controller; run with \
             sudo, or under: systemd-run --user --scope -p Delegate=yes",
        ))
    }

    /// The root of the hierarchy itself is the only one without `cgroup.events`; a container's root
    /// has it.
    fn is_real_root(&self, folder: &Path) -> bool {
        folder == self.mount && !folder.join("cgroup.events").exists()
    }
}

/// Where hierarchies are mounted: first the one that controls memory, then the unified one, then the others.
pub(super) fn mount_points() -> Result<Vec<PathBuf>> {
    let text = files::read(Path::new("/proc/self/mountinfo"))?;
    let mut mounts: Vec<Mount> = text.lines().filter_map(parse_mount).collect();
    mounts.sort_by_key(|mount| (!mount.memory, !mount.v2));
    Ok(mounts.into_iter().map(|mount| mount.point).collect())
}

/// Switches a controller off again for the children of `cgroup`; nothing to do is success. A run that
/// began after ours relies on it: not before that has ended.
pub(crate) fn disable_controller(cgroup: &Path, controller: &str) -> Result<()> {
    let control = cgroup.join("cgroup.subtree_control");
    if !files::read_optional(&control).is_some_and(|text| has_word(&text, controller)) {
        return Ok(());
    }
    match super::members::children(cgroup)
        .into_iter()
        .find(|child| is_limited(child))
    {
        Some(user) => Err(Error::ControllerInUse { user }),
        None => files::write(&control, &format!("-{controller}")),
    }
}

fn is_limited(cgroup: &Path) -> bool {
    let limit = |file| files::read_number(&cgroup.join(file));
    limit("memory.high").or(limit("memory.max")).is_some()
}

pub(super) fn takes_children(folder: &Path) -> bool {
    folder.is_dir() && files::writable(folder) && files::writable(&folder.join("cgroup.procs"))
}

pub(super) fn lists_memory(file: &Path) -> bool {
    files::read_optional(file).is_some_and(|text| has_word(&text, "memory"))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|other| other == word)
}

fn unavailable(why: &str) -> Error {
    Error::CgroupUnavailable {
        why: why.to_owned(),
    }
}

/// One line of `mountinfo` (proc_pid_mountinfo(5)), if it is a cgroup hierarchy.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split_ascii_whitespace();
    let kind = right.next()?;
    let options = right.nth(1).unwrap_or("");
    let mut left = left.split_ascii_whitespace();
    let root = files::unescape(left.nth(3)?);
    let point = files::unescape(left.next()?);
    let v2 = match kind {
        "cgroup2" => true,
        "cgroup" => false,
        _ => return None,
    };
    Some(Mount {
        root,
        point,
        v2,
        memory: options.split(',').any(|option| option == "memory"),
    })
}

/// Folder of our own cgroup; lines of `/proc/self/cgroup` are `number:controllers:path`.
fn own_folder(mount: &Mount, version: CgroupVersion, own_cgroups: &str) -> PathBuf {
    let path = own_cgroups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match version {
            CgroupVersion::V1 => controllers.split(',').any(|name| name == "memory"),
            CgroupVersion::V2 => controllers.is_empty(),
        };
        ours.then(|| PathBuf::from(path))
    });
    // A container may mount a part of the hierarchy: paths are then relative to the whole of it.
    let inside = path
        .as_deref()
        .and_then(|path| path.strip_prefix(&mount.root).ok());
    let plain = |path: &&Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    match inside.filter(plain) {
        Some(inside) if inside.as_os_str().is_empty() => mount.point.clone(),
        Some(inside) if mount.point.join(inside).is_dir() => mount.point.join(inside),
        _ => mount.point.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const HYBRID: &str = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
20 1 8:1 / / rw - ext4 /dev/root rw
";

    #[test]
    fn with_both_mounted_the_one_with_the_memory_controller_counts() {
        let host = CgroupHost::from_texts(HYBRID, "4:memory:/no/such\n0::/\n").expect("found");
        assert_eq!(host.version, CgroupVersion::V1);
        assert!(host.hybrid);
        assert_eq!(
            host.own,
            Path::new("/sys/fs/cgroup/memory"),
            "falls back to the mount"
        );
    }

    #[test]
    fn without_any_hierarchy_the_error_says_what_to_type() {
        let error =
            CgroupHost::from_texts("20 1 8:1 / / rw - ext4 /dev/root rw", "").expect_err("none");
        assert!(error.to_string().contains("mount -t cgroup2"), "{error}");
    }

    /// A fake v2 hierarchy: folder, controllers, subtree_control, processes.
    fn fake(root: &Path, folders: &[(&str, &str, &str, &str)]) {
        for (folder, controllers, subtree, processes) in folders {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("cgroup.controllers"), controllers).expect("a file");
            fs::write(folder.join("cgroup.subtree_control"), subtree).expect("a file");
            fs::write(folder.join("cgroup.procs"), processes).expect("a file");
        }
    }

    fn host(root: &Path, own: &str) -> CgroupHost {
        let mounts = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n", root.display());
        CgroupHost::from_texts(&mounts, &format!("0::/{own}\n")).expect("found")
    }

    #[test]
    fn v2_makes_a_sibling_where_the_controller_is_enabled() {
        let dir = tempfile::tempdir().expect("a folder");
        fake(
            dir.path(),
            &[
                ("", "cpu memory", "memory", "1"),
                ("user", "memory", "memory", ""),
                ("user/app", "memory", "", "77"),
            ],
        );
        let host = host(dir.path(), "user/app");
        assert_eq!(host.own, dir.path().join("user/app"));
        let parent = host.parent_for_new().expect("a parent");
        assert_eq!(parent, (dir.path().join("user"), false));
    }

    #[test]
    fn v2_enables_the_controller_at_the_root_and_disables_it_again() {
        let dir = tempfile::tempdir().expect("a folder");
        fake(dir.path(), &[("", "cpu memory", "cpu", "1")]);
        let control = dir.path().join("cgroup.subtree_control");
        let mut restorer = Restorer::without_keeper();
        let (parent, _) = host(dir.path(), "")
            .prepare_parent(&mut restorer)
            .expect("a parent");
        assert_eq!(parent, dir.path());
        assert_eq!(fs::read_to_string(&control).expect("text"), "+memory");
        // The kernel would now list it.
        fs::write(&control, "cpu memory").expect("a file");
        // A run that began later has a limit.
        let later = dir.path().join("later");
        fs::create_dir(&later).expect("a folder");
        fs::write(later.join("memory.high"), "1048576").expect("a file");
        let failures = restorer.undo_all();
        assert!(
            failures.len() == 1 && failures[0].error.is_transient(),
            "{failures:?}"
        );
        fs::write(later.join("memory.high"), "max").expect("a file");
        assert!(restorer.undo_all().is_empty());
        assert_eq!(fs::read_to_string(&control).expect("text"), "-memory");
    }

    #[test]
    fn v2_in_a_container_does_not_enable_beside_processes() {
        let dir = tempfile::tempdir().expect("a folder");
        fake(dir.path(), &[("", "memory", "", "1")]);
        fs::write(dir.path().join("cgroup.events"), "populated 1").expect("a file");
        let host = host(dir.path(), "");
        let error = host
            .parent_for_new()
            .expect_err("internal processes")
            .to_string();
        assert!(error.contains("systemd-run --user --scope"), "{error}");
        assert!(host.check_create().is_err());
    }

    #[test]
    fn v2_without_the_controller_is_unavailable() {
        let dir = tempfile::tempdir().expect("a folder");
        fake(dir.path(), &[("", "cpu io", "", "")]);
        let mounts = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw", dir.path().display());
        let error = CgroupHost::from_texts(&mounts, "0::/")
            .expect_err("none")
            .to_string();
        assert!(error.contains("cgroup_enable=memory"), "{error}");
    }

    #[test]
    fn v1_part_of_the_hierarchy_mounted_in_a_container() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("job")).expect("a folder");
        let mounts = format!(
            "1 0 0:1 /box/7 {} rw - cgroup cgroup rw,memory",
            dir.path().display()
        );
        let own = |path: &str| {
            CgroupHost::from_texts(&mounts, &format!("4:memory:{path}"))
                .expect("found")
                .own
        };
        assert_eq!(own("/box/7/job"), dir.path().join("job"));
        assert_eq!(own("/box/7"), dir.path());
        assert_eq!(own("/elsewhere"), dir.path());
        assert_eq!(own("/box/7/../../etc"), dir.path());
    }
}
