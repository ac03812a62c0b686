//! Where file systems are mounted: the kernel's programs tell a file's path inside its file system only.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::process;

/// A file system that was not there a moment ago may be by now.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Mounts as the recorded processes see them, which in containers is not the same for all.
#[derive(Default)]
pub(crate) struct Mounts {
    /// By mount namespace.
    seen_from: HashMap<u64, Seen>,
    /// The namespace of each process, which may have ended when its files are told of.
    of_process: HashMap<u32, u64>,
}

/// Mounts of a mount namespace by device.
#[derive(Default)]
struct Seen {
    of_device: HashMap<(u32, u32), Vec<Mount>>,
    looked: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The folder of the file system that is mounted.
    root: String,
    point: String,
    filesystem: String,
}

/// Where a file is, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: Option<String>,
    pub(crate) filesystem: Option<String>,
}

impl Mounts {
    /// `inside`: the path from the root of the file system on that device.
    pub(crate) fn place(
        &mut self,
        pid: Option<u32>,
        device: (u32, u32),
        inside: Option<&str>,
    ) -> Place {
        let namespace = self.namespace(pid, device);
        let seen = self.seen_from.entry(namespace).or_default();
        let is_due = seen.looked.is_none_or(|at| at.elapsed() > LOOK_AGAIN);
        if !seen.of_device.contains_key(&device) && is_due {
            seen.looked = Some(Instant::now());
            let of_process = pid.and_then(|pid| fs::read_to_string(mountinfo(pid)).ok());
            // Another namespace's mounts are not ours.
            let is_own = own_namespace().unwrap_or(0) == namespace;
            let own = mountinfo(std::process::id());
            let of_own = || is_own.then(|| fs::read_to_string(own).ok())?;
            let text = of_process.or_else(of_own);
            seen.read(&text.unwrap_or_default());
        }
        let Some(mounts) = seen.of_device.get(&device) else {
            // Of files in memory that no folder shows (memfd_create, shared memory).
            return Place {
                path: inside.map(str::to_owned),
                filesystem: None,
            };
        };
        Place {
            path: inside.and_then(|inside| outside(mounts, inside)),
            filesystem: mounts.first().map(|mount| mount.filesystem.clone()),
        }
    }

    /// The mount namespace of a process, as it was last seen. Where it never was: our own, or one that has this device.
    fn namespace(&mut self, pid: Option<u32>, device: (u32, u32)) -> u64 {
        let now = pid.and_then(|pid| Some((pid, process::mount_namespace(pid)?)));
        self.of_process.extend(now);
        if let Some(&known) = pid.and_then(|pid| self.of_process.get(&pid)) {
            return known;
        }
        let own = own_namespace().unwrap_or(0);
        let has_device = |namespace: &u64| {
            let seen = self.seen_from.get(namespace);
            seen.is_some_and(|seen| seen.of_device.contains_key(&device))
        };
        let others = || self.seen_from.keys().copied().find(has_device);
        Some(own).filter(has_device).or_else(others).unwrap_or(own)
    }
}

fn own_namespace() -> Option<u64> {
    process::mount_namespace(std::process::id())
}

impl Seen {
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            let Some((device, mount)) = parse(line) else {
                continue;
            };
            let mounts = self.of_device.entry(device).or_default();
            if !mounts.contains(&mount) {
                mounts.push(mount);
            }
        }
    }
}

fn mountinfo(pid: u32) -> String {
    format!("/proc/{pid}/mountinfo")
}

/// The path by the mount that shows most of the file system; the shortest of several.
fn outside(mounts: &[Mount], inside: &str) -> Option<String> {
    let paths = mounts.iter().filter_map(|mount| {
        let rest = match mount.root.as_str() {
            "/" => inside,
            root => inside.strip_prefix(root)?,
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let point = mount.point.trim_end_matches('/');
        Some((mount.root.len(), format!("{point}{rest}")))
    });
    let (_, path) = paths.min_by_key(|(root, path)| (*root, path.len()))?;
    Some(path)
}

/// A line of `/proc/PID/mountinfo` (proc(5)): `36 35 98:0 /root /point options - type source more`.
fn parse(line: &str) -> Option<((u32, u32), Mount)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    Some((
        device,
        Mount {
            root: unescape(fields.next()?),
            point: unescape(fields.next()?),
            filesystem: filesystem.split(' ').next()?.to_owned(),
        },
    ))
}

/// Blanks and backslashes are written as `\040` and the like.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let value = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 254:0 /srv/data /mnt/with\\040blank rw - ext4 /dev/vda rw
31 22 0:25 / /dev/shm rw - tmpfs tmpfs rw
40 22 8:1 /inner /media/a rw - xfs /dev/sda1 rw
41 22 8:1 /inner/deep /b rw - xfs /dev/sda1 rw
nonsense
";

    fn place(device: (u32, u32), inside: &str) -> Place {
        seeing(MOUNTS).place(None, device, Some(inside))
    }

    /// Seen from our own namespace.
    fn seeing(text: &str) -> Mounts {
        let mut mounts = Mounts::default();
        let own = own_namespace().expect("ours");
        let seen = mounts.seen_from.entry(own).or_default();
        seen.looked = Some(Instant::now());
        seen.read(text);
        mounts
    }

    #[test]
    fn processes_of_different_namespaces_have_paths_of_their_own() {
        let mut mounts = seeing(MOUNTS);
        let mut container = Seen::default();
        container.read("90 80 8:1 /inner /data rw - xfs /dev/sda1 rw\n");
        container.looked = Some(Instant::now());
        mounts.seen_from.insert(7, container);
        // One that has ended since it was last told of: no process has such a number.
        let gone = u32::MAX;
        let path = |mounts: &mut Mounts, pid| mounts.place(pid, (8, 1), Some("/inner/x")).path;
        assert_eq!(path(&mut mounts, Some(gone)).as_deref(), Some("/media/a/x"));
        mounts.of_process.insert(gone, 7);
        assert_eq!(path(&mut mounts, Some(gone)).as_deref(), Some("/data/x"));
        assert_eq!(path(&mut mounts, None).as_deref(), Some("/media/a/x"));
    }

    #[test]
    fn a_path_begins_where_its_file_system_is_mounted() {
        let root = place((254, 0), "/srv/data/x");
        assert_eq!(root.path.as_deref(), Some("/srv/data/x"));
        assert_eq!(root.filesystem.as_deref(), Some("ext4"));
        let shared = place((0, 25), "/x");
        assert_eq!(shared.path.as_deref(), Some("/dev/shm/x"));
    }

    #[test]
    fn of_a_file_system_mounted_in_part_only_that_part_has_a_path() {
        let of = |inside: &str| place((8, 1), inside).path;
        assert_eq!(of("/inner/x").as_deref(), Some("/media/a/x"));
        assert_eq!(of("/inner/deep/x").as_deref(), Some("/media/a/deep/x"));
        assert_eq!(of("/innermost/x"), None, "another folder");
    }

    #[test]
    fn what_is_mounted_nowhere_keeps_its_name() {
        let memory = place((0, 1), "/memfd:cache");
        assert_eq!(memory.path.as_deref(), Some("/memfd:cache"));
        assert_eq!(memory.filesystem, None);
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unescape("/with\\040blank\\134"), "/with blank\\");
        assert_eq!(unescape("\\9"), "\\9");
    }
}
