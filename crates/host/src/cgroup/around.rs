//! Limits that others have set around a process.

use super::CgroupHost;
use super::CgroupVersion;
use crate::counters;
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
    /// Charged now, bytes, without page cache that the kernel drops when it needs room.
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
        files
            .filter_map(|(limit, used)| Self::of_files(&limit, &used))
            .collect()
    }

    fn of_files(limit: &Path, used: &Path) -> Option<Self> {
        let limit_bytes = files::read_number(limit)?;
        let charged = files::read_number(used)?;
        // Costly to read, and without interest while there is much room.
        let cached = if charged > limit_bytes / 2 {
            clean_cache(used)
        } else {
            0
        };
        Some(Self {
            limit_bytes,
            used_bytes: charged.saturating_sub(cached),
        })
    }
}

/// Pages of files that can be dropped at once, of the cgroup whose usage this file states, bytes.
fn clean_cache(used: &Path) -> u64 {
    let text = files::read_optional(&used.with_file_name("memory.stat")).unwrap_or_default();
    let counters = counters::parse_flat(&text);
    let sum =
        |names: [&str; 2]| -> u64 { names.iter().filter_map(|&name| counters.get(name)).sum() };
    // Those without the prefix leave the cgroups inside out (v1).
    let (cached, unwritten) = if used.ends_with("memory.usage_in_bytes") {
        (
            ["total_inactive_file", "total_active_file"],
            ["total_dirty", "total_writeback"],
        )
    } else {
        (
            ["inactive_file", "active_file"],
            ["file_dirty", "file_writeback"],
        )
    };
    sum(cached).saturating_sub(sum(unwritten))
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
    fn page_cache_that_can_be_dropped_is_room() {
        let used = |kind: [&str; 2], stat: &str| {
            let dir = tempfile::tempdir().expect("a folder");
            fs::write(dir.path().join(kind[0]), "1000\n").expect("a file");
            fs::write(dir.path().join(kind[1]), "990\n").expect("a file");
            fs::write(dir.path().join("memory.stat"), stat).expect("a file");
            CgroupRoom::around(dir.path())[0].used_bytes
        };
        let v2 = "anon 90\ninactive_file 600\nactive_file 300\nfile_dirty 50\nfile_writeback 40\n";
        assert_eq!(used(["memory.max", "memory.current"], v2), 990 - 810);
        assert_eq!(used(["memory.high", "memory.current"], "anon 990\n"), 990);
        let v1 = "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 300\ntotal_dirty 100\ntotal_writeback 0\n";
        let kind = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
        assert_eq!(used(kind, v1), 990 - 700);
        assert_eq!(used(kind, ""), 990);
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
