//! `meta.json`: what was recorded, where, when, and how complete it is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::files::Owner;

/// The name of the meta file in the trace's folder.
pub const META_FILE: &str = "meta.json";
/// The newest format version this crate reads, and the one it writes.
pub const FORMAT_VERSION: u64 = 1;
const SCHEMA_PREFIX: &str = "pagewise.trace/";

/// Everything about a recording that is not a table.
///
/// Keys unknown to this version are ignored when reading, absent ones become `None` or empty.
/// Times are ns, sizes bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// `pagewise.trace/1`; set by the writer.
    pub schema: String,
    /// The format version; set by the writer.
    pub version: u64,
    /// Whether the recording is complete; set by the writer.
    pub state: State,
    /// The version of pagewise that recorded.
    pub pagewise_version: String,
    /// The recorded command and its arguments; empty if a running process was recorded.
    pub command: Vec<String>,
    /// What ran already when the recording began; empty if a command was started.
    pub running: Running,
    /// The folder the command ran in.
    pub working_directory: String,
    /// The machine.
    pub host: Host,
    /// How the tables' times relate to other clocks.
    pub clock: Clock,
    /// The end of the recording on `CLOCK_MONOTONIC`.
    pub end_monotonic_ns: Option<u64>,
    /// How long the program ran.
    pub wall_ns: Option<u64>,
    /// The memory limit.
    pub limit: Limit,
    /// The swap device.
    pub swap: Swap,
    /// How the program ended.
    pub exit: Exit,
    /// The most resident memory the program had.
    pub peak_rss_bytes: Option<u64>,
    /// What was lost, by name of the place: events, stacks, ...
    pub losses: BTreeMap<String, u64>,
    /// Each sensor: `on`, `off`, or why it is missing.
    pub sensors: BTreeMap<String, String>,
    /// The GNU build id of each module that names were looked up in, by path, as hexadecimal digits.
    pub build_ids: BTreeMap<String, String>,
    /// Which allocations were recorded.
    pub sampling: Sampling,
    /// What recording itself cost; a value that is not finite is left out of the file.
    #[serde(serialize_with = "finite_only")]
    pub cost: BTreeMap<String, f64>,
    /// Of each address space that counters of the processor were read for, the share of its cycles in page walks, 0 to 1.
    #[serde(serialize_with = "finite_only")]
    pub page_walks: BTreeMap<u32, f64>,
    /// What page walks and first touches cost there, measured when the recording began; `None`: it was not, or in recordings older than this
    /// key.
    pub huge_pages: Option<HugePageCosts>,
    /// What it takes to set an accessed bit that was cleared, measured there when the recording began: ns of processor time. `None`: it was
    /// not, or in recordings older than this key.
    pub set_accessed_ns: Option<f64>,
    /// How many threads of the program ran at a time on average, while its accessed bits were looked at; `None`: not known.
    pub running_threads: Option<f64>,
    /// Kernel counters at the run's begin and end.
    pub counters: BTreeMap<String, Counter>,
    /// Counts kept by the sensors themselves, to check the tables against.
    pub totals: BTreeMap<String, u64>,
    /// Rows per table; set at close.
    pub row_counts: BTreeMap<String, u64>,
    /// Checksums of each table's file; set at close.
    pub checksums: BTreeMap<String, Checksums>,
    /// Set if the recorder died and the trace was recovered.
    pub recovered: Option<Recovered>,
    /// Set if the trace was made from another tool's file.
    pub imported: Option<Imported>,
}

/// What huge pages cost and save on the machine that was recorded on. Times are processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HugePageCosts {
    /// Cycles in a ns.
    pub cycles_per_ns: f64,
    /// Cycles of a page walk to a base page, in a read that waits for the one before.
    pub walk_cycles: f64,
    /// The median of first touches of 2 MiB in base pages, ns.
    pub touch_base_ns: f64,
    /// Nine tenths of these take less, ns.
    pub touch_base_p90_ns: f64,
    /// The median of first touches of a huge page, ns.
    pub touch_huge_ns: f64,
    /// Nine tenths of these take less, ns.
    pub touch_huge_p90_ns: f64,
}

