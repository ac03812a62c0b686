//! Counters of the machine: `/proc/vmstat`, `/proc/meminfo` and pressure (PSI).

use crate::error::Result;
use crate::files;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Names and numbers, as `pgmajfault 17` lines give them.
pub type Counters = BTreeMap<String, u64>;

/// Counters of the whole machine since boot (mm/vmstat.c). Which ones exist depends on the kernel: look
/// a name up and treat a missing one as unknown. Those that count pages count base pages.
///
/// # Errors
/// When `/proc/vmstat` cannot be read.
pub fn vmstat() -> Result<Counters> {
    Ok(parse_flat(&files::read(Path::new("/proc/vmstat"))?))
}

/// Increase of each counter that both have. Gauges that fell are left out: their difference is no count.
pub fn increase(before: &Counters, after: &Counters) -> Counters {
    let grown = after.iter().filter_map(|(name, after)| {
        let difference = after.checked_sub(*before.get(name)?)?;
        Some((name.clone(), difference))
    });
    grown.collect()
}

/// `MemTotal` and `MemAvailable` of `/proc/meminfo`, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MachineMemory {
    /// Usable memory.
    pub total_bytes: Option<u64>,
    /// What the kernel thinks a new program could get without swapping.
    pub available_bytes: Option<u64>,
}

/// Memory of the machine.
pub fn machine_memory() -> MachineMemory {
    let text = files::read_optional(Path::new("/proc/meminfo")).unwrap_or_default();
    parse_meminfo(&text)
}

fn parse_meminfo(text: &str) -> MachineMemory {
    let bytes = |key| files::bytes_of(key, text);
    MachineMemory {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
    }
}

/// `name number` lines; others are skipped (a kernel may add new forms).
pub fn parse_flat(text: &str) -> Counters {
    let lines = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    });
    lines.collect()
}

/// Pressure stall information of one resource (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited; `None` where the kernel does not tell.
    pub full: Option<Stall>,
}

/// One line of pressure stall information.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Percent of the last 10 s.
    pub avg10: f64,
    /// Percent of the last 60 s.
    pub avg60: f64,
    /// Percent of the last 300 s.
    pub avg300: f64,
    /// All stalls so far, ns (the kernel tells microseconds).
    pub total_ns: u64,
}

/// Memory pressure of the machine; `None` without PSI (`CONFIG_PSI`, `psi=1`).
pub fn memory_pressure() -> Option<Pressure> {
    pressure_of(Path::new("/proc/pressure/memory"))
}

/// Pressure in a file of that form (also `memory.pressure` of a v2 cgroup). With PSI switched off the
/// file exists but reading fails: `None`.
pub fn pressure_of(path: &Path) -> Option<Pressure> {
    parse_pressure(&files::read_optional(path)?)
}

fn parse_pressure(text: &str) -> Option<Pressure> {
    let line = |kind: &str| {
        text.lines()
            .find_map(|line| parse_stall(line.strip_prefix(kind)?))
    };
    Some(Pressure {
        some: line("some ")?,
        full: line("full "),
    })
}

fn parse_stall(line: &str) -> Option<Stall> {
    let value = |key: &str| {
        line.split_whitespace()
            .find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
    };
    let total_us: u64 = value("total")?.parse().ok()?;
    Some(Stall {
        avg10: value("avg10")?.parse().ok()?,
        avg60: value("avg60")?.parse().ok()?,
        avg300: value("avg300")?.parse().ok()?,
        total_ns: total_us.checked_mul(1000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_files_skip_what_they_do_not_understand() {
        let counters = parse_flat("pgmajfault 17\nbroken\nneg -1\nfile  3\n");
        assert_eq!(counters.get("pgmajfault"), Some(&17));
        assert_eq!(counters.get("file"), Some(&3));
        assert_eq!(counters.len(), 2);
    }

    #[test]
    fn increase_leaves_out_unknown_and_falling_counters() {
        let before = parse_flat("a 1\nb 5\ngone 1");
        let after = parse_flat("a 4\nb 2\nnew 9");
        assert_eq!(increase(&before, &after), parse_flat("a 3"));
    }

    #[test]
    fn pressure_lines() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.05 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let pressure = parse_pressure(text).expect("parses");
        assert_eq!(pressure.some.avg10, 1.5);
        assert_eq!(pressure.some.total_ns, 1_234_000);
        assert_eq!(pressure.full.map(|full| full.total_ns), Some(7000));
        let only_some = parse_pressure("some avg10=0 avg60=0 avg300=0 total=1").expect("parses");
        assert_eq!(only_some.full, None);
        assert_eq!(parse_pressure("nonsense"), None);
    }

    #[test]
    fn meminfo_unknown_is_none() {
        let memory = parse_meminfo("MemTotal:       1000 kB\n");
        assert_eq!(memory.total_bytes, Some(1_024_000));
        assert_eq!(memory.available_bytes, None);
    }

    #[test]
    fn this_machine_counts_faults() {
        let before = vmstat().expect("vmstat");
        let touched = vec![1_u8; 1 << 20];
        let after = vmstat().expect("vmstat");
        assert!(touched.iter().map(|b| u64::from(*b)).sum::<u64>() > 0);
        assert!(increase(&before, &after).contains_key("pgfault"));
    }
}
