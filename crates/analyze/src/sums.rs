//! Counts by object and nothing else.

use std::cmp::Reverse;

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::counted;
use crate::counts::Counts;
use crate::identity::Identity;
use crate::spaces::SmallBlocks;
use crate::spaces::Spaces;

/// What happened to an object.
#[derive(Clone, Debug)]
pub struct ObjectSum {
    /// What it is called.
    pub identity: Identity,
    /// What happened, also what was counted and not listed.
    pub counts: Counts,
}

/// The objects with at least one event, most stall first: the counts of [`analyze`](crate::analyze), and nothing else.
///
/// # Errors
/// If a table cannot be read.
pub fn sum_by_object(trace: &Trace) -> Result<Vec<ObjectSum>, TraceError> {
    let mut spaces = Spaces::read_and_learn(trace, SmallBlocks::BySite)?;
    let mut sums: Vec<Counts> = Vec::new();
    for event in trace.events()?.read_ahead() {
        let event = event?;
        spaces.advance(event.time_ns);
        let object = spaces.object_of(&event);
        sum_of(&mut sums, object).add(&event);
    }
    counted::share_out(trace, &mut spaces, |share| {
        sum_of(&mut sums, share.object).add_share(&share);
    })?;
    let identities = spaces.into_identities();
    let objects = identities.into_iter().zip(sums);
    let mut objects: Vec<ObjectSum> = objects
        .filter(|(_, counts)| *counts != Counts::default())
        .map(|(identity, counts)| ObjectSum { identity, counts })
        .collect();
    objects.sort_by_key(|object| {
        let counts = &object.counts;
        Reverse((counts.stall_ns, counts.swap_ins, counts.evictions))
    });
    Ok(objects)
}

fn sum_of(sums: &mut Vec<Counts>, object: usize) -> &mut Counts {
    if object >= sums.len() {
        sums.resize(object + 1, Counts::default());
    }
    &mut sums[object]
}
