//! From page states over time: which share of an object was in memory, and how many pages left it without a write.
//!
//! ```text
//!   lives of objects, scans, changed ranges  --in time-->  Space: states and objects by address  -->  Share per object
//!   resident -> swapped, file page -> absent --------------------------------------------------->  Drops
//!   writes (events) ----------------------------------------------------------------------------/
//! ```

mod drops;
mod share;

use std::collections::HashMap;

use pagewise_trace::EventKind;
use pagewise_trace::Residency;
use pagewise_trace::SharedMemory;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::spaces::Life;
use crate::spaces::Spaces;
use drops::Drops;
use share::InMemory;
use share::Share;
use share::SpaceStates;

/// What page states say of a whole trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageStates {
    /// Of each object, by index; `None` if no scan saw it.
    pub(crate) in_memory: Vec<Option<InMemory>>,
    /// Pages that left memory without being written; `None` if that was not observed.
    pub(crate) dropped_without_write: Option<u64>,
    /// Pages of shared memory that left memory, perhaps to swap; `None` if that was not observed.
    pub(crate) shared_pages_gone: Option<u64>,
}

/// Something in the order of time.
enum Step {
    ScanBegins(u32),
    ScanEnds(u32),
    Life(Life),
    SpaceEnds(u32),
}

/// Goes through a trace, and through `spaces` once more; `writes_observed`: whether the events tell of each page that was
/// written.
///
/// # Errors
/// If a table cannot be read.
pub(crate) fn measure(
    trace: &Trace,
    spaces: &mut Spaces,
    writes_observed: bool,
) -> Result<PageStates, TraceError> {
    let on = trace.meta().sensors.get("residency");
    if on.is_none_or(|state| state != "on") {
        return Ok(PageStates::default());
    }
    let page_bytes = trace.meta().host.page_bytes.unwrap_or(4096);
    let mut replay = Replay {
        spaces: HashMap::new(),
        shares: Vec::new(),
        drops: Drops::new(page_bytes, SharedMemory::read(trace)?),
    };
    // One scan after the other was recorded, so the rows are in order of time: they are not kept.
    let mut rows = trace.residency()?.peekable();
    let mut end_ns = 0;
    for (time_ns, step) in steps(trace, spaces)? {
        end_ns = end_ns.max(time_ns);
        let bound = time_ns.saturating_add(u64::from(matches!(step, Step::ScanEnds(_))));
        let is_due = |row: &Result<Residency, TraceError>| match row {
            Ok(row) => row.time_ns < bound,
            Err(_) => true,
        };
        while let Some(row) = rows.next_if(is_due) {
            replay.changed(&row?);
        }
        replay.step(time_ns, step);
    }
    let Replay {
        spaces,
        mut shares,
        drops,
    } = replay;
    for (_, states) in spaces {
        states.end(trace.meta().end_monotonic_ns.unwrap_or(end_ns), &mut shares);
    }
    Ok(PageStates {
        in_memory: shares.iter().map(Share::in_memory).collect(),
        shared_pages_gone: Some(drops.of_shared_memory()),
        dropped_without_write: match writes_observed {
            true => Some(count_drops(trace, drops)?),
            false => None,
        },
    })
}

/// All spaces and objects, now.
struct Replay {
    spaces: HashMap<u32, SpaceStates>,
    shares: Vec<Share>,
    drops: Drops,
}

impl Replay {
    fn changed(&mut self, row: &Residency) {
        let states = self.spaces.entry(row.space).or_default();
        if let Some(since_ns) = states.seen_before_ns() {
            self.drops.changed(row, since_ns, states.overlapped(row));
        }
        states.changed(row, &mut self.shares);
    }

    fn step(&mut self, time_ns: u64, step: Step) {
        let shares = &mut self.shares;
        match step {
            Step::ScanBegins(space) => self.spaces.entry(space).or_default().scan_begins(time_ns),
            Step::ScanEnds(space) => {
                let states = self.spaces.entry(space).or_default();
                states.scan_ends(time_ns, shares);
            }
            Step::Life(life) => self
                .spaces
                .entry(life.space)
                .or_default()
                .life(&life, shares),
            Step::SpaceEnds(space) => {
                if let Some(states) = self.spaces.remove(&space) {
                    states.end(time_ns, shares);
                }
            }
        }
    }
}

fn count_drops(trace: &Trace, mut drops: Drops) -> Result<u64, TraceError> {
    drops.sort();
    for event in trace.events()? {
        let event = event?;
        // A page of zeros is kept without a write, and counted as that.
        if matches!(event.kind, EventKind::PageWritten | EventKind::ZeroFilled) {
            drops.written(event.address, event.time_ns);
        }
    }
    Ok(drops.finish())
}

fn steps(trace: &Trace, spaces: &mut Spaces) -> Result<Vec<(u64, Step)>, TraceError> {
    let mut steps = Vec::new();
    for life in spaces.lives() {
        steps.push((life.time_ns, Step::Life(life)));
    }
    for scan in trace.residency_scans()? {
        let scan = scan?;
        steps.push((scan.time_ns, Step::ScanBegins(scan.space)));
        steps.push((scan.end_ns, Step::ScanEnds(scan.space)));
    }
    for space in trace.spaces()? {
        if let Some(end_ns) = space.end_ns {
            steps.push((end_ns, Step::SpaceEnds(space.space)));
        }
    }
    // Stable: of one moment, a scan's end after what it found.
    steps.sort_by_key(|(time_ns, step)| (*time_ns, matches!(step, Step::ScanEnds(_))));
    Ok(steps)
}
