//! A memory cgroup made for one run: limit, members, counters.

use super::host::CgroupHost;
use super::host::CgroupVersion;
use super::members;
use crate::counters;
use crate::counters::Counters;
use crate::counters::Pressure;
use crate::error::Error;
use crate::error::Result;
use crate::files;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use crate::swap::SwapArea;
use crate::swap::active_areas;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Attempts to set a limit below what is used: each lets the kernel reclaim more.
const LIMIT_ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// What happens at the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitKind {
    /// v2 `memory.high`: above it the program is made to reclaim and slowed down, never killed (so
    /// without swap left it may stand still). v1 has no such limit: the same as [`LimitKind::Max`].
    High,
    /// v2 `memory.max`, v1 `memory.limit_in_bytes`: when reclaim fails, the kernel kills.
    Max,
}

/// A memory cgroup of ours. Its removal is with the [`Restorer`] that was given when it was made.
#[derive(Debug)]
pub struct MemoryCgroup {
    version: CgroupVersion,
    path: PathBuf,
    move_to: PathBuf,
}

/// Counters of a memory cgroup, `None` where this kernel does not tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryCounters {
    /// Bytes charged now.
    pub usage_bytes: Option<u64>,
    /// Most bytes ever charged.
    pub peak_bytes: Option<u64>,
    /// Bytes swapped now.
    pub swap_bytes: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: Option<u64>,
    /// How often the limit was hit: v1 `memory.failcnt`; v2 `high` + `max` of `memory.events`.
    pub limit_hits: Option<u64>,
    /// Pressure (v2 only).
    pub pressure: Option<Pressure>,
    /// `memory.stat` as it is: names and units differ between v1 (bytes; `rss`, `total_swap`, no
    /// `pswpout`) and v2 (bytes for amounts, pages for events; `anon`, `swapcached`).
    pub stat: Counters,
}

impl MemoryCgroup {
    /// Makes a cgroup for this run in the place [`CgroupHost::detect`] finds. The name must be new.
    ///
    /// # Errors
    /// [`Error::CgroupUnavailable`] with what to type; [`Error::CgroupName`]; [`Error::File`] when
    /// the kernel refuses, also for a name in use.
    pub fn create(name: &str, restorer: &mut Restorer) -> Result<Self> {
        Self::create_in(&CgroupHost::detect()?, name, restorer)
    }

    /// As [`MemoryCgroup::create`] in a given hierarchy.
    ///
    /// # Errors
    /// The same.
    pub fn create_in(host: &CgroupHost, name: &str, restorer: &mut Restorer) -> Result<Self> {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 200 || !name.chars().all(letter) {
            return Err(Error::CgroupName {
                name: name.to_owned(),
            });
        }
        let mark = restorer.mark();
        let made = Self::make(host, name, restorer);
        if made.is_err() {
            restorer.undo_to(mark);
        }
        made
    }

    fn make(host: &CgroupHost, name: &str, restorer: &mut Restorer) -> Result<Self> {
        let (parent, move_to) = host.prepare_parent(restorer)?;
        let path = parent.join(name);
        let removal = UndoAction::RemoveCgroup {
            path: path.clone(),
            move_to: move_to.clone(),
        };
        // An older cgroup of this name is not ours to remove: look before the promise to remove it.
        if path.exists() {
            let exists = std::io::Error::from_raw_os_error(libc::EEXIST);
            return Err(Error::file("create", &path, exists));
        }
        let ticket = restorer.push(removal)?;
        if let Err(source) = fs::create_dir(&path) {
            restorer.forget(ticket);
            return Err(Error::file("create", &path, source));
        }
        // A limit of 0 would forbid all swap.
        files::write_if_present(&path.join("memory.swap.max"), "max")?;
        Ok(MemoryCgroup {
            version: host.version,
            path,
            move_to,
        })
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version of its hierarchy.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// The number the kernel knows it by, in BPF too (`cgroup->kn->id`, fs/kernfs; on 64-bit machines
    /// the inode number of the folder).
    ///
    /// # Errors
    /// When the folder is gone.
    pub fn id(&self) -> Result<u64> {
        let data = fs::metadata(&self.path).map_err(|e| Error::file("inspect", &self.path, e))?;
        Ok(data.ino())
    }

    /// Limits memory, not swap, and returns the bytes the kernel took (it rounds down to pages). If
    /// more is in use, the kernel reclaims first.
    ///
    /// # Errors
    /// [`Error::LimitBelowUsage`] when it cannot reclaim enough: nothing is killed for that.
    pub fn set_limit(&self, bytes: u64, kind: LimitKind) -> Result<u64> {
        let file = match (self.version, kind) {
            (CgroupVersion::V1, _) => "memory.limit_in_bytes",
            (CgroupVersion::V2, LimitKind::High) => "memory.high",
            (CgroupVersion::V2, LimitKind::Max) => "memory.max",
        };
        match self.version {
            CgroupVersion::V1 => self.set_limit_v1(bytes)?,
            CgroupVersion::V2 => self.set_limit_v2(bytes, kind)?,
        }
        files::require_number(&self.path.join(file))
    }

    /// Lets nothing of it be swapped, whatever swap there is. To be called before the limit is set.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn forbid_swap(&self) -> Result<()> {
        let (file, least) = match self.version {
            // At 0 the reclaim of a cgroup leaves anonymous pages alone (get_scan_count, mm/vmscan.c).
            CgroupVersion::V1 => ("memory.swappiness", "0"),
            CgroupVersion::V2 => ("memory.swap.max", "0"),
        };
        files::write_if_present(&self.path.join(file), least).map(|_| ())
    }

