//! What changed with time, for those that draw it: memory in use, and waiting outside swap-in faults.

use std::collections::HashMap;

use pagewise_trace::ResidencyScan;
use pagewise_trace::Sample;
use pagewise_trace::StallCount;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Memory at one moment, all recorded processes together; `None`: not known. Sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// In memory.
    pub resident: Option<u64>,
    /// In swap.
    pub swapped: Option<u64>,
    /// The limit in force.
    pub limit: Option<u64>,
}

/// A thread reclaimed memory outside a swap-in fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    /// When that ended, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
}

/// Curves of a recording, each in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What the kernel counted, about once a second.
    pub samples: Vec<MemoryUse>,
    /// What page tables told, with each scan; pages of files that are mapped count as resident too.
    pub scans: Vec<MemoryUse>,
    /// Waiting outside swap-in faults.
    pub reclaims: Vec<Reclaim>,
}

impl Timeline {
    /// Reads the curves of a trace. Memory grows with scans and reclaims.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut samples: Vec<MemoryUse> = trace.samples()?.iter().map(of_sample).collect();
        samples.sort_by_key(|sample| sample.time_ns);
        let mut scans: Vec<ResidencyScan> = trace.residency_scans()?.collect::<Result<_, _>>()?;
        scans.sort_by_key(|scan| scan.end_ns);
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for space in trace.spaces()? {
            ends.extend(space.end_ns.map(|end_ns| (space.space, end_ns)));
        }
        let mut reclaims = Vec::new();
        for stall in trace.stalls()? {
            let stall = stall?;
            if !stall.in_fault {
                reclaims.push(Reclaim {
                    time_ns: stall.time_ns,
                    duration_ns: stall.duration_ns,
                });
            }
        }
        for counted in trace.rows::<StallCount>()? {
            let counted = counted?;
            if !counted.in_fault {
                reclaims.push(Reclaim {
                    time_ns: counted.time_ns.saturating_add(counted.interval_ns),
                    duration_ns: counted.duration_ns,
                });
            }
        }
        reclaims.sort_by_key(|reclaim| reclaim.time_ns);
        Ok(Self {
            samples,
            scans: summed(&scans, &ends),
            reclaims,
        })
    }
}

fn of_sample(sample: &Sample) -> MemoryUse {
    MemoryUse {
        time_ns: sample.time_ns,
        resident: sample.rss_bytes,
        swapped: sample.swap_bytes,
        limit: sample.limit_bytes,
    }
}

/// Each process is scanned by itself: at each scan, the last ones of those that live.
fn summed(scans: &[ResidencyScan], ends: &HashMap<u32, u64>) -> Vec<MemoryUse> {
    let mut latest: HashMap<u32, (u64, u64)> = HashMap::new();
    let moment = |scan: &ResidencyScan| {
        let ended = |space: &u32| ends.get(space).is_some_and(|&end_ns| end_ns <= scan.end_ns);
        latest.retain(|space, _| !ended(space));
        if scan.complete {
            latest.insert(scan.space, (scan.resident_bytes, scan.swapped_bytes));
        }
        let sum = |part: fn(&(u64, u64)) -> u64| {
            let parts = latest.values().map(part);
            parts.fold(0, u64::saturating_add)
        };
        MemoryUse {
            time_ns: scan.end_ns,
            resident: Some(sum(|bytes| bytes.0)),
            swapped: Some(sum(|bytes| bytes.1)),
            limit: None,
        }
    };
    scans.iter().map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(space: u32, end_ns: u64, resident_bytes: u64) -> ResidencyScan {
        ResidencyScan {
            time_ns: end_ns - 1,
            space,
            end_ns,
            cost_ns: 1,
            resident_bytes,
            swapped_bytes: 10,
            huge_bytes: None,
            complete: true,
        }
    }

    #[test]
    fn processes_add_up_until_they_end() {
        let scans = [scan(1, 10, 100), scan(2, 20, 50), scan(1, 30, 70)];
        let sums = summed(&scans, &HashMap::from([(2, 25)]));
        let resident: Vec<_> = sums.iter().map(|sum| sum.resident).collect();
        assert_eq!(resident, [Some(100), Some(150), Some(70)]);
        assert_eq!(sums[1].swapped, Some(20));
    }
}
