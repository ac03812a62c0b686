//! Facts about running processes, from `/proc/PID` (Documentation/filesystems/proc.rst).
//!
//! A process may end at any moment, also between two reads: everything is an `Option`.

use crate::files;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// Fields of `/proc/PID/stat`. Counts are of the whole process with all its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Name of the executable, at most 15 bytes.
    pub comm: String,
    /// State letter: R running, S sleeping, D disk sleep, T stopped, Z zombie, ...
    pub state: char,
    /// Parent.
    pub parent: u32,
    /// Minor faults so far.
    pub minor_faults: u64,
    /// Major faults so far.
    pub major_faults: u64,
    /// Time in user mode so far, ns, as exact as the kernel's tick.
    pub user_ns: u64,
    /// Threads now.
    pub threads: u64,
    /// Start, ns since boot (suspend included, so it is not CLOCK_MONOTONIC), as exact as the kernel's
    /// tick. With the process id it names a process for good: ids are used again.
    pub start_ns: u64,
}

/// Memory of a process, bytes, from `/proc/PID/status`. `None` for kernel threads and zombies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub resident_bytes: Option<u64>,
    /// Most ever resident (`VmHWM`).
    pub peak_resident_bytes: Option<u64>,
    /// Swapped now (`VmSwap`; shared memory is not counted).
    pub swapped_bytes: Option<u64>,
}

/// `/proc/PID/stat`; `None` when there is no such process any more.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&files::read_optional(&proc_file(pid, "stat"))?)
}

/// Memory of a process; `None` when there is no such process any more.
pub fn memory(pid: u32) -> Option<Memory> {
    Some(parse_status(&files::read_optional(&proc_file(
        pid, "status",
    ))?))
}

/// Memory of which those bytes that are shared count by shares, so that processes can be added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// Resident now (`Pss`).
    pub resident_bytes: u64,
    /// Swapped now (`SwapPss`).
    pub swapped_bytes: u64,
}

/// From `/proc/PID/smaps_rollup`; `None` when gone, not permitted, or a zombie. Takes the kernel a look at each page that is
/// resident or swapped.
pub fn shares(pid: u32) -> Option<Shares> {
    parse_rollup(&files::read_optional(&proc_file(pid, "smaps_rollup"))?)
}

/// `/proc/PID/maps` as text, names that are not UTF-8 replaced; `None` when gone or not permitted.
pub fn maps(pid: u32) -> Option<String> {
    files::read_optional(&proc_file(pid, "maps"))
}

/// Makes the page of an address resident by reading a word of it through `/proc/PID/mem`. False: not permitted, not
/// mapped, or the process has gone.
pub fn bring_in(pid: u32, address: u64) -> bool {
    let mut word = [0; 8];
    fs::File::open(proc_file(pid, "mem"))
        .and_then(|memory| memory.read_exact_at(&mut word, address))
        .is_ok()
}

/// Name of the main thread.
pub fn comm(pid: u32) -> Option<String> {
    files::read_optional(&proc_file(pid, "comm"))
}

/// Path of the executable, as it was at exec; `None` when gone or not permitted.
pub fn exe(pid: u32) -> Option<PathBuf> {
    fs::read_link(proc_file(pid, "exe")).ok()
}

/// The process that a thread belongs to, for a process itself (`Tgid`).
pub fn thread_group(pid: u32) -> Option<u32> {
    let text = files::read_optional(&proc_file(pid, "status"))?;
    let group = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    group.trim().parse().ok()
}

/// What tells its mount namespace from others; `None` when gone or not permitted.
pub fn mount_namespace(pid: u32) -> Option<u64> {
    Some(fs::metadata(proc_file(pid, "ns/mnt")).ok()?.ino())
}

