//! Waiting for memory outside swap-in faults, and what the kernel itself says was waited.

use pagewise_trace::Meta;
use pagewise_trace::StallCount;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Whose pressure stall information is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsiScope {
    /// The program's own cgroup.
    Cgroup,
    /// The whole machine: other programs count too.
    Machine,
}

impl PsiScope {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Machine => "machine",
        }
    }
}

/// Times in ns; `None`: unknown. Reclaim and delays are summed over threads, PSI is time that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How often threads reclaimed memory themselves.
    pub reclaims: Option<u64>,
    /// The same as the kernel counts.
    pub kernel_reclaims: Option<u64>,
    /// How long that took outside swap-in faults: to be added to their stall.
    pub reclaim_stall_ns: Option<u64>,
    /// How long it took inside swap-in faults: a part of their stall.
    pub reclaim_in_fault_ns: Option<u64>,
    /// How long threads were ready to run between swap-ins while others had the processors; `None`: it was not recorded, or not for 100 us on end.
    pub run_delay_ns: Option<u64>,
    /// Whose PSI follows.
    pub psi_scope: Option<PsiScope>,
    /// Some task waited for memory.
    pub psi_some_ns: Option<u64>,
    /// All tasks that could have run waited.
    pub psi_full_ns: Option<u64>,
    /// Delay accounting: reading from swap devices.
    pub delay_swapin_ns: Option<u64>,
    /// Reclaiming memory.
    pub delay_freepages_ns: Option<u64>,
    /// Waiting for pages that had been evicted a short time before.
    pub delay_thrashing_ns: Option<u64>,
    /// Waiting for block devices.
    pub delay_blkio_ns: Option<u64>,
}

impl Waits {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut waits = Self {
            kernel_reclaims: trace.meta().totals.get("kernel_reclaims").copied(),
            ..Self::default()
        };
        if stalls_observed(trace.meta()) {
            waits.add_stalls(trace)?;
        }
        for delay in trace.run_delays()? {
            let sum = waits.run_delay_ns.get_or_insert(0);
            *sum = sum.saturating_add(delay?.duration_ns);
        }
        if let Some(last) = trace.pressure()?.pop() {
            waits.psi_scope = match (last.psi_some_ns, last.machine_psi_some_ns) {
                (Some(_), _) => Some(PsiScope::Cgroup),
                (None, Some(_)) => Some(PsiScope::Machine),
                (None, None) => None,
            };
            (waits.psi_some_ns, waits.psi_full_ns) = match waits.psi_scope {
                Some(PsiScope::Cgroup) => (last.psi_some_ns, last.psi_full_ns),
                _ => (last.machine_psi_some_ns, last.machine_psi_full_ns),
            };
            waits.delay_swapin_ns = last.delay_swapin_ns;
            waits.delay_freepages_ns = last.delay_freepages_ns;
            waits.delay_thrashing_ns = last.delay_thrashing_ns;
            waits.delay_blkio_ns = last.delay_blkio_ns;
        }
        Ok(waits)
    }

    fn add_stalls(&mut self, trace: &Trace) -> Result<(), TraceError> {
        let (mut number, mut outside, mut inside) = (0, 0u64, 0u64);
        for stall in trace.stalls()? {
            let stall = stall?;
            let sum = if stall.in_fault {
                &mut inside
            } else {
                &mut outside
            };
            *sum = sum.saturating_add(stall.duration_ns);
            number += 1;
        }
        for counted in trace.rows::<StallCount>()? {
            let counted = counted?;
            let sum = if counted.in_fault {
                &mut inside
            } else {
                &mut outside
            };
            *sum = sum.saturating_add(counted.duration_ns);
            number += counted.stalls;
        }
        self.reclaims = Some(number);
        self.reclaim_stall_ns = Some(outside);
        self.reclaim_in_fault_ns = Some(inside);
        Ok(())
    }
}

/// Older traces do not say, and have none.
fn stalls_observed(meta: &Meta) -> bool {
    meta.sensors
        .get("stalls")
        .is_some_and(|state| state == "on")
}