    /// Lets no more than this be swapped, however much swap there is. To be called once the limit of memory is set; where
    /// the kernel does not count swap (v1 with `swapaccount=0`) nothing is limited.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn limit_swap(&self, bytes: u64) -> Result<()> {
        match self.version {
            // It limits memory and swap together.
            CgroupVersion::V1 => {
                let memory = files::require_number(&self.path.join("memory.limit_in_bytes"))?;
                let both = memory.saturating_add(bytes).to_string();
                files::write_if_present(&self.path.join("memory.memsw.limit_in_bytes"), &both)
            }
            CgroupVersion::V2 => {
                files::write_if_present(&self.path.join("memory.swap.max"), &bytes.to_string())
            }
        }
    }

    /// Bytes that it could still swap now: what is free of the machine's swap, and of its own limits.
    pub fn free_swap(&self) -> u64 {
        free_swap(&self.path)
    }

    /// v1 answers EBUSY when it could not reclaim enough at once.
    fn set_limit_v1(&self, bytes: u64) -> Result<()> {
        let file = self.path.join("memory.limit_in_bytes");
        for _ in 0..LIMIT_ATTEMPTS {
            match files::write(&file, &bytes.to_string()) {
                Err(Error::File { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {
                    thread::sleep(BETWEEN_ATTEMPTS);
                }
                other => return other,
            }
        }
        Err(self.below_usage(bytes))
    }

    fn set_limit_v2(&self, bytes: u64, kind: LimitKind) -> Result<()> {
        self.reclaim_below(bytes)?;
        let (high, max) = match kind {
            LimitKind::High => (bytes.to_string(), "max".to_owned()),
            LimitKind::Max => ("max".to_owned(), bytes.to_string()),
        };
        files::write(&self.path.join("memory.max"), &max)?;
        files::write(&self.path.join("memory.high"), &high)
    }

    /// v2 accepts any limit and kills if need be, so reclaim before (`memory.reclaim`, since 5.19).
    fn reclaim_below(&self, bytes: u64) -> Result<()> {
        for _ in 0..LIMIT_ATTEMPTS {
            let above = self.usage().unwrap_or(0).saturating_sub(bytes);
            if above == 0 {
                return Ok(());
            }
            // EAGAIN: reclaimed less than asked for. Looked at in the next round.
            let _ = files::write_if_present(&self.path.join("memory.reclaim"), &above.to_string());
            thread::sleep(BETWEEN_ATTEMPTS);
        }
        Err(self.below_usage(bytes))
    }

    fn below_usage(&self, limit: u64) -> Error {
        let usage = self.usage().unwrap_or(0);
        Error::LimitBelowUsage {
            path: self.path.clone(),
            limit,
            usage,
        }
    }

    /// Removes the limits again.
    pub fn lift_limits(&self) {
        lift_limits(&self.path);
    }

    /// Puts a process with all its threads into it. What it has used before stays charged elsewhere.
    ///
    /// # Errors
    /// [`Error::File`]; "No such process" when it ended meanwhile.
    pub fn add(&self, pid: u32) -> Result<()> {
        files::write(&self.path.join("cgroup.procs"), &pid.to_string())
    }

    /// Processes in it now.
    pub fn processes(&self) -> Vec<u32> {
        members::processes(&self.path)
    }

    /// Bytes charged now (page cache included).
    pub fn usage(&self) -> Option<u64> {
        self.number("memory.usage_in_bytes", "memory.current")
    }

    /// Bytes of its processes in memory now, shared ones once: file cache that nobody maps is left out.
    pub fn resident(&self) -> Option<u64> {
        let (anonymous, mapped) = match self.version {
            CgroupVersion::V1 => ("total_rss", "total_mapped_file"),
            CgroupVersion::V2 => ("anon", "file_mapped"),
        };
        let stat = self.stat();
        stat.get(anonymous)?.checked_add(*stat.get(mapped)?)
    }

    /// Most bytes ever charged; v2 tells since 5.19.
    pub fn peak(&self) -> Option<u64> {
        self.number("memory.max_usage_in_bytes", "memory.peak")
    }

    /// Bytes swapped now.
    pub fn swap_usage(&self) -> Option<u64> {
        match self.version {
            CgroupVersion::V1 => self.stat().get("total_swap").copied(),
            CgroupVersion::V2 => files::read_number(&self.path.join("memory.swap.current")),
        }
    }

    /// Bytes it may swap, by its own limit and those around it; `None`: no limit. 0 means that nothing
    /// here will be swapped at all, whatever swap there is (v2; v1 limits memory and swap together).
    pub fn swap_limit(&self) -> Option<u64> {
        let files = self
            .path
            .ancestors()
            .map(|folder| folder.join("memory.swap.max"));
        files
            .take_while(|file| file.exists())
            .filter_map(|file| files::read_number(&file))
            .min()
    }

    /// Processes in it that the kernel killed for want of memory.
    pub fn oom_kills(&self) -> Option<u64> {
        let file = match self.version {
            CgroupVersion::V1 => "memory.oom_control",
            CgroupVersion::V2 => "memory.events",
        };
        self.flat(file).get("oom_kill").copied()
    }

    /// The most that the kernel had for it, page tables and the like, bytes: none of that can be swapped. `None` on v2, which keeps no
    /// such record.
    pub fn kernel_peak(&self) -> Option<u64> {
        files::read_number(&self.path.join("memory.kmem.max_usage_in_bytes"))
    }

    /// All counters at once.
    pub fn counters(&self) -> MemoryCounters {
        MemoryCounters {
            usage_bytes: self.usage(),
            peak_bytes: self.peak(),
            swap_bytes: self.swap_usage(),
            oom_kills: self.oom_kills(),
            limit_hits: self.limit_hits(),
            pressure: counters::pressure_of(&self.path.join("memory.pressure")),
            stat: self.stat(),
        }
    }

    /// Removes it now; processes that are left move to where this process is. The restorer may do so
    /// again without harm.
    ///
    /// # Errors
    /// [`Error::CgroupBusy`] when processes stay.
    pub fn remove(&self) -> Result<()> {
        members::remove(&self.path, &self.move_to)
    }

    fn limit_hits(&self) -> Option<u64> {
        match self.version {
            CgroupVersion::V1 => files::read_number(&self.path.join("memory.failcnt")),
            CgroupVersion::V2 => {
                let events = self.flat("memory.events");
                Some(events.get("high")? + events.get("max")?)
            }
        }
    }

    fn stat(&self) -> Counters {
        self.flat("memory.stat")
    }

    fn flat(&self, file: &str) -> Counters {
        counters::parse_flat(&files::read_optional(&self.path.join(file)).unwrap_or_default())
    }

    fn number(&self, v1: &str, v2: &str) -> Option<u64> {
        let file = if self.version == CgroupVersion::V1 {
            v1
        } else {
            v2
        };
        files::read_number(&self.path.join(file))
    }
}

/// Of a cgroup's folder, as [`MemoryCgroup::free_swap`].
pub(super) fn free_swap(cgroup: &Path) -> u64 {
    let areas = active_areas().unwrap_or_default();
    let machine = areas.iter().map(SwapArea::free_bytes).sum();
    let number = |file: &str| files::read_number(&cgroup.join(file));
    let left = |limit: &str, used: &str| Some(number(limit)?.saturating_sub(number(used)?));
    let own = [
        left("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
        left("memory.swap.max", "memory.swap.current"),
    ];
    own.into_iter().flatten().fold(machine, u64::min)
}

/// Lifts the limits of either version, as far as it goes: it precedes a removal that must go on.
pub(super) fn lift_limits(cgroup: &Path) {
    for (file, unlimited) in [
        ("memory.high", "max"),
        ("memory.max", "max"),
        ("memory.swap.max", "max"),
        // Before the next one: memory alone may not have more than memory and swap together.
        ("memory.memsw.limit_in_bytes", "-1"),
        ("memory.limit_in_bytes", "-1"),
    ] {
        let _ = files::write_if_present(&cgroup.join(file), unlimited);
    }
}
