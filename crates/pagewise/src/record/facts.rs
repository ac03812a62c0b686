//! What the trace's meta data says of a run: host, clocks, counters, cost.

use std::collections::BTreeMap;

use pagewise_collect::Totals;
use pagewise_host::OomRelief;
use pagewise_host::counters;
use pagewise_host::page_bytes;
use pagewise_host::page_out::PageOut;
use pagewise_host::page_out::page_out;
use pagewise_trace as trace;
use rustix::time::ClockId;

use super::sampling;
use super::sensors::Sensors;
use super::setting::Setting;
use super::subject::Subject;
use super::translate::Translator;
use crate::cli::RecordArguments;

/// Counters of /proc/vmstat that are kept beside our own counts.
const COUNTERS: &[&str] = &[
    "pswpin",
    "pswpout",
    "swpin_zero",
    "swpout_zero",
    "pgsteal_anon",
    "pgmajfault",
    "oom_kill",
    "zswpin",
    "zswpout",
];

/// All clocks at one moment, ns.
pub(crate) struct Clocks {
    pub(crate) monotonic_ns: u64,
    pub(super) realtime_ns: u64,
    pub(super) boot_offset_ns: u64,
    pub(crate) cpu_ns: u64,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        let read = |clock| {
            let time = rustix::time::clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let monotonic_ns = read(ClockId::Monotonic);
        Self {
            monotonic_ns,
            realtime_ns: read(ClockId::Realtime),
            boot_offset_ns: read(ClockId::Boottime).saturating_sub(monotonic_ns),
            cpu_ns: read(ClockId::ProcessCPUTime),
        }
    }
}

/// Whom the trace belongs to under sudo.
pub(super) fn sudo_caller() -> Option<trace::Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    Some(trace::Owner {
        uid: number("SUDO_UID")?,
        gid: number("SUDO_GID")?,
    })
}

pub(super) fn meta(
    arguments: &RecordArguments,
    setting: &Setting,
    sensors: &Sensors,
    subject: &Subject,
    start: &Clocks,
) -> trace::Meta {
    let system = rustix::system::uname();
    let folder = std::env::current_dir().map(|folder| folder.display().to_string());
    trace::Meta {
        pagewise_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: arguments
            .program
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect(),
        working_directory: folder.unwrap_or_default(),
        running: match subject {
            Subject::Program(_) => trace::Running::default(),
            Subject::Running(running) => {
                let (pids, cgroup) = running.named();
                trace::Running { pids, cgroup }
            }
        },
        host: trace::Host {
            name: Some(system.nodename().to_string_lossy().into_owned()),
            kernel: system.release().to_string_lossy().into_owned(),
            machine: system.machine().to_string_lossy().into_owned(),
            cpus: std::thread::available_parallelism()
                .ok()
                .map(|cpus| cpus.get() as u64),
            memory_bytes: counters::machine_memory().total_bytes,
            page_bytes: Some(page_bytes()),
            page_out: Some(page_out().iter().map(PageOut::words).collect()),
        },
        clock: trace::Clock {
            start_monotonic_ns: Some(start.monotonic_ns),
            start_realtime_ns: Some(start.realtime_ns),
            boot_offset_ns: Some(start.boot_offset_ns),
        },
        limit: setting.limit.clone(),
        swap: setting.swap.clone(),
        sensors: sensors.states.clone(),
        sampling: match &sensors.allocations {
            Some(_) => sampling::stated(arguments.sample_bytes),
            None => trace::Sampling::default(),
        },
        huge_pages: sensors.huge_page_costs,
        set_accessed_ns: sensors.set_accessed_ns,
        ..trace::Meta::default()
    }
}

pub(super) fn both(
    before: &counters::Counters,
    after: &counters::Counters,
) -> BTreeMap<String, trace::Counter> {
    let pair = |name: &&str| {
        let counter = trace::Counter {
            begin: *before.get(*name)?,
            end: *after.get(*name)?,
        };
        Some(((*name).to_owned(), counter))
    };
    COUNTERS.iter().filter_map(pair).collect()
}

/// Of a recording without the programs that see faults and evictions: what they would have counted is not known.
pub(super) fn leave_out_unseen_faults(totals: &mut BTreeMap<String, u64>) {
    const OF_NO_FAULT: [&str; 5] = [
        "major_faults",
        "stack_pages_brought_in",
        "call_paths_checked",
        "call_paths_different",
        "polled_rings",
    ];
    totals.retain(|name, _| OF_NO_FAULT.contains(&name.as_str()));
}

pub(super) fn kept_counts(
    totals: Option<Totals>,
    translator: &Translator,
    swap_is_slow: bool,
) -> BTreeMap<String, u64> {
    let Some(totals) = totals else {
        return BTreeMap::new();
    };
    let seen = translator.counts.major_swap_ins + totals.file_majors;
    let without_exception = totals.major_faults.saturating_sub(seen);
    // On zram each major fault reads one page; elsewhere the device's reads are counted themselves.
    let read_unseen = if swap_is_slow { 0 } else { without_exception };
    let mut counts = BTreeMap::from([
        ("major_faults".to_owned(), totals.major_faults),
        ("file_major_faults".to_owned(), totals.file_majors),
        ("faults_without_exception".to_owned(), without_exception),
        // Of the whole machine: their owner had just gone.
        ("evictions_without_owner".to_owned(), totals.unknown_owner),
        // Of the whole machine too.
        ("shared_pages_written".to_owned(), totals.shared_pages),
        ("foreign_evictions".to_owned(), totals.foreign_pages),
        // Read by the recorder, not by the program.
        (
            "stack_pages_brought_in".to_owned(),
            translator.fault_paths.pages_brought_in,
        ),
    ]);
    if translator.fault_paths.checked > 0 {
        counts.extend([
            (
                "call_paths_checked".to_owned(),
                translator.fault_paths.checked,
            ),
            (
                "call_paths_different".to_owned(),
                translator.fault_paths.different,
            ),
        ]);
    }
    if totals.io.polled_rings > 0 {
        counts.insert("polled_rings".to_owned(), totals.io.polled_rings);
    }
    if totals.reads_are_counted {
        counts.insert("pages_read".to_owned(), totals.pages_read + read_unseen);
    }
    counts
}

pub(super) fn cost(start: &Clocks, relief: Option<&OomRelief>) -> BTreeMap<String, f64> {
    let mut cost = BTreeMap::new();
    cost.insert(
        "recorder_cpu_ns".to_owned(),
        Clocks::now().cpu_ns.saturating_sub(start.cpu_ns) as f64,
    );
    if let Some(relief) = relief {
        cost.insert("limit_raised_times".to_owned(), relief.nudges() as f64);
    }
    cost
}
