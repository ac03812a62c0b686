//! What the kernel itself says that was waited for memory: pressure stall information and delay accounting, beside our
//! own counts.

use std::path::Path;
use std::path::PathBuf;

use pagewise_collect::Delays;
use pagewise_collect::SwapSensor;
use pagewise_host::counters::Pressure;
use pagewise_host::counters::memory_pressure;
use pagewise_host::counters::pressure_of;
use pagewise_trace as trace;

use super::facts::Clocks;

/// Both as they were when the window opened: what was waited before is not the recording's.
pub(super) struct Waits {
    cgroup_file: Option<PathBuf>,
    cgroup: Option<Pressure>,
    machine: Option<Pressure>,
    /// `None`: no thread had such accounts yet.
    delays: Option<Delays>,
}

impl Waits {
    /// `cgroup`: the program's own, if it has one.
    pub(super) fn begin(cgroup: Option<&Path>, delays: Option<Delays>) -> Self {
        let cgroup_file = cgroup.map(|folder| folder.join("memory.pressure"));
        Self {
            cgroup: cgroup_file.as_deref().and_then(pressure_of),
            machine: memory_pressure(),
            delays,
            cgroup_file,
        }
    }

    /// What the kernel accounts of recorded threads, of that what was waited since the begin.
    pub(super) fn delays(&self, now: Option<Delays>) -> Option<Delays> {
        now.map(|now| now.since(self.delays.unwrap_or_default()))
    }

    /// What was waited since the begin.
    pub(super) fn now(&self, delays: Option<Delays>) -> trace::Pressure {
        let delays = self.delays(delays);
        let cgroup = self.cgroup_file.as_deref().and_then(pressure_of);
        let (psi_some_ns, psi_full_ns) = increase(self.cgroup, cgroup);
        let (machine_psi_some_ns, machine_psi_full_ns) = increase(self.machine, memory_pressure());
        trace::Pressure {
            time_ns: Clocks::now().monotonic_ns,
            psi_some_ns,
            psi_full_ns,
            machine_psi_some_ns,
            machine_psi_full_ns,
            delay_swapin_ns: delays.map(|delays| delays.swapin_ns),
            delay_freepages_ns: delays.map(|delays| delays.freepages_ns),
            delay_thrashing_ns: delays.map(|delays| delays.thrashing_ns),
            delay_blkio_ns: delays.map(|delays| delays.blkio_ns),
        }
    }
}

fn increase(before: Option<Pressure>, after: Option<Pressure>) -> (Option<u64>, Option<u64>) {
    let Some((before, after)) = before.zip(after) else {
        return (None, None);
    };
    let some = after.some.total_ns.checked_sub(before.some.total_ns);
    let full = before.full.zip(after.full);
    let full = full.and_then(|(before, after)| after.total_ns.checked_sub(before.total_ns));
    (some, full)
}

/// What the trace says of the sensors of stalls, and of delay accounting.
pub(super) fn states(faults: Option<&SwapSensor>) -> [(&'static str, String); 2] {
    let Some(faults) = faults else {
        return [("stalls", "off".to_owned()), ("delays", "off".to_owned())];
    };
    let stalls = stalls_state(faults.missing_stall_tracepoints());
    [("stalls", stalls), ("delays", delays_state())]
}

/// A kernel without memory cgroups lacks their tracepoints, and has nothing to tell by them; completions of writes are no
/// stalls.
fn stalls_state(missing_tracepoints: &[&str]) -> String {
    let missing = missing_tracepoints
        .iter()
        .find(|name| name.starts_with("mm_vmscan_direct_reclaim"));
    match missing {
        None => "on".to_owned(),
        Some(name) => format!("this kernel has no tracepoint {name}"),
    }
}

/// Threads have accounts if they were on when these started.
pub(crate) fn delays_state() -> String {
    const SETTING: &str = "/proc/sys/kernel/task_delayacct";
    match std::fs::read_to_string(SETTING) {
        Ok(text) if text.trim() == "1" => "on".to_owned(),
        Ok(_) => "delay accounting is off: sysctl kernel.task_delayacct=1 turns it on".to_owned(),
        Err(_) => "this kernel has no switch for delay accounting".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_host::counters::Stall;

    use super::*;

    fn pressure(some: u64, full: Option<u64>) -> Pressure {
        let stall = |total_ns| Stall {
            avg10: 0.0,
            avg60: 0.0,
            avg300: 0.0,
            total_ns,
        };
        Pressure {
            some: stall(some),
            full: full.map(stall),
        }
    }

    #[test]
    fn pressure_counts_from_the_begin() {
        let (before, after) = (pressure(5, Some(2)), pressure(9, Some(2)));
        assert_eq!(increase(Some(before), Some(after)), (Some(4), Some(0)));
    }

    #[test]
    fn delays_count_from_the_begin() {
        let delays = |ns| Delays {
            freepages_ns: ns,
            ..Delays::default()
        };
        let waits = |before| Waits {
            cgroup_file: None,
            cgroup: None,
            machine: None,
            delays: before,
        };
        assert_eq!(waits(None).delays(Some(delays(7))), Some(delays(7)));
        let counted = waits(Some(delays(5))).delays(Some(delays(7)));
        assert_eq!(counted, Some(delays(2)));
        assert_eq!(waits(Some(delays(5))).delays(None), None);
    }

    #[test]
    fn only_a_missing_tracepoint_of_stalls_is_told() {
        assert_eq!(stalls_state(&[]), "on");
        assert_eq!(
            stalls_state(&["mm_vmscan_memcg_reclaim_end", "block_rq_complete"]),
            "on"
        );
        let state = stalls_state(&["mm_vmscan_direct_reclaim_end"]);
        assert!(
            state.ends_with("no tracepoint mm_vmscan_direct_reclaim_end"),
            "{state}"
        );
    }

    #[test]
    fn unknown_pressure_stays_unknown() {
        assert_eq!(increase(None, Some(pressure(9, None))), (None, None));
        let pair = (Some(pressure(5, None)), Some(pressure(9, Some(7))));
        assert_eq!(increase(pair.0, pair.1), (Some(4), None));
        assert_eq!(
            increase(Some(pressure(9, None)), Some(pressure(5, None))),
            (None, None),
            "a counter that fell counts nothing"
        );
    }
}
