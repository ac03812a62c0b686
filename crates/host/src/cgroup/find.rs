//! Finds a cgroup by its path, by the name of a systemd unit, or by a container's name or id.

use super::host;
use super::members;
use crate::error::Error;
use crate::error::Result;
use std::path::Path;
use std::path::PathBuf;

/// Cgroups nest deeper in no system we know of.
const DEEPEST: usize = 16;
/// What a container's id is shortened to at most, as people type it.
const SHORTEST_ID: usize = 8;

/// The folder of the cgroup that a user means: a folder, a path inside a hierarchy as `/proc/PID/cgroup` shows it, a
/// unit such as `redis.service` (or `redis`), or the name or id of a container, as far as its cgroup bears it.
///
/// # Errors
/// [`Error::NoSuchCgroup`] if there is none, or several.
pub fn find(text: &str) -> Result<PathBuf> {
    let mounts = host::mount_points().unwrap_or_default();
    find_in(&mounts, text)
}

/// Processes in it and in the cgroups inside it.
pub fn all_processes(cgroup: &Path) -> Vec<u32> {
    members::all_processes(cgroup)
}

fn find_in(mounts: &[PathBuf], text: &str) -> Result<PathBuf> {
    let refused = |why: String| Error::NoSuchCgroup {
        text: text.to_owned(),
        why,
    };
    let none = || refused("there is none of that path or name; systemd-cgls lists them".to_owned());
    if text.trim().is_empty() {
        return Err(none());
    }
    let as_typed = Path::new(text);
    if as_typed.is_absolute() && is_cgroup(as_typed) {
        return Ok(as_typed.to_owned());
    }
    let inside = text.trim_matches('/');
    let plain = Path::new(inside)
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    let by_path = mounts.iter().map(|mount| mount.join(inside));
    if let Some(found) = by_path
        .filter(|folder| plain && !inside.is_empty() && is_cgroup(folder))
        .max_by_key(|folder| !members::all_processes(folder).is_empty())
    {
        return Ok(found);
    }
    if text.contains('/') {
        return Err(none());
    }
    for mount in mounts {
        let mut found = Vec::new();
        search(mount, text, DEEPEST, &mut found);
        match found.as_slice() {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let paths: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
                return Err(refused(format!(
                    "several are called so; name one by its path: {}",
                    paths.join(", ")
                )));
            }
        }
    }
    Err(none())
}

/// The outermost of that name on each branch.
fn search(folder: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
    if depth == 0 {
        return;
    }
    let mut children = members::children(folder);
    children.sort();
    for child in children {
        let bears = child
            .file_name()
            .and_then(|file| file.to_str())
            .is_some_and(|file| is_called(file, name));
        if bears {
            found.push(child);
        } else {
            search(&child, name, depth - 1, found);
        }
    }
}

/// Whether a cgroup's folder belongs to that unit or container: `redis.service`, `docker-ID.scope`, `lxc.payload.NAME`,
/// `machine-NAME.scope` and so on.
fn is_called(folder: &str, name: &str) -> bool {
    let stem = [".service", ".scope", ".slice"]
        .iter()
        .find_map(|suffix| folder.strip_suffix(suffix))
        .unwrap_or(folder);
    if folder == name || stem == name {
        return true;
    }
    let prefixes = [
        "docker-",
        "libpod-",
        "crio-",
        "cri-containerd-",
        "nerdctl-",
        "machine-",
        "lxc.payload.",
        "lxc-",
    ];
    let bare = prefixes.iter().find_map(|prefix| stem.strip_prefix(prefix));
    let is_id = name.len() >= SHORTEST_ID && name.chars().all(|c| c.is_ascii_hexdigit());
    let id = bare.unwrap_or(stem);
    bare == Some(name) || (is_id && id.len() > name.len() && id.starts_with(name))
}

fn is_cgroup(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ID: &str = "4f1e6a0c9b2d4f1e6a0c9b2d4f1e6a0c9b2d4f1e6a0c9b2d4f1e6a0c9b2d4f1e";

    /// Two hierarchies: one with processes, one without.
    fn hierarchies() -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().expect("a folder");
        let mounts = vec![dir.path().join("memory"), dir.path().join("unified")];
        for mount in &mounts {
            for folder in [
                "",
                "system.slice",
                "system.slice/redis.service",
                &format!("system.slice/docker-{ID}.scope"),
                "a/twin",
                "b/twin",
            ] {
                let folder = mount.join(folder);
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join("cgroup.procs"), "").expect("a file");
            }
        }
        let busy = mounts[1].join("system.slice/redis.service/cgroup.procs");
        fs::write(busy, "77\n78\n").expect("a file");
        (dir, mounts)
    }

    #[test]
    fn by_path_in_the_hierarchy_that_holds_processes() {
        let (_dir, mounts) = hierarchies();
        let wanted = mounts[1].join("system.slice/redis.service");
        for text in ["/system.slice/redis.service", "system.slice/redis.service/"] {
            assert_eq!(find_in(&mounts, text).expect("found"), wanted, "{text}");
        }
        let folder = mounts[0].join("a/twin");
        let found = find_in(&mounts, folder.to_str().expect("text"));
        assert_eq!(found.expect("found"), folder);
        assert_eq!(all_processes(&mounts[1]), [77, 78]);
    }

    #[test]
    fn by_unit_and_by_container() {
        let (_dir, mounts) = hierarchies();
        let name = |text: &str| find_in(&mounts, text).map(|path| path.file_name().map(Into::into));
        let redis: Option<std::ffi::OsString> = Some("redis.service".into());
        for text in ["redis.service", "redis"] {
            assert_eq!(name(text).expect("found"), redis, "{text}");
        }
        let container: Option<std::ffi::OsString> = Some(format!("docker-{ID}.scope").into());
        for text in [ID, &ID[..12]] {
            assert_eq!(name(text).expect("found"), container, "{text}");
        }
    }

    #[test]
    fn what_is_not_there_or_not_unique_is_refused() {
        let (_dir, mounts) = hierarchies();
        for text in [
            "",
            " ",
            "/",
            "nothing",
            "/no/such",
            "../memory",
            &ID[..4],
            "redi",
        ] {
            let error = find_in(&mounts, text).expect_err(text).to_string();
            assert!(error.contains("systemd-cgls"), "{error}");
        }
        let error = find_in(&mounts, "twin").expect_err("two").to_string();
        assert!(
            error.contains("a/twin") && error.contains("b/twin"),
            "{error}"
        );
    }
}