/// Running processes that were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Running {
    /// The process ids that were named.
    pub pids: Vec<u32>,
    /// The folder of the cgroup that was named.
    pub cgroup: Option<String>,
}

/// Whether a recording is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The tables are Arrow streams; the recorder is alive or has died.
    #[default]
    Recording,
    /// The tables are Parquet files.
    Closed,
}

/// Which allocations were recorded, if that sensor was on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// Those of at least this many bytes all.
    pub threshold_bytes: Option<u64>,
    /// Of the smaller ones one for each so many bytes allocated, on average; `None`: none.
    pub sample_bytes: Option<u64>,
    /// While the program allocated fast, fewer: the sparsest that was used; `None`: no sample was recorded.
    pub sparsest_sample_bytes: Option<u64>,
}

/// The machine that was recorded on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its name, as `uname -n` shows it; `None` in recordings older than this key.
    pub name: Option<String>,
    /// The kernel's release, as `uname -r` shows it.
    pub kernel: String,
    /// The architecture, as `uname -m` shows it.
    pub machine: String,
    /// Processors online.
    pub cpus: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The size of a base page in bytes.
    pub page_bytes: Option<u64>,
    /// Who else pages memory out there, a sentence each, as seen when the recording began; `None` in recordings older than this key.
    pub page_out: Option<Vec<String>>,
}

/// The same instant, the start of the recording, on each clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// On `CLOCK_MONOTONIC`, in ns: the clock of all tables.
    pub start_monotonic_ns: Option<u64>,
    /// On `CLOCK_REALTIME`, in ns since 1970.
    pub start_realtime_ns: Option<u64>,
    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, in ns.
    pub boot_offset_ns: Option<u64>,
}

/// The memory limit of the recorded processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// The limit in bytes.
    pub bytes: Option<u64>,
    /// The file that sets it: `memory.high`, `memory.max` or `memory.limit_in_bytes`.
    pub kind: Option<String>,
}

/// Where pages were swapped to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Swap {
    /// `zram` or `file`: set up for the run. `existing`: what the machine had. `none`: the program was to have none.
    pub kind: Option<String>,
    /// The device or file; of several that the machine had, the one that is used first, if all are zram, or none is.
    pub path: Option<String>,
    /// Its size in bytes.
    pub bytes: Option<u64>,
    /// The compression algorithm of a zram device.
    pub algorithm: Option<String>,
}

impl Swap {
    /// Whether it is compressed memory: reading a page back is then work, not waiting.
    pub fn is_memory(&self) -> bool {
        let device = self
            .path
            .as_deref()
            .and_then(|path| path.rsplit('/').next());
        let number = device.and_then(|device| device.strip_prefix("zram"));
        self.kind.as_deref() == Some("zram")
            || number.is_some_and(|number| number.parse::<u32>().is_ok())
    }
}

/// How the recorded program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// In words, where more is known (for example `out of memory`).
    pub reason: Option<String>,
}

/// A counter of the kernel, at both ends of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its value at the begin.
    pub begin: u64,
    /// Its value at the end.
    pub end: u64,
}

/// Checksums of one Parquet file, so that damage is found before it is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksums {
    /// The file's length in bytes.
    pub bytes: u64,
    /// The length of a block in bytes; the last one may be shorter.
    pub block_bytes: u64,
    /// The CRC-32 (IEEE) of each block, 8 hexadecimal digits each, joined.
    pub crc32: String,
}

/// That a recording ended without being closed, and what that lost on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovered {
    /// Bytes after the last whole batch, over all tables, that could not be used.
    pub dropped_bytes: u64,
    /// The same by table, for those that lost any.
    pub tables: BTreeMap<String, u64>,
}

/// That a trace was made from another tool's file, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// The file's format, as `pagewise import` calls it.
    pub format: String,
    /// The file's path.
    pub file: String,
}

impl Recovered {
    pub(crate) fn drop_bytes(&mut self, table: &str, bytes: u64) {
        if bytes > 0 {
            self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
            let of_table = self.tables.entry(table.to_owned()).or_default();
            *of_table = of_table.saturating_add(bytes);
        }
    }
}

