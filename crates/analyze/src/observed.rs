//! What anyone looked for: of all else there is no telling that there was none.

use pagewise_trace::Meta;

/// Which counts of a recording mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Faults and evictions.
    pub faults: bool,
    /// Swap-ins, at least in part: major faults in user mode, without their latency.
    pub swap_ins: bool,
    /// Pages of zeros could be told from written ones.
    pub zeros: bool,
}

impl Observed {
    /// By the sensors that were on; recordings older than a sensor's key had that of faults.
    pub fn of(meta: &Meta) -> Self {
        let is_on = |sensor: &str| meta.sensors.get(sensor).map(|state| state == "on");
        let faults = is_on("faults").unwrap_or(true);
        Self {
            faults,
            swap_ins: faults || is_on("major_faults").unwrap_or(false),
            zeros: is_on("zero_filled").unwrap_or(false),
        }
    }
}
