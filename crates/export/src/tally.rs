//! Sums by object and call path.

use std::collections::BTreeMap;

use pagewise_analyze::Counts;
use pagewise_trace::Trace;

use crate::error::ExportError;
use crate::events::Events;
use crate::format::CallPathOf;
use crate::format::Weight;

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) object: usize,
    /// The call path asked for; `None`: the object was not allocated, or the path was not taken.
    pub(crate) stack: Option<u32>,
}

/// What a flame graph counts.
pub(crate) fn weighed(counts: &Counts, weight: Weight) -> u64 {
    match weight {
        Weight::SwapIns => counts.swap_ins,
        Weight::StallNs => counts.stall_ns,
        Weight::Evictions => counts.evictions,
        // No object has any.
        Weight::IoBytes | Weight::IoNs => 0,
    }
}

/// The sums of a recording, in an order that does not depend on anything but the recording.
pub(crate) struct Tally {
    pub(crate) sums: BTreeMap<Key, Counts>,
    pub(crate) call_path_of: CallPathOf,
}

impl Tally {
    pub(crate) fn of(
        trace: &Trace,
        events: &mut Events,
        call_path_of: CallPathOf,
    ) -> Result<Self, ExportError> {
        let mut sums: BTreeMap<Key, Counts> = BTreeMap::new();
        while let Some(located) = events.next()? {
            let stack = match call_path_of {
                CallPathOf::Allocation => located.place.stack,
                CallPathOf::Fault => located.event.stack,
            };
            let object = located.place.object;
            sums.entry(Key { object, stack })
                .or_default()
                .add(&located.event);
        }
        // Which allocation of an object they belong to is not known, nor where they were caused.
        events.share_counted(trace, |object, counts| {
            let key = Key {
                object,
                stack: None,
            };
            let sum = sums.entry(key).or_default();
            *sum = [*sum, counts].iter().sum();
        })?;
        // No format shows anything else.
        sums.retain(|_, counts| counts.swap_ins + counts.evictions > 0);
        if call_path_of == CallPathOf::Fault && sums.keys().all(|key| key.stack.is_none()) {
            return Err(ExportError::NoFaultPaths);
        }
        Ok(Self { sums, call_path_of })
    }
}
