//! The objects that sweeps begin and end with: large allocations.

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::history::History;

/// Smaller ones are not swept by themselves, and there may be very many.
const LEAST_BYTES: u64 = 128 << 10;

/// First page and page after the last of each large allocation, in order; they do not overlap.
pub(crate) struct Objects {
    ranges: Vec<(u32, u32)>,
}

impl Objects {
    pub(crate) fn read(trace: &Trace, history: &History) -> Result<Objects, TraceError> {
        let number = |key: u64| history.keys.partition_point(|&other| other < key) as u32;
        let mut ranges = Vec::new();
        for allocation in trace.allocations()? {
            let allocation = allocation?;
            if allocation.bytes < LEAST_BYTES {
                continue;
            }
            let last = allocation.address.saturating_add(allocation.bytes - 1);
            let key_at = |address| history.key_at(allocation.space, address);
            let first = number(key_at(allocation.address));
            let after = number(key_at(last) + 1);
            if first < after {
                ranges.push((first, after));
            }
        }
        // Of those that lay in the same place one after the other, the largest.
        ranges.sort_unstable_by_key(|&(first, after)| (first, std::cmp::Reverse(after)));
        let mut covered = 0;
        ranges.retain(|&(first, after)| {
            let free = first >= covered;
            covered = if free { after } else { covered };
            free
        });
        Ok(Objects { ranges })
    }

    /// The object around a page; of other memory, the page alone.
    pub(crate) fn around(&self, page: u32) -> (u32, u32) {
        let after = self.ranges.partition_point(|&(first, _)| first <= page);
        let object = after.checked_sub(1).map(|last| self.ranges[last]);
        object
            .filter(|&(_, after)| page < after)
            .unwrap_or((page, page + 1))
    }
}