/// JSON has no NaN or infinity: they would be written as `null` and make the file unreadable.
fn finite_only<K: serde::Serialize, S: serde::Serializer>(
    map: &BTreeMap<K, f64>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().filter(|(_, value)| value.is_finite()))
}

/// How the state of a sensor begins that tells a part of what it could.
pub const IN_PART: &str = "in part: ";

impl Meta {
    /// Whether this sensor has told anything, be it in part.
    pub fn has_recorded(&self, sensor: &str) -> bool {
        let state = self.sensors.get(sensor);
        state.is_some_and(|state| state == "on" || state.starts_with(IN_PART))
    }

    /// Reads and checks the meta file of a trace.
    pub(crate) fn read(dir: &Path) -> Result<Meta> {
        let path = dir.join(META_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(source) => return Err(unreadable(dir, &path, source)),
        };
        if text.is_empty() {
            return Err(TraceError::Empty { path });
        }
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| malformed(&path, &error))?;
        check_version(&path, &value)?;
        serde_json::from_value(value).map_err(|error| TraceError::corrupt(&path, error.to_string()))
    }

    /// Replaces the meta file in one step.
    pub(crate) fn write(&mut self, dir: &Path, owner: Option<Owner>) -> Result<()> {
        self.schema = format!("{SCHEMA_PREFIX}{FORMAT_VERSION}");
        self.version = FORMAT_VERSION;
        let path = dir.join(META_FILE);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| TraceError::io(&path, io::Error::from(error)))?;
        text.push(b'\n');
        files::replace(&path, &text, owner)
    }
}

/// Says which of the path's parts is missing.
fn unreadable(dir: &Path, path: &Path, source: io::Error) -> TraceError {
    let missing = matches!(
        source.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    );
    if !missing {
        return TraceError::io(path, source);
    }
    if dir.is_dir() {
        TraceError::not_a_trace(dir, format!("it has no {META_FILE}"))
    } else if dir.exists() {
        TraceError::not_a_trace(dir, "it is a file, not a folder")
    } else {
        TraceError::NotFound {
            path: dir.to_owned(),
        }
    }
}

fn malformed(path: &Path, error: &serde_json::Error) -> TraceError {
    if error.is_eof() {
        TraceError::truncated(path, error.to_string())
    } else {
        TraceError::corrupt(path, error.to_string())
    }
}

/// Checked before anything else is interpreted: a newer format may mean other things by its keys.
fn check_version(path: &Path, value: &serde_json::Value) -> Result<()> {
    let is_trace = value["schema"]
        .as_str()
        .is_some_and(|schema| schema.starts_with(SCHEMA_PREFIX));
    if !is_trace {
        return Err(TraceError::not_a_trace(
            path,
            format!("its `schema` does not begin with {SCHEMA_PREFIX}"),
        ));
    }
    match value["version"].as_u64() {
        Some(found) if found > FORMAT_VERSION => Err(TraceError::NewerVersion {
            path: path.to_owned(),
            found,
            supported: FORMAT_VERSION,
        }),
        Some(FORMAT_VERSION) if value["state"].is_string() => Ok(()),
        Some(FORMAT_VERSION) => Err(TraceError::corrupt(path, "`state` is missing")),
        _ => Err(TraceError::corrupt(
            path,
            "`version` is not a format version",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_memory_where_it_is_zram_whoever_set_it_up() {
        let is_memory = |kind: &str, path: Option<&str>| {
            let swap = Swap {
                kind: Some(kind.to_owned()),
                path: path.map(str::to_owned),
                ..Swap::default()
            };
            swap.is_memory()
        };
        assert!(is_memory("zram", None));
        assert!(is_memory("existing", Some("/dev/block/zram0")));
        for path in [
            None,
            Some("/dev/sda2"),
            Some("/var/zram"),
            Some("/zram0/swap"),
        ] {
            assert!(!is_memory("existing", path), "{path:?}");
        }
        assert!(!Swap::default().is_memory());
    }
}