/// Its number as it knows it itself: another one in a container (`NSpid`).
pub fn pid_inside(pid: u32) -> Option<u32> {
    let text = files::read_optional(&proc_file(pid, "status"))?;
    let numbers = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

/// Whether a debugger is attached to it (`TracerPid`); `None` when gone.
pub fn is_traced(pid: u32) -> Option<bool> {
    let text = files::read_optional(&proc_file(pid, "status"))?;
    let tracer = text
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    Some(tracer.trim() != "0")
}

/// The kernel's flags of its main thread (`PF_*` of include/linux/sched.h), field 9 of `/proc/PID/stat`.
pub(crate) fn flags(pid: u32) -> Option<u64> {
    stat_field(pid, 9)
}

/// A field of `/proc/PID/stat` behind the name, numbered as in proc_pid_stat(5).
fn stat_field(pid: u32, number: usize) -> Option<u64> {
    let text = files::read_optional(&proc_file(pid, "stat"))?;
    let (_, fields) = text.rsplit_once(')')?;
    fields
        .split_ascii_whitespace()
        .nth(number - 3)?
        .parse()
        .ok()
}

/// Processor time of the process so far, of all its threads, ns, as exact as the kernel's tick; `None` when there is no such process any more.
pub fn processor_ns(pid: u32) -> Option<u64> {
    let ticks = stat_field(pid, 14)?.checked_add(stat_field(pid, 15)?)?;
    ticks.checked_mul(1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// Whether no thread of it has any memory: the main thread may end before the others.
pub(crate) fn memory_is_gone(pid: u32) -> bool {
    let tasks = fs::read_dir(proc_file(pid, "task"));
    let threads = tasks.into_iter().flatten().flatten();
    !threads
        .filter_map(|thread| thread.file_name().to_str()?.parse().ok())
        .any(|thread| memory(thread).is_some_and(|memory| memory.resident_bytes.is_some()))
}

/// Whether a process with this id runs (a zombie does not).
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// All descendants, parents before their children; without `pid` itself. Processes that come and go
/// meanwhile may be missed. Goes through all of `/proc`: see [`crate::family`].
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (child, parent) in parents() {
        children.entry(parent).or_default().push(child);
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        // `remove` makes this end even if ids were used again while we read.
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// Direct children, zombies included. Goes through all of `/proc`: see [`crate::family`].
pub(crate) fn children(pid: u32) -> Vec<u32> {
    parents()
        .filter(|(_, parent)| *parent == pid)
        .map(|(child, _)| child)
        .collect()
}

/// Running processes of a process group. (By `getpgid` kernel threads have the group 0, which is none.)
pub fn of_group(group: u32) -> Vec<u32> {
    all()
        .filter(|&pid| stat_field(pid, 5) == Some(u64::from(group)) && is_alive(pid))
        .collect()
}

fn parents() -> impl Iterator<Item = (u32, u32)> {
    all().filter_map(|pid| Some((pid, stat(pid)?.parent)))
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn proc_file(pid: u32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

fn parse_rollup(text: &str) -> Option<Shares> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    };
    Some(Shares {
        resident_bytes: bytes("Pss:")?,
        swapped_bytes: bytes("SwapPss:").unwrap_or(0),
    })
}

pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    // The name may hold spaces and brackets: it ends at the last one.
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let comm = text.get(open + 1..close)?.to_owned();
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    // proc_pid_stat(5) numbers fields from 1; the state, the first after the name, is 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Stat {
        comm,
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        user_ns: ticks_to_ns(number(14)?, per_second),
        threads: number(20)?,
        start_ns: ticks_to_ns(number(22)?, per_second),
    })
}

fn ticks_to_ns(ticks: u64, per_second: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

fn parse_status(text: &str) -> Memory {
    let bytes = |key| files::bytes_of(key, text);
    Memory {
        resident_bytes: bytes("VmRSS"),
        peak_resident_bytes: bytes("VmHWM"),
        swapped_bytes: bytes("VmSwap"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_of_all_threads_and_grows() {
        let own = std::process::id();
        let before = processor_ns(own).expect("it lives");
        let work = || {
            let mut sum = 0_u64;
            let began = std::time::Instant::now();
            while began.elapsed() < std::time::Duration::from_millis(200) {
                sum = std::hint::black_box(sum + 1);
            }
        };
        std::thread::spawn(work).join().expect("it ends");
        let after = processor_ns(own).expect("it lives");
        assert!(after > before, "{before} {after}");
        assert_eq!(processor_ns(u32::MAX), None);
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "42 (a) R (b c) S 7 42 42 0 -1 4194304 11 0 13 0 1 2 0 0 20 0 3 0 250 9000 77 18446744073709551615";
        let stat = parse_stat(text).expect("parses");
        assert_eq!(stat.comm, "a) R (b c");
        assert_eq!((stat.state, stat.parent, stat.threads), ('S', 7, 3));
        assert_eq!((stat.minor_faults, stat.major_faults), (11, 13));
        assert_eq!(stat.user_ns, stat.start_ns / 250);
        assert_eq!(
            stat.start_ns,
            250 * 1_000_000_000 / rustix::param::clock_ticks_per_second()
        );
    }

    #[test]
    fn broken_stat_lines_are_unknown() {
        for text in [
            "",
            "42",
            "42 (a",
            "42 a) (",
            "42 (a) S",
            "42 (a) S x 1 1 1 1",
        ] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn status_without_memory_is_unknown_not_zero() {
        assert_eq!(
            parse_status("Name:\tkthreadd\nState:\tS\n"),
            Memory::default()
        );
        let memory =
            parse_status("VmHWM:\t    2048 kB\nVmRSS:\t     1024 kB\nVmSwap:\t       0 kB\n");
        assert_eq!(memory.resident_bytes, Some(1 << 20));
        assert_eq!(memory.peak_resident_bytes, Some(2 << 20));
        assert_eq!(memory.swapped_bytes, Some(0));
    }

    #[test]
    fn shares_of_memory_are_read() {
        let text = "55d0-7ffe ---p 00000000 00:00 0  [rollup]\nRss:     884 kB\nPss:     385 kB\nPss_Dirty:   80 kB\nSwap:  9 kB\nSwapPss:  7 kB\n";
        let expected = Shares {
            resident_bytes: 385 << 10,
            swapped_bytes: 7 << 10,
        };
        assert_eq!(parse_rollup(text), Some(expected));
        assert_eq!(parse_rollup(""), None);
        assert!(shares(std::process::id()).is_some_and(|shares| shares.resident_bytes > 0));
    }

    #[test]
    fn ticks_become_ns_without_overflow() {
        assert_eq!(ticks_to_ns(150, 100), 1_500_000_000);
        assert_eq!(ticks_to_ns(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn this_process_is_seen_and_a_gone_one_is_none() {
        let me = std::process::id();
        let parent = rustix::process::getppid()
            .expect("a parent")
            .as_raw_nonzero()
            .get();
        assert_eq!(stat(me).map(|stat| stat.parent), u32::try_from(parent).ok());
        assert!(memory(me).and_then(|memory| memory.resident_bytes) > Some(0));
        assert!(maps(me).is_some_and(|maps| maps.contains("[stack]")));
        assert_eq!(exe(me), std::env::current_exe().ok());
        assert_eq!((is_traced(me), is_traced(u32::MAX)), (Some(false), None));
        assert!(mount_namespace(me).is_some() && pid_inside(me) > Some(0));

        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        assert!(children(me).contains(&child.id()) && descendants(me).contains(&child.id()));
        assert!(is_alive(child.id()));
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let group = of_group(group.unsigned_abs());
        assert!(group.contains(&me) && group.contains(&child.id()));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!(stat(child.id()), None);
        assert_eq!(
            (mount_namespace(child.id()), pid_inside(child.id())),
            (None, None)
        );
        assert_eq!(
            (maps(child.id()), comm(child.id()), exe(child.id())),
            (None, None, None)
        );
        assert!(memory(child.id()).is_none() && !is_alive(child.id()));
    }
}
