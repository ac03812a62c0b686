//! Limits that others have set around a process.

use super::CgroupHost;
use super::CgroupVersion;
use crate::counters::machine_memory;
use crate::error::Result;
use crate::files;
use std::path::Path;
use std::path::PathBuf;

/// A memory limit that is in force already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitAround {
    /// Bytes.
    pub bytes: u64,
    /// The file that sets it: `memory.high`, `memory.max` or `memory.limit_in_bytes`.
    pub kind: &'static str,
    /// Folder of the cgroup that has it.
    pub cgroup: PathBuf,
}

impl CgroupHost {
    /// As [`CgroupHost::detect`], seen from another process: [`CgroupHost::own`] is then that process's.
    ///
    /// # Errors
    /// The same; also when the process is gone.
    pub fn of_process(pid: u32) -> Result<Self> {
        let mounts = files::read(Path::new("/proc/self/mountinfo"))?;
        let own = files::read(&Path::new("/proc").join(pid.to_string()).join("cgroup"))?;
        Self::from_texts(&mounts, &own)
    }

    /// The lowest memory limit of its cgroup and of those around it; `None`: none is below the machine's memory.
    pub fn limit_around(&self) -> Option<LimitAround> {
        let machine = machine_memory().total_bytes.unwrap_or(u64::MAX);
        lowest(&self.own, &self.mount, self.version).filter(|limit| limit.bytes < machine)
    }
}

fn lowest(own: &Path, mount: &Path, version: CgroupVersion) -> Option<LimitAround> {
    let kinds: &[&'static str] = match version {
        CgroupVersion::V1 => &["memory.limit_in_bytes"],
        CgroupVersion::V2 => &["memory.max", "memory.high"],
    };
    let chain = own
        .ancestors()
        .take_while(|folder| folder.starts_with(mount));
    chain
        .flat_map(|folder| kinds.iter().map(move |kind| (folder, *kind)))
        .filter_map(|(folder, kind)| {
            Some(LimitAround {
                bytes: files::read_number(&folder.join(kind))?,
                kind,
                cgroup: folder.to_owned(),
            })
        })
        .min_by_key(|limit| limit.bytes)
}

/// What a limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupRoom {
    /// The limit, bytes.
    pub limit_bytes: u64,
    /// Charged now, page cache included, bytes.
    pub used_bytes: u64,
}

impl CgroupRoom {
    /// Of each limit of a cgroup and of those around it.
    pub fn around(cgroup: &Path) -> Vec<Self> {
        const FILES: [(&str, &str); 3] = [
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("memory.max", "memory.current"),
            ("memory.high", "memory.current"),
        ];
        let chain = cgroup.ancestors();
        let files = chain
            .flat_map(|folder| FILES.map(|(limit, used)| (folder.join(limit), folder.join(used))));
        let rooms = files.filter_map(|(limit, used)| {
            Some(Self {
                limit_bytes: files::read_number(&limit)?,
                used_bytes: files::read_number(&used)?,
            })
        });
        rooms.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lowest_of_nested_limits_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let inner = dir.path().join("outer/inner");
        fs::create_dir_all(&inner).expect("folders");
        let find = || lowest(&inner, dir.path(), CgroupVersion::V2);
        assert_eq!(find(), None);
        fs::write(inner.join("memory.max"), "max\n").expect("a file");
        fs::write(inner.join("memory.high"), "2000\n").expect("a file");
        fs::write(dir.path().join("outer/memory.max"), "1000\n").expect("a file");
        let found = find().expect("a limit");
        assert_eq!((found.bytes, found.kind), (1000, "memory.max"));
        assert_eq!(found.cgroup, dir.path().join("outer"));
        fs::write(inner.join("memory.high"), "500\n").expect("a file");
        assert_eq!(find().map(|limit| limit.kind), Some("memory.high"));
        assert_eq!(lowest(&inner, dir.path(), CgroupVersion::V1), None);
        // Without what is used, nothing is known of the room.
        assert_eq!(CgroupRoom::around(&inner), []);
        fs::write(dir.path().join("outer/memory.current"), "600\n").expect("a file");
        let room = CgroupRoom {
            limit_bytes: 1000,
            used_bytes: 600,
        };
        assert_eq!(CgroupRoom::around(&inner), [room]);
    }

    #[test]
    fn our_own_process_and_a_gone_one() {
        let ours = CgroupHost::detect().expect("cgroups here");
        assert_eq!(
            CgroupHost::of_process(std::process::id()).expect("ours"),
            ours
        );
        assert!(CgroupHost::of_process(u32::MAX).is_err());
    }
}
